#include "bindings/c/text_object.h"

namespace ballast::c {

void log_notes(const Tokenizer& tokenizer) {
  for (const std::string& note : tokenizer.notes()) log(BALLAST_LOG_WARNING, "tokenizer: " + note);
}

void log_load(const LoadedModel& model) {
  const LoadReport& report = model.report();
  if (!report.unused.empty()) {
    log(BALLAST_LOG_INFO, std::to_string(report.unused.size()) + " tensors of the file are not used by the model: " +
                              report.unused.front() + (report.unused.size() > 1 ? ", ..." : ""));
  }
  if (report.narrowed != 0) {
    log(BALLAST_LOG_INFO, std::to_string(report.narrowed) + " tensors are stored as f64 and computed with as f32");
  }
}

Result<LoadOptions> load_options(const ballast_model_options& given) {
  LoadOptions options;
  options.backend = text_or_empty(given.backend);
  options.threads = given.threads;
  options.numerics = given.exact ? Numerics::kExact : Numerics::kFast;
  if (given.param_budget != 0) options.param_budget = given.param_budget;
  if (given.config != nullptr) options.config_text = given.config;
  return options;
}

ballast_generate_options to_c(const GenerateOptions& options) {
  ballast_generate_options copy = {};
  copy.max_tokens = options.max_tokens;
  copy.temperature = options.sampling.temperature;
  copy.top_k = options.sampling.top_k;
  copy.top_p = options.sampling.top_p;
  copy.min_p = options.sampling.min_p;
  copy.repetition_penalty = options.sampling.repetition_penalty;
  copy.repetition_window = options.sampling.repetition_window;
  copy.seed = options.sampling.seed;
  copy.context_shift = options.context_shift;
  copy.half_cache = options.cache_dtype == DType::kF16;
  return copy;
}

Result<Generation> given_generation(const ballast_generate_options* given, const TextModel& model,
                                    const GenerateOptions& usual) {
  BALLAST_TRY(const ballast_generate_options options, given_options(given, to_c(usual)));
  Generation generation{.options = usual, .stops = {}, .cancel = nullptr, .priority = options.priority};
  BALLAST_TRY(generation.stops, given_texts(options.stops, options.stop_count, "a stop text"));
  BALLAST_TRY(generation.cancel, given_cancel(options.cancel));
  GenerateOptions& to = generation.options;
  to.max_tokens = options.max_tokens;
  to.sampling.temperature = options.temperature;
  to.sampling.top_k = options.top_k;
  to.sampling.top_p = options.top_p;
  to.sampling.min_p = options.min_p;
  to.sampling.repetition_penalty = options.repetition_penalty;
  to.sampling.repetition_window = options.repetition_window;
  to.sampling.seed = options.seed;
  to.context_shift = options.context_shift;
  to.cache_dtype = options.half_cache ? DType::kF16 : DType::kF32;
  if (const auto cancel = generation.cancel) to.cancelled = [cancel] { return cancel->requested.load(); };
  BALLAST_CHECK(check_sampler_options(to.sampling));
  if (options.constraint != nullptr) {
    BALLAST_TRY(const auto constraint, use(options.constraint));
    BALLAST_TRY(to.constraint, model.constrain(*constraint));
  }
  return generation;
}

}  // namespace ballast::c
