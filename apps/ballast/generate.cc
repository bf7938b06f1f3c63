#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/interrupt.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/model_flags.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/sampling_flags.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/streams.h"
#include "apps/ballast/text.h"
#include "ballast/text/stop_text.h"

namespace ballast::cli {

namespace {

struct GenerateFlags {
  ModelFlags model;
  std::string prompt;
  std::string prompts;  // a file of them
  std::vector<std::string> tokens;
  std::string tokenizer;
  std::vector<std::string> stop;
  SamplingFlags sampling;
  bool ignore_eos = false;
  bool kv_cache = false;  // asked for, which it is anyway
  bool no_kv_cache = false;
  uint64_t warmup_tokens = 0;
  bool json = false;
  GenerateOptions options;  // its sampling is settled when the model is known
};

struct Timings {
  double load = 0, prefill = 0, decode = 0;  // seconds
  size_t decoded = 0;                        // tokens that `decode` is the time of
};

struct Written {
  std::vector<TokenId> prompt;
  std::vector<SampledToken> tokens;
  std::string text;
  std::string_view stop;
  std::optional<uint64_t> seed;  // where anything was drawn
  bool interrupted = false;
  Timings timings;
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

// Turns tokens into what is shown: whole characters, up to a stop string.
class Voice {
 public:
  Voice(const Tokenizer* tokenizer, std::vector<std::string> stops) : stops_(std::move(stops)) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  }
  Result<std::string> say(TokenId id) {
    if (!decoder_) return fmt::format("{} ", id);
    BALLAST_TRY(const std::string text, decoder_->next(id));
    return stops_.next(text);
  }
  bool stopped() const { return stops_.found(); }
  std::string finish() {
    std::string rest = decoder_ ? stops_.next(decoder_->finish()) : "";
    return rest + stops_.finish();
  }

