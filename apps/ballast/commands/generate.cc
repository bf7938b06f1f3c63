#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/generate_batch.h"
#include "apps/ballast/flags/constraint_flags.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/flags/sampling_flags.h"
#include "apps/ballast/output/generated_text.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostParallel = 1024;

struct GenerateFlags {
  ModelFlags model;
  std::string prompt;
  std::string prompts;  // a file of them
  uint64_t parallel = 8;
  std::vector<std::string> tokens;
  std::string tokenizer;
  std::vector<std::string> stop;
  SamplingFlags sampling;
  ConstraintFlags constraint;
  bool ignore_eos = false;
  bool kv_cache = false;  // asked for, which it is anyway
  bool no_kv_cache = false;
  uint64_t warmup_tokens = 0;
  bool json = false;
  GenerateOptions options;  // its sampling is settled when the model is known
};

struct Written : GeneratedText {
  bool interrupted = false;
};

// ---------------------------------------------------------------- the prompt

Result<std::vector<TokenId>> make_prompt(const GenerateFlags& flags, const TextModel& text) {
  if (!flags.tokens.empty()) return parse_token_list(flags.tokens);
  std::string prompt = flags.prompt;
  if (is_stream(prompt)) BALLAST_CHECK(assign(prompt, read_prompt_input()));
  return text.encode(prompt);
}

// ---------------------------------------------------------------- writing

std::string_view stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxTokens: return "max_tokens";
    case StopReason::kStopToken: return "end_of_text";
    case StopReason::kContextFull: return "context_full";
    case StopReason::kNone: break;
  }
  return "stop_text";
}

// Shows how far a long prompt is. The bar is gone when the first token is written.
Result<Generator> start_generator(const TextModel& text, const std::vector<TokenId>& prompt, GenerateOptions options,
                                  const Console& console) {
  constexpr uint64_t kLongPrompt = 64;  // tokens; a shorter one is done before anybody has read the line
  ProgressBar bar(console.errors(), ProgressUnit::kTokens);
  options.on_prompt = [progress = bar.callback()](uint64_t done, uint64_t total) {
    if (total >= kLongPrompt) progress({"reading the prompt", done, total});
  };
  BALLAST_TRY(Generator generator, text.start(prompt, options));
  generator.forget_on_prompt();
  return generator;
}

// What the flags ask of this model.
GenerateOptions options_for(const GenerateFlags& flags, const TextModel& text) {
  GenerateOptions options = flags.options;
  options.sampling = settle_sampling(text.generate_options().sampling, flags.sampling);
  options.sampling.log_probabilities = flags.json;
  options.kv_cache = !flags.no_kv_cache;
  if (!flags.ignore_eos) options.stop_tokens = text.generate_options().stop_tokens;
  return options;
}

Result<Written> write(const GenerateFlags& flags, GenerateOptions options, const std::optional<Constraint>& constraint,
                      const TextModel& text, Console& console) {
  Written written;
  BALLAST_TRY(written.prompt, make_prompt(flags, text));
  if (options.sampling.temperature > 0) written.seed = options.sampling.seed;
  const CancelScope cancel;
  options.cancelled = interrupted;
  double start = seconds_now();
  BALLAST_TRY(Generator generator, start_generator(text, written.prompt, options, console));
  written.prefill = seconds_now() - start;
  TextStream stream = text.make_stream(flags.stop);
  const auto show = [&](const std::string& piece) {
    written.text += piece;
    if (flags.json) return;
    // A model may have learnt to say anything, also what would redraw the terminal.
    console.out() += console.output().interactive ? without_controls(piece) : piece;
    console.flush();
  };
  start = seconds_now();
  while (!stream.stopped() && !written.interrupted && !console.reader_gone()) {
    if (written.tokens.size() == flags.warmup_tokens) start = seconds_now();
    BALLAST_TRY(const auto token, generator.next());
    if (!token) break;
    written.tokens.push_back(*token);
    BALLAST_TRY(const std::string piece, stream.next(token->id));
    show(piece);
    written.interrupted = interrupted();
  }
  BALLAST_TRY(const std::string rest, stream.finish());
  show(rest);
  if (written.tokens.size() > flags.warmup_tokens) {
    written.decode = seconds_now() - start;
    written.decoded = written.tokens.size() - flags.warmup_tokens;
  }
  if (written.interrupted) written.stop = "interrupted";
  else if (console.reader_gone()) written.stop = "reader_gone";
  else written.stop = stop_name(generator.stop_reason());
  if (constraint) written.complete = constraint->accepts(written.text);
  return written;
}

