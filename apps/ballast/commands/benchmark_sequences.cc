#include "apps/ballast/commands/benchmark_sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/interrupt.h"
#include "ballast/base/human_size.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/models/model.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostSequences = 1024;

// Others for each sequence, from the first token on where the vocabulary allows it.
std::vector<TokenId> tokens_of_sequence(uint64_t sequence, uint64_t count, uint64_t vocabulary) {
  std::vector<TokenId> ids(count);
  for (uint64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<TokenId>((i * 7919 + sequence * (104'729 + 31 * i)) % vocabulary);
  }
  return ids;
}

// Greedy, and nothing ends the text but its length.
Result<Request> bare_request(const TextModel& model, std::vector<TokenId> prompt, uint64_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampling.temperature = 0;
  options.sampling.log_probabilities = false;
  return model.make_request(std::move(prompt), options);
}

// One pass. An event that tells of a failure is an error here; gives how many texts got a token.
Result<uint64_t> step(Engine& engine) {
  if (interrupted()) return make_error(ErrorCode::kCancelled, "interrupted");
  BALLAST_TRY(const std::vector<EngineEvent> events, engine.step());
  uint64_t tokens = 0;
  for (const EngineEvent& event : events) {
    if (event.error) return *event.error;
    tokens += event.kind == EngineEvent::Kind::kToken ? 1 : 0;
  }
  return tokens;
}

// Prompts are computed once: every round goes back to their ends.
class SequenceBench {
 public:
  static Result<SequenceBench> start(const TextModel& model, const SequenceSettings& settings);
  // Of so many sequences: the mean seconds of a step.
  Result<double> round(uint64_t sequences);
  uint64_t steps() const { return steps_; }
  // Of the pasts of so many sequences, after a round with them.
  uint64_t cache_bytes(uint64_t sequences) const;

 private:
  explicit SequenceBench(const TextModel& model) : model_(&model) {}
  void fit(const SequenceSettings& settings);
  Status read_prompts(uint64_t sequences);
  Status decode(uint64_t sequences, uint64_t steps);

  struct Text {
    std::vector<TokenId> prompt;
    std::shared_ptr<KvSequence> past;
  };

  const TextModel* model_;
  std::unique_ptr<Engine> engine_;
  std::vector<Text> texts_;
  uint64_t prompt_tokens_ = 0, warmup_ = 0, steps_ = 0;
};

// What exceeds the context is cut, as for a single text.
void SequenceBench::fit(const SequenceSettings& settings) {
  const uint64_t room = model_->writer().context_length();
  steps_ = std::min(settings.max_tokens, room - 1);
  warmup_ = std::min(settings.warmup_tokens, room - 1 - steps_);
  prompt_tokens_ = std::min(settings.prompt_tokens, room - steps_ - warmup_);
}

Result<SequenceBench> SequenceBench::start(const TextModel& model, const SequenceSettings& settings) {
  SequenceBench bench(model);
  bench.fit(settings);
  const uint64_t most = std::ranges::max(settings.counts);
  EngineOptions options;
  options.most_sequences = most;
  options.most_rows = std::max(options.most_rows, most);
  options.cache_dtype = settings.cache_dtype;
  options.share_prefixes = false;
  options.kept_before = bench.warmup_ + bench.steps_ + 1;  // so that layers with a window can go back, too
  BALLAST_TRY(bench.engine_, model.start_engine(options));
  BALLAST_CHECK(bench.read_prompts(most));
  return bench;
}

Status SequenceBench::read_prompts(uint64_t sequences) {
  for (uint64_t i = 0; i < sequences; ++i) {
    Text& text = texts_.emplace_back();
    text.prompt = tokens_of_sequence(i, prompt_tokens_, model_->writer().vocab_size());
    BALLAST_TRY(text.past, engine_->make_past());
    BALLAST_TRY(Request request, bare_request(*model_, text.prompt, 0));
    request.past = text.past;
    BALLAST_CHECK(engine_->submit(std::move(request)));
  }
  while (!engine_->is_idle()) BALLAST_CHECK(step(*engine_));
  return {};
}

Status SequenceBench::decode(uint64_t sequences, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    BALLAST_TRY(const uint64_t tokens, step(*engine_));
    if (tokens == sequences) continue;
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("a step gave tokens to {} of {} texts: at this length the model computes texts again; "
                    "measure with other --prompt-tokens or --max-tokens",
                    tokens, sequences));
  }
  return {};
}

Result<double> SequenceBench::round(uint64_t sequences) {
  for (uint64_t i = 0; i < sequences; ++i) {
    // The first token comes from the prompt's last row, which is computed again: that step is not measured.
    BALLAST_TRY(Request request, bare_request(*model_, texts_[i].prompt, 1 + warmup_ + steps_));
    request.past = texts_[i].past;
    BALLAST_CHECK(engine_->submit(std::move(request)));
  }
  BALLAST_CHECK(decode(sequences, 1 + warmup_));
  const double start = seconds_now();
  BALLAST_CHECK(decode(sequences, steps_));
  return (seconds_now() - start) / static_cast<double>(steps_);
}

uint64_t SequenceBench::cache_bytes(uint64_t sequences) const {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < sequences; ++i) bytes += texts_[i].past->bytes();
  return bytes;
}

