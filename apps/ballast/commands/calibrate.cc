#include "apps/ballast/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/backends/backends.h"
#include "ballast/edit/importance_file.h"
#include "ballast/models/model.h"
#include "ballast/text/calibration.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostCalibrationBytes = uint64_t{64} << 20;
// Windows of a calibration text: long enough for attention to settle, short enough to be quick.
constexpr uint64_t kCalibrationWindow = 512;

// The text in windows that do not overlap, so that every token counts once.
Result<Perplexity> read_through(const TextModel& model, const std::string& text_path, Console& console) {
  const auto tokenizer = model.tokenizer();
  if (!tokenizer) return with_tokenizer_advice(tokenizer.error(), TokenizerAdvice::kNothing);
  BALLAST_TRY(const std::string text, read_text_input(text_path, kMostCalibrationBytes));
  BALLAST_TRY(const std::vector<TokenId> tokens, (*tokenizer)->encode(text));
  ProgressBar bar(console.errors(), ProgressUnit::kTokens);
  const uint64_t window = std::min(model.writer().context_length(), kCalibrationWindow);
  auto perplexity = model.perplexity(tokens, {.context = window, .stride = window, .progress = bar.callback()});
  if (!perplexity) return std::move(perplexity).error().with_context(printable(text_path));
  return *perplexity;
}

Result<Calibration> collect(const CalibrationFlags& flags, const std::string& model_path, unsigned threads,
                            Console& console) {
  ImportanceCollector collector;
  // It watches wherever the model computes, and not only on the host.
  TextModelOptions options{.load = {.backend = std::string(default_backend().name), .threads = threads}};
  options.load.extend = [&collector](Registry& registry) { return collector.attach(registry); };
  BALLAST_TRY(const TextModel model, TextModel::open(model_path, options));
  BALLAST_TRY(const Perplexity perplexity, read_through(model, flags.text, console));
  if (!flags.save.empty()) {
    const ImportanceFileInfo info{{flags.text}, perplexity.context, perplexity.windows};
    auto saved = write_importance(flags.save, collector.matrix(), info);
    if (!saved) return std::move(saved).error().with_context("--save-imatrix");
  }
  return Calibration{std::make_shared<const ImportanceMatrix>(collector.take()), flags.text, perplexity.tokens,
                     perplexity.value()};
}

}  // namespace

void add_calibration_flags(Command& command, CalibrationFlags& flags) {
  const Flag text = command.text("--calibrate", "FILE", flags.text,
                                 "Run the model on this text and spend precision where the text needs it");
  command.text("--imatrix", "FILE", flags.imatrix, "Read the importance matrix from a GGUF file instead")
      .excludes(text);
  command.written_file("--save-imatrix", flags.save, "Save the importance matrix of --calibrate as a GGUF file")
      .needs(text);
}

Result<Calibration> calibrate(const CalibrationFlags& flags, const std::string& model_path, unsigned threads,
                              Console& console) {
  if (!flags.wanted()) return Calibration{};
  if (flags.imatrix.empty()) {
    auto collected = collect(flags, model_path, threads, console);
    if (!collected) return std::move(collected).error().with_context("--calibrate");
    return collected;
  }
  auto matrix = read_importance(flags.imatrix);
  if (!matrix) return std::move(matrix).error().with_context("--imatrix");
  return Calibration{std::make_shared<const ImportanceMatrix>(*std::move(matrix)), flags.imatrix, 0, 0};
}

void add_calibration(JsonWriter& json, const Calibration& calibration, size_t tensors) {
  if (!calibration.matrix) return add_null(json, "calibration");
  json.key("calibration").begin_object();
  add_text(json, "file", calibration.source);
  add_number(json, "tensors", tensors);
  if (calibration.tokens != 0) {
    add_number(json, "tokens", calibration.tokens);
    json.key("perplexity_before").real(calibration.perplexity);
  }
  json.end_object();
}

void print_calibration(const Calibration& calibration, size_t tensors, Console& console) {
  if (!calibration.matrix) return;
  std::string text = fmt::format("{} weighted by {}", counted(tensors, "tensor"), printable(calibration.source));
  if (calibration.tokens != 0) {
    text += fmt::format(" ({}, perplexity {:.4f} before quantising)", counted(calibration.tokens, "token"),
                        calibration.perplexity);
  }
  print_line(console, Paint::kBold, "calibration:", text);
}

}  // namespace ballast::cli