// ---------------------------------------------------------------- saying so

std::string generate_json(const RunningModel& running, const Written& written) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", running.path());
  add_generated(json, written, running.load_seconds());
  json.end_object();
  return json.take() + '\n';
}

void print_end(const RunningModel& running, const Written& written, Console& console) {
  console.out() += '\n';
  console.remark(fmt::format(
      "load {:.0f} ms · prompt {}, {:.0f} tokens/s · {}, {:.1f} tokens/s · {}{}{}\n", running.load_seconds() * 1e3,
      counted(written.prompt.size(), "token"), tokens_per_second(written.prompt.size(), written.prefill),
      counted(written.tokens.size(), "token"), tokens_per_second(written.decoded, written.decode), written.stop,
      written.complete.value_or(true) ? "" : " · incomplete",
      written.seed ? fmt::format(" · seed {}", *written.seed) : ""));
}

Result<int> write_once(const GenerateFlags& flags, const GenerateOptions& options,
                       const std::optional<Constraint>& constraint, const RunningModel& running, const TextModel& model,
                       Console& console) {
  BALLAST_TRY(const Written written, write(flags, options, constraint, model, console));
  if (flags.json) console.out() += generate_json(running, written);
  else print_end(running, written, console);
  return written.interrupted ? kExitInterrupted : kExitYes;
}

// ---------------------------------------------------------------- from the flags on

Status check_prompts(const GenerateFlags& flags) {
  const int given = int{!flags.tokens.empty()} + int{!flags.prompt.empty()} + int{!flags.prompts.empty()};
  if (given <= 1) return {};
  return make_error(ErrorCode::kInvalidArgument, "--prompt, --prompts and --tokens cannot be combined: give one");
}

// A model without a tokenizer continues token ids.
Status check_tokenizer(const GenerateFlags& flags, const std::vector<FilePrompt>& prompts, const TextModel& text) {
  const bool has_text = flags.prompts.empty()
                            ? flags.tokens.empty()
                            : std::ranges::any_of(prompts, [](const auto& p) { return p.tokens.empty(); });
  const auto tokenizer = text.tokenizer();
  return has_text && !tokenizer ? Status(with_tokenizer_advice(tokenizer.error(), TokenizerAdvice::kTokenizerOrTokens))
                                : Status();
}

Result<int> run_generate(const GenerateFlags& flags, Console& console) {
  BALLAST_CHECK(check_prompts(flags));
  BALLAST_TRY(const std::optional<Constraint> constraint, read_constraint(flags.constraint));
  if (constraint && flags.ignore_eos) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--ignore-eos cannot be combined with a constraint: its text must be able to end");
  }
  std::vector<FilePrompt> prompts;
  if (!flags.prompts.empty()) BALLAST_CHECK(assign(prompts, read_prompt_file(flags.prompts)));
  BALLAST_TRY(const auto running, RunningModel::load(flags.model));
  BALLAST_TRY(const TextModel text,
              TextModel::of(running->shared_model(), running->source(), {.tokenizer = flags.tokenizer}));
  BALLAST_CHECK(check_tokenizer(flags, prompts, text));
  GenerateOptions options = options_for(flags, text);
  if (constraint) BALLAST_CHECK(assign(options.constraint, text.constrain(*constraint)));
  int code = kExitYes;
  if (flags.prompts.empty()) {
    BALLAST_CHECK(assign(code, write_once(flags, options, constraint, *running, text, console)));
  } else {
    const BatchSettings settings{.file = is_stream(flags.prompts) ? "standard input" : flags.prompts,
                                 .parallel = flags.parallel,
                                 .options = std::move(options),
                                 .constraint = constraint,
                                 .stop = flags.stop,
                                 .warmup_tokens = flags.warmup_tokens,
                                 .json = flags.json};
    BALLAST_CHECK(assign(code, generate_batch(settings, prompts, *running, text, console)));
  }
  BALLAST_CHECK(running->finish(console));
  return code;
}