// Seconds until the request has its first token.
Result<double> time_to_first_token(Engine& engine, Request request) {
  const double start = seconds_now();
  BALLAST_CHECK(engine.submit(std::move(request)));
  for (uint64_t tokens = 0; tokens == 0;) BALLAST_CHECK(assign(tokens, step(engine)));
  return seconds_now() - start;
}

std::string in_ms(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

}  // namespace

RoundTimes times_of(std::vector<double> rounds) {
  std::ranges::sort(rounds);
  const size_t half = rounds.size() / 2;
  const double median = rounds.size() % 2 != 0 ? rounds[half] : (rounds[half - 1] + rounds[half]) / 2;
  return {rounds.front(), median};
}

Result<std::vector<uint64_t>> parse_sequence_counts(const std::string& text) {
  std::vector<uint64_t> counts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    at = comma + 1;
    uint64_t count = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (failure != std::errc() || end != word.data() + word.size() || count == 0 || count > kMostSequences) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--sequences: \"{}\" is not a number from 1 to {}; write several separated by "
                                    "commas: 1,2,4,8",
                                    word, kMostSequences));
    }
    counts.push_back(count);
  }
  return counts;
}

Result<std::vector<SequenceMeasure>> measure_sequences(const TextModel& model, const SequenceSettings& settings,
                                                       double flop_per_token) {
  BALLAST_TRY(SequenceBench bench, SequenceBench::start(model, settings));
  std::vector<SequenceMeasure> measures;
  for (const uint64_t count : settings.counts) {
    std::vector<double> rounds;
    for (uint64_t i = 0; i < settings.rounds; ++i) {
      BALLAST_TRY(rounds.emplace_back(), bench.round(count));
    }
    measures.push_back({.sequences = count,
                        .steps = bench.steps(),
                        .step = times_of(std::move(rounds)),
                        .cache_bytes = bench.cache_bytes(count),
                        .flop = flop_per_token * static_cast<double>(count)});
  }
  return measures;
}

