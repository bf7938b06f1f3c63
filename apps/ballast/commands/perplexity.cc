#include "ballast/text/perplexity.h"

#include <fmt/format.h>

#include <memory>
#include <numbers>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostMeasuredBytes = uint64_t{1} << 30;

struct PerplexityFlags {
  ModelFlags model;
  std::string file;
  std::string tokenizer;
  PerplexityOptions options;
  uint64_t most_tokens = 0;
  bool json = false;
};

struct MeasuredText {
  Perplexity perplexity;
  uint64_t bytes = 0;  // of the tokens that were measured
  double seconds = 0;

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(perplexity.scored) / seconds : 0; }
  // Comparable between tokenizers.
  double bits_per_byte() const {
    return bytes == 0 ? 0 : perplexity.total / std::numbers::ln2 / static_cast<double>(bytes);
  }
};

Result<MeasuredText> measure_file(PerplexityFlags& flags, RunningModel& running, Console& console) {
  BALLAST_TRY(const TextModel model,
              TextModel::of(running.shared_model(), running.source(), {.tokenizer = flags.tokenizer}));
  const auto tokenizer = model.tokenizer();
  if (!tokenizer) return with_tokenizer_advice(tokenizer.error(), TokenizerAdvice::kTokenizer);
  BALLAST_TRY(const std::string text, read_text_input(flags.file, kMostMeasuredBytes));
  BALLAST_TRY(std::vector<TokenId> tokens, (*tokenizer)->encode(text));
  MeasuredText measured;
  measured.bytes = text.size();
  if (flags.most_tokens != 0 && tokens.size() > flags.most_tokens) {
    tokens.resize(flags.most_tokens);
    BALLAST_TRY(const std::string beginning, model.decode(tokens));
    measured.bytes = beginning.size();
  }
  ProgressBar bar(console.errors(), ProgressUnit::kTokens);
  flags.options.progress = bar.callback();
  const double start = seconds_now();
  auto perplexity = model.perplexity(tokens, flags.options);
  if (!perplexity) return std::move(perplexity).error().with_context(printable(flags.file));
  measured.perplexity = *perplexity;
  measured.seconds = seconds_now() - start;
  return measured;
}

std::string perplexity_json(const PerplexityFlags& flags, const RunningModel& running, const MeasuredText& measured) {
  const Perplexity& perplexity = measured.perplexity;
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", running.path());
  add_text(json, "file", flags.file);
  json.key("perplexity").real(perplexity.value());
  json.key("standard_error").real(perplexity.standard_error());
  json.key("nats_per_token").real(perplexity.mean());
  json.key("bits_per_byte").real(measured.bits_per_byte());
  add_number(json, "tokens", perplexity.tokens);
  add_number(json, "scored", perplexity.scored);
  add_number(json, "windows", perplexity.windows);
  add_number(json, "context", perplexity.context);
  add_number(json, "stride", perplexity.stride);
  json.key("seconds").real(measured.seconds);
  json.key("tokens_per_s").real(measured.tokens_per_second());
  json.end_object();
  return json.take() + '\n';
}

void print_perplexity(const MeasuredText& measured, Console& console) {
  const Perplexity& perplexity = measured.perplexity;
  print_line(console, Paint::kBold, "perplexity",
             fmt::format("{:.4f} ± {:.4f} ({:.4f} nats per token, {:.4f} bits per byte)", perplexity.value(),
                         perplexity.standard_error(), perplexity.mean(), measured.bits_per_byte()));
  console.remark(fmt::format("{} of {} scored in {} of {} tokens, stride {} · {:.1f} s, {:.0f} tokens/s\n",
                             perplexity.scored, counted(perplexity.tokens, "token"),
                             counted(perplexity.windows, "window"), perplexity.context, perplexity.stride,
                             measured.seconds, measured.tokens_per_second()));
}

int perplexity(PerplexityFlags& flags, Console& console) {
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto measured = measure_file(flags, **running, console);
  if (!measured) return console.fail(measured.error(), flags.json);
  if (flags.json) console.out() += perplexity_json(flags, **running, *measured);
  else print_perplexity(*measured, console);
  if (const Status status = (*running)->finish(console); !status) return console.fail(status.error(), flags.json);
  return kExitYes;
}

constexpr const char* kPerplexityFooter =
    "Perplexity is exp of the mean negative log-likelihood per token: lower is better, 1 is perfect. Compare it only\n"
    "between models with the same tokenizer, on the same text, with the same --context and --stride; bits per byte\n"
    "can be compared across tokenizers.\n"
    "\n"
    "The text is read in windows of --context tokens that start --stride tokens apart. Each window predicts the\n"
    "tokens that no earlier window predicted, so a smaller stride gives each token more context and takes longer.\n"
    "With --stride equal to --context the windows do not overlap. The result does not depend on the number of\n"
    "threads.\n"
    "\n"
    "Examples:\n"
    "  ballast perplexity model.gguf held_out.txt\n"
    "  ballast perplexity llama_model held_out.txt --context 128 --stride 64 --json\n"
    "  ballast perplexity model.gguf held_out.txt --max-tokens 10000\n";

}  // namespace

RunCommand add_perplexity(CLI::App& program, Console& console) {
  Command command(program, "perplexity", "Measure how well a text model predicts a text");
  auto flags = std::make_shared<PerplexityFlags>();
  command.path("MODEL", flags->model.path, "Text model to measure").or_model();
  command.path("FILE", flags->file, "Text to predict; - reads standard input");
  command.count("--context", "N", flags->options.context,
                "Tokens per window (default: the model's context, at most 2048)", 2);
  command.count("--stride", "N", flags->options.stride, "Tokens from one window to the next (default: half a window)",
                1);
  command.count("--max-tokens", "N", flags->most_tokens, "Measure the first N tokens of the text only", 2);
  command.text("--tokenizer", "FILE", flags->tokenizer, "Use this tokenizer (default: the model's own)");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kPerplexityFooter);
  return [flags, &console] { return perplexity(*flags, console); };
}

}  // namespace ballast::cli