 private:
  std::optional<StreamDecoder> decoder_;
  StopText stops_;
};

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

Result<Written> write(const GenerateFlags& flags, const RunningModel& running, const TextModel& text,
                      Console& console) {
  Written written;
  BALLAST_TRY(written.prompt, make_prompt(flags, text));
  GenerateOptions options = flags.options;
  options.kv_cache = !flags.no_kv_cache;
  options.sampling.log_probabilities = flags.json;
  if (options.sampling.temperature > 0) written.seed = options.sampling.seed;
  const auto stops = text.stop_tokens();
  if (!flags.ignore_eos) options.stop_tokens.assign(stops.begin(), stops.end());
  const CancelScope cancel;
  options.cancelled = interrupted;
  double start = seconds_now();
  BALLAST_TRY(Generator generator, start_generator(text, written.prompt, options, console));
  written.timings = {running.load_seconds(), seconds_now() - start, 0, 0};
  const auto tokenizer = text.tokenizer();
  Voice voice(tokenizer ? *tokenizer : nullptr, flags.stop);
  const auto show = [&](const std::string& piece) {
    written.text += piece;
    if (flags.json) return;
    // A model may have learnt to say anything, also what would redraw the terminal.
    console.out() += console.output().interactive ? without_controls(piece) : piece;
    console.flush();
  };
  start = seconds_now();
  while (!voice.stopped() && !written.interrupted && !console.reader_gone()) {
    if (written.tokens.size() == flags.warmup_tokens) start = seconds_now();
    BALLAST_TRY(const auto token, generator.next());
    if (!token) break;
    written.tokens.push_back(*token);
    BALLAST_TRY(const std::string piece, voice.say(token->id));
    show(piece);
    written.interrupted = interrupted();
  }
  show(voice.finish());
  if (written.tokens.size() > flags.warmup_tokens) {
    written.timings.decode = seconds_now() - start;
    written.timings.decoded = written.tokens.size() - flags.warmup_tokens;
  }
  if (written.interrupted) written.stop = "interrupted";
  else if (console.reader_gone()) written.stop = "reader_gone";
  else written.stop = stop_name(generator.stop_reason());
  return written;
}

// ---------------------------------------------------------------- saying so

double rate(size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

std::string generate_json(const RunningModel& running, const Written& written) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", running.path());
  json.key("prompt_tokens").begin_array();
  for (const TokenId id : written.prompt) json.number(id);
  json.end_array().key("tokens").begin_array();
  for (const SampledToken& token : written.tokens) json.number(token.id);
  json.end_array();
  add_text(json, "text", written.text);
  json.key("logprobs").begin_array();
  for (const SampledToken& token : written.tokens) json.real(token.log_probability);
  json.end_array();
  add_text(json, "stop", written.stop);
  if (written.seed) add_number(json, "seed", *written.seed);
  else add_null(json, "seed");
  json.key("timings").begin_object();
  json.key("load_ms").real(written.timings.load * 1e3).key("prefill_ms").real(written.timings.prefill * 1e3);
  json.key("decode_ms").real(written.timings.decode * 1e3);
  json.key("prefill_tokens_per_s").real(rate(written.prompt.size(), written.timings.prefill));
  json.key("decode_tokens_per_s").real(rate(written.timings.decoded, written.timings.decode));
  json.end_object().end_object();
  return json.take() + '\n';
}

void print_end(const Written& written, Console& console) {
  console.out() += '\n';
  console.remark(fmt::format(
      "load {:.0f} ms · prompt {}, {:.0f} tokens/s · {}, {:.1f} tokens/s · {}{}\n", written.timings.load * 1e3,
      counted(written.prompt.size(), "token"), rate(written.prompt.size(), written.timings.prefill),
      counted(written.tokens.size(), "token"), rate(written.timings.decoded, written.timings.decode), written.stop,
      written.seed ? fmt::format(" · seed {}", *written.seed) : ""));
}

int write_once(const GenerateFlags& flags, const RunningModel& running, const TextModel& model, Console& console) {
  const auto written = write(flags, running, model, console);
  if (!written) return console.fail(written.error(), flags.json);
  if (flags.json) console.out() += generate_json(running, *written);
  else print_end(*written, console);
  return written->interrupted ? kExitInterrupted : kExitYes;
}

// ---------------------------------------------------------------- a file of prompts

constexpr uint64_t kMostPrompts = uint64_t{1} << 30;  // bytes

// A line of JSON for each, as soon as it is there.
int write_batch(const GenerateFlags& flags, const RunningModel& running, const TextModel& model, Console& console) {
  const auto text = read_text_input(flags.prompts, kMostPrompts);
  if (!text) return console.fail(text.error(), flags.json);
  const std::vector<std::string_view> prompts = lines_of(*text);
  GenerateFlags one = flags;
  one.json = true;
  size_t tokens = 0;
  const double start = seconds_now();
  for (size_t i = 0; i < prompts.size() && !console.reader_gone(); ++i) {
    one.prompt = prompts[i];
    auto written = write(one, running, model, console);
    if (!written) {
      const std::string place = fmt::format("{}: line {}", printable(flags.prompts), i + 1);
      return console.fail(std::move(written).error().with_context(place), flags.json);
    }
    tokens += written->tokens.size();
    console.out() += generate_json(running, *written);
    console.flush();
    if (console.errors().interactive)
      console.remark(fmt::format("{} of {}\n", i + 1, counted(prompts.size(), "prompt")));
    if (written->interrupted) return kExitInterrupted;
  }
  console.remark(fmt::format("{}, {}, {:.1f} tokens/s\n", counted(prompts.size(), "prompt"), counted(tokens, "token"),
                             rate(tokens, seconds_now() - start)));
  return kExitYes;
}

Status check_prompts(const GenerateFlags& flags) {
  const int given = int{!flags.tokens.empty()} + int{!flags.prompt.empty()} + int{!flags.prompts.empty()};
  if (given <= 1) return {};
  return make_error(ErrorCode::kInvalidArgument, "--prompt, --prompts and --tokens cannot be combined");
}

int generate(GenerateFlags flags, Console& console) {
  if (const Status status = check_prompts(flags); !status) return console.fail(status.error(), flags.json);
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto text = TextModel::of((*running)->shared_model(), (*running)->source(), {.tokenizer = flags.tokenizer});
  if (!text) return console.fail(text.error(), flags.json);
  flags.options.sampling = settle_sampling(text->generate_options().sampling, flags.sampling);
  if (const auto tokenizer = text->tokenizer(); !tokenizer && flags.tokens.empty())
    return console.fail(with_tokenizer_advice(tokenizer.error()), flags.json);
  const auto run = flags.prompts.empty() ? write_once : write_batch;
  const int code = run(flags, **running, *text, console);
  if (code != kExitYes && code != kExitInterrupted) return code;
  if (const Status status = (*running)->finish(console); !status) return console.fail(status.error(), flags.json);
  return code;
}

constexpr const char* kGenerateFooter =
    "Continues a prompt. Without MODEL, uses the small model that comes with Ballast. The text goes to standard\n"
    "output as it is generated, timings go to standard error. The same seed gives the same text on any number of\n"
    "threads.\n"
    "\n"
    "Examples:\n"
    "  ballast generate\n"
    "  ballast generate --prompt 'My dear Emma,' --max-tokens 60 --seed 7\n"
    "  ballast generate model.gptrs --tokens 4,4 --greedy --max-tokens 8 --json\n"
    "  echo 'The morning was' | ballast generate --prompt - --temperature 0.6 --stop '.'\n"
    "  ballast generate model.gptrs --tokens 1,2,3 --param-budget 25% --stats\n"
    "  printf 'It was\\nShe said' | ballast generate --prompts - --max-tokens 8\n";

}  // namespace

RunCommand add_generate(CLI::App& program, Console& console) {
  auto shared = std::make_shared<Command>(program, "generate", "Generate text from a prompt");
  Command& command = *shared;
  auto flags = std::make_shared<GenerateFlags>();
  GenerateOptions& options = flags->options;
  command.optional_path("MODEL", flags->model.path, "A text model: file or folder");
  command.text("--prompt", "TEXT", flags->prompt, "Text to continue; - reads standard input");
  command.text("--prompts", "FILE", flags->prompts, "Read one prompt per line; print one JSON object per line");
  command.texts("--tokens", "IDS", flags->tokens, "Give the prompt as token ids: 1,2,3");
  command.text("--tokenizer", "FILE", flags->tokenizer, "Use this tokenizer (default: the model's own)");
  add_sampling_flags(command, flags->sampling, options.max_tokens);
  command.texts("--stop", "TEXT", flags->stop, "Stop at this text; may be repeated");
  command.flag("--ignore-eos", flags->ignore_eos, "Continue past end-of-text tokens");
  const Flag cached = command.flag("--kv-cache", flags->kv_cache, "Use the KV cache (default)");
  command.flag("--no-kv-cache", flags->no_kv_cache, "Recompute everything for each token").excludes(cached);
  command.count("--kv-cache-capacity", "N", options.cache_capacity, "Allocate the KV cache for N tokens up front", 1);
  command.choice("--kv-cache-dtype", "TYPE", options.cache_dtype,
                 std::vector<std::pair<std::string, DType>>{{"f32", DType::kF32}, {"f16", DType::kF16}},
                 "Store the KV cache as f32 (default) or f16");
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