Result<PrefixMeasure> measure_shared_prefix(const TextModel& model, uint64_t prefix, const SequenceSettings& settings) {
  const CausalLm& lm = model.writer();
  if (prefix >= lm.context_length()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--shared-prefix {}: with a token behind it that exceeds the model's context of {}",
                                  prefix, lm.context_length()));
  }
  PrefixMeasure measure{.prefix = prefix};
  EngineOptions options;
  options.cache_dtype = settings.cache_dtype;
  std::vector<double> first, second;
  for (uint64_t i = 0; i < settings.rounds; ++i) {
    BALLAST_TRY(const auto engine, model.start_engine(options));
    for (std::vector<double>* times : {&first, &second}) {
      std::vector<TokenId> prompt = tokens_of_sequence(0, prefix, lm.vocab_size());
      prompt.push_back(times == &first ? 0 : 1);
      BALLAST_TRY(Request request, bare_request(model, std::move(prompt), 1));
      BALLAST_TRY(times->emplace_back(), time_to_first_token(*engine, std::move(request)));
    }
    measure.reused = engine->counters().reused_tokens;
  }
  measure.first = times_of(std::move(first));
  measure.second = times_of(std::move(second));
  return measure;
}

// ---------------------------------------------------------------- printing

void print_sequences(const std::vector<SequenceMeasure>& measures, const std::optional<MachineSpeed>& machine,
                     Console& console) {
  Table table({{"sequences", Align::kRight},
               {"ms/step", Align::kRight},
               {"median", Align::kRight},
               {"tokens/s", Align::kRight},
               {"median", Align::kRight},
               {"speedup", Align::kRight},
               {"KV cache", Align::kRight},
               {"compute used", Align::kRight}});
  for (const SequenceMeasure& m : measures) {
    table.add_row(Cell(std::to_string(m.sequences), Paint::kBold), in_ms(m.step.best), in_ms(m.step.median),
                  fmt::format("{:.1f}", m.rate(m.step.best)), fmt::format("{:.1f}", m.rate(m.step.median)),
                  fmt::format("x{:.2f}", m.rate(m.step.best) / measures.front().rate(measures.front().step.best)),
                  human_size(m.cache_bytes),
                  machine ? fmt::format("{:.0f}%", 100 * m.flop / m.step.best / machine->flops) : "");
  }
  console.out() += '\n';
  table.append_to(console.out(), console.output());
}

void print_shared_prefix(const PrefixMeasure& measure, Console& console) {
  console.out() += fmt::format("\ntime to first token with a shared prefix of {}:\n", counted(measure.prefix, "token"));
  Table table({{"request"}, {"ms", Align::kRight}, {"median", Align::kRight}, {"tokens reused", Align::kRight}, {""}});
  table.add_row(Cell("first", Paint::kBold), in_ms(measure.first.best), in_ms(measure.first.median), "0", "");
  table.add_row(Cell("second", Paint::kBold), in_ms(measure.second.best), in_ms(measure.second.median),
                grouped(measure.reused), fmt::format("x{:.1f} faster", measure.first.best / measure.second.best));
  table.append_to(console.out(), console.output());
}

void add_sequences(JsonWriter& json, const std::vector<SequenceMeasure>& measures,
                   const std::optional<MachineSpeed>& machine) {
  json.key("sequences").begin_array();
  for (const SequenceMeasure& m : measures) {
    json.begin_object();
    add_number(json, "sequences", m.sequences);
    add_number(json, "steps", m.steps);
    add_number(json, "cache_bytes", m.cache_bytes);
    json.key("step_seconds").real(m.step.best).key("median_step_seconds").real(m.step.median);
    json.key("rate").real(m.rate(m.step.best)).key("median_rate").real(m.rate(m.step.median));
    json.key("flop").real(m.flop);
    if (machine) json.key("flops_share").real(m.flop / m.step.best / machine->flops);
    json.end_object();
  }
  json.end_array();
}

void add_shared_prefix(JsonWriter& json, const PrefixMeasure& measure) {
  json.key("shared_prefix").begin_object();
  add_number(json, "tokens", measure.prefix);
  add_number(json, "reused_tokens", measure.reused);
  json.key("first_seconds").real(measure.first.best).key("median_first_seconds").real(measure.first.median);
  json.key("second_seconds").real(measure.second.best).key("median_second_seconds").real(measure.second.median);
  json.end_object();
}

}  // namespace ballast::cli