int generate(const GenerateFlags& flags, Console& console) {
  const auto code = run_generate(flags, console);
  return code ? *code : console.fail(code.error(), flags.json);
}

constexpr const char* kGenerateFooter =
    "Continues a prompt. Without MODEL, uses the small model that comes with Ballast. The text goes to standard\n"
    "output as it is generated, timings go to standard error. The same seed gives the same text on any number of\n"
    "threads.\n"
    "\n"
    "--prompts continues many prompts, --parallel of them at a time, each to the text it gets alone, and prints them "
    "in\n"
    "the order of the file. A line is a prompt; or JSON: {\"prompt\": TEXT or \"tokens\": [IDS], \"id\", "
    "\"max_tokens\",\n"
    "\"seed\"}. Prompts without a seed use --seed. If a prompt fails, the others continue, and the exit code is 2.\n"
    "\n"
    "--json-object, --json-schema, --grammar and --regex let the model write nothing else (docs/structured.md). A text "
    "that\n"
    "--max-tokens cuts off is incomplete, which is reported.\n"
    "\n"
    "Examples:\n"
    "  ballast generate\n"
    "  ballast generate --prompt 'My dear Emma,' --max-tokens 60 --seed 7\n"
    "  ballast generate model.gptrs --tokens 4,4 --greedy --max-tokens 8 --json\n"
    "  echo 'The morning was' | ballast generate --prompt - --temperature 0.6 --stop '.'\n"
    "  ballast generate model.gptrs --tokens 1,2,3 --param-budget 25% --stats\n"
    "  printf 'It was\\nShe said' | ballast generate --prompts - --max-tokens 8\n"
    "  printf 'It was\\nShe said' | ballast generate --prompts - --parallel 2 --max-tokens 8 --json\n";

}  // namespace

RunCommand add_generate(CLI::App& program, Console& console) {
  auto shared = std::make_shared<Command>(program, "generate", "Generate text from a prompt");
  Command& command = *shared;
  auto flags = std::make_shared<GenerateFlags>();
  GenerateOptions& options = flags->options;
  command.optional_path("MODEL", flags->model.path, "A text model: file or folder");
  command.text("--prompt", "TEXT", flags->prompt, "Text to continue; - reads standard input");
  const Flag many =
      command.text("--prompts", "FILE", flags->prompts, "Continue each line of this file; - reads standard input");
  command.count("--parallel", "N", flags->parallel, "Compute N of the prompts at a time (8)", 1, kMostParallel)
      .needs(many);
  command.texts("--tokens", "IDS", flags->tokens, "Give the prompt as token ids: 1,2,3");
  command.text("--tokenizer", "FILE", flags->tokenizer, "Use this tokenizer (default: the model's own)");
  add_sampling_flags(command, flags->sampling, options.max_tokens);
  command.texts("--stop", "TEXT", flags->stop, "Stop at this text; may be repeated");
  add_constraint_flags(command, flags->constraint);
  command.flag("--ignore-eos", flags->ignore_eos, "Continue past end-of-text tokens");
  const Flag cached = command.flag("--kv-cache", flags->kv_cache, "Use the KV cache (default)");
  command.flag("--no-kv-cache", flags->no_kv_cache, "Recompute everything for each token").excludes(cached);
  command.count("--kv-cache-capacity", "N", options.cache_capacity,
                "Refuse texts that need more than N tokens in the KV cache", 1);
  add_cache_dtype_flag(command, options.cache_dtype);
  command.count("--warmup-tokens", "N", flags->warmup_tokens, "Exclude the first N tokens from the reported speed");
  command.flag("--context-shift", options.context_shift, "When the context is full, drop its oldest tokens");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kGenerateFooter);
  return [flags, shared, &console] {
    flags->sampling.given = shared->given();
    return generate(*flags, console);
  };
}

}  // namespace ballast::cli
