#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/ballast/commands/benchmark_sequences.h"
#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/work_count.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/interrupt.h"
#include "ballast/backends/backends.h"
#include "ballast/backends/cpu/machine.h"
#include "ballast/base/human_size.h"
#include "ballast/engine/generator.h"
#include "ballast/models/model.h"
#include "ballast/models/random_image.h"

namespace ballast::cli {

namespace {

// What of a text model is measured: one of its parts, or all.
enum class BenchmarkMode : uint8_t { kAll, kPrefill, kFirstToken, kDecode };

struct BenchmarkFlags {
  ModelFlags model;
  BenchmarkMode mode = BenchmarkMode::kAll;
  uint64_t prompt_tokens = 128;
  uint64_t max_tokens = 64;
  uint64_t warmup_tokens = 0;
  DType cache_dtype = DType::kF32;

  bool measures(BenchmarkMode part) const { return mode == BenchmarkMode::kAll || mode == part; }
  uint64_t batch = 1;
  uint64_t image_size = 0;  // 0: the model's own
  uint64_t rounds = 3;
  std::string sequences;       // "1,2,4"; empty: not measured
  uint64_t shared_prefix = 0;  // tokens; 0: not measured
  bool json = false;

  bool measures_many() const { return !sequences.empty() || shared_prefix != 0; }
};

// One thing that was timed: the best round counts, because others may be using the machine.
struct Measure {
  std::string_view name;  // "decode"
  std::string_view unit;  // "tokens/s"
  uint64_t items = 0;
  double seconds = 0;
  WorkCount work{};  // of one round

  double rate() const { return seconds > 0 ? static_cast<double>(items) / seconds : 0; }
};

struct BenchmarkResult {
  std::string path, kind, backend, level;
  unsigned threads = 0;
  uint64_t param_bytes = 0;
  std::optional<MachineSpeed> machine;  // what the host could do; absent where a device computes
  std::vector<Measure> measures;
  std::vector<SequenceMeasure> sequences;
  std::optional<PrefixMeasure> shared_prefix;

  bool has_shares(const Measure& m) const { return machine && m.work.flops > 0; }
  double bandwidth_share(const Measure& m) const {
    return static_cast<double>(m.work.param_bytes) / m.seconds / machine->read_bytes_per_second;
  }
  double flops_share(const Measure& m) const { return m.work.flops / m.seconds / machine->flops; }
};

Error interrupted_error() { return make_error(ErrorCode::kCancelled, "interrupted"); }

// ---------------------------------------------------------------- text

std::vector<TokenId> some_tokens(uint64_t count, uint64_t vocabulary) {
  std::vector<TokenId> ids(count);
  for (uint64_t i = 0; i < count; ++i) ids[i] = static_cast<TokenId>(i * 7919 % vocabulary);
  return ids;
}

GenerateOptions greedy(const BenchmarkFlags& flags, uint64_t tokens) {
  GenerateOptions options;
  options.cache_dtype = flags.cache_dtype;
  options.max_tokens = tokens;
  options.sampling.temperature = 0;
  options.sampling.log_probabilities = false;
  return options;
}

// From the file to the first token, with nothing of the model in this process before.
Result<Measure> time_first_token(const BenchmarkFlags& flags) {
  const double start = seconds_now();
  BALLAST_TRY(const auto running, RunningModel::load(flags.model));
  LoadedModel& model = running->model();
  BALLAST_TRY(Generator generator, Generator::start(*model.as_causal_lm(), model.context(), {0}, greedy(flags, 1)));
  BALLAST_TRY([[maybe_unused]] const auto token, generator.next());
  return Measure{"first token", "tokens/s", 1, seconds_now() - start};
}

struct TextRound {
  double prefill = 0, decode = 0;
  uint64_t decoded = 0;
};

Result<TextRound> run_text(const BenchmarkFlags& flags, LoadedModel& model, const std::vector<TokenId>& prompt,
                           uint64_t warmup, uint64_t tokens) {
  TextRound round;
  double start = seconds_now();
  // The first token comes from the prompt's logits: each of those behind it is one step.
  BALLAST_TRY(Generator generator,
              Generator::start(*model.as_causal_lm(), model.context(), prompt, greedy(flags, 1 + warmup + tokens)));
  BALLAST_TRY([[maybe_unused]] const auto first, generator.next());
  round.prefill = seconds_now() - start;
  for (uint64_t i = 0; i < warmup; ++i) {
    BALLAST_TRY([[maybe_unused]] const auto unmeasured, generator.next());
  }
  start = seconds_now();
  for (; round.decoded < tokens; ++round.decoded) {
    if (interrupted()) return interrupted_error();
    BALLAST_TRY(const auto token, generator.next());
    if (!token) break;
  }
  round.decode = seconds_now() - start;
  return round;
}

// Counting works wherever the model computes, and not only on the host.
ModelFlags counting_flags(const BenchmarkFlags& flags, WorkCount& count) {
  ModelFlags counting = flags.model;
  if (counting.load.backend.empty()) counting.load.backend = default_backend().name;
  counting.load.extend = [&count](Registry& registry) { return count_work(registry, count); };
  return counting;
}

// What one prefill and one step of decoding compute and read.
Result<std::pair<WorkCount, WorkCount>> count_text(const BenchmarkFlags& flags, const std::vector<TokenId>& prompt) {
  WorkCount count;
  const ModelFlags counting = counting_flags(flags, count);
  BALLAST_TRY(const auto running, RunningModel::load(counting));
  BALLAST_CHECK(run_text(flags, running->model(), prompt, 0, 0));
  const WorkCount prefill = count;
  BALLAST_CHECK(run_text(flags, running->model(), prompt, 0, 1));
  return std::pair(prefill, WorkCount{count.flops - 2 * prefill.flops, count.param_bytes - 2 * prefill.param_bytes});
}

Status measure_text(const BenchmarkFlags& flags, LoadedModel& model, BenchmarkResult& result) {
  const CausalLm& lm = *model.as_causal_lm();
  const uint64_t room = lm.context_length();
  const bool decodes = flags.measures(BenchmarkMode::kDecode);
  const uint64_t tokens = decodes ? std::min(flags.max_tokens, room - 1) : 0;
  const uint64_t warmup = decodes ? std::min(flags.warmup_tokens, room - 1 - tokens) : 0;
  const auto prompt = some_tokens(std::min(flags.prompt_tokens, room - tokens - warmup), lm.vocab_size());
  if (flags.measures(BenchmarkMode::kFirstToken)) {
    BALLAST_TRY(result.measures.emplace_back(), time_first_token(flags));
    if (flags.mode == BenchmarkMode::kFirstToken) return {};
  }
  Measure prefill{"prefill", "tokens/s", prompt.size(), HUGE_VAL};
  Measure decode{"decode", "tokens/s", tokens, HUGE_VAL};
  for (uint64_t i = 0; i < flags.rounds + 1; ++i) {
    BALLAST_TRY(const TextRound round, run_text(flags, model, prompt, warmup, tokens));
    if (i == 0) continue;  // warms up
    prefill.seconds = std::min(prefill.seconds, round.prefill);
    decode.seconds = std::min(decode.seconds, round.decode);
  }
  BALLAST_TRY(const auto work, count_text(flags, prompt));
  prefill.work = work.first;
  decode.work = {work.second.flops * static_cast<double>(tokens), work.second.param_bytes * tokens};
  if (flags.measures(BenchmarkMode::kPrefill)) result.measures.push_back(prefill);
  if (decodes) result.measures.push_back(decode);
  return {};
}

// ---------------------------------------------------------------- many texts

Status measure_many(const BenchmarkFlags& flags, const std::vector<uint64_t>& counts, const RunningModel& running,
                    BenchmarkResult& result) {
  BALLAST_TRY(const TextModel text, TextModel::of(running.shared_model(), running.source()));
  SequenceSettings settings{.prompt_tokens = flags.prompt_tokens,
                            .warmup_tokens = flags.warmup_tokens,
                            .max_tokens = flags.max_tokens,
                            .rounds = flags.rounds,
                            .cache_dtype = flags.cache_dtype};
  settings.counts = counts;
  if (!counts.empty()) {
    const uint64_t room = text.writer().context_length();
    const auto prompt = some_tokens(std::min(flags.prompt_tokens, room - 1), text.writer().vocab_size());
    BALLAST_TRY(const auto work, count_text(flags, prompt));
    BALLAST_TRY(result.sequences, measure_sequences(text, settings, work.second.flops));
  }
  if (flags.shared_prefix == 0) return {};
  BALLAST_TRY(result.shared_prefix, measure_shared_prefix(text, flags.shared_prefix, settings));
  return {};
}

// ---------------------------------------------------------------- images

Result<ModelInput> some_images(const BenchmarkFlags& flags, LoadedModel& model) {
  const ImageClassifier& classifier = *model.as_image_classifier();
  const uint64_t size = flags.image_size != 0 ? flags.image_size : classifier.image_size();
  const Dims dims{flags.batch, classifier.channels(), size, size};
  BALLAST_TRY(Tensor pixels, model.workspace().from(seeded_normals(0, dims.count()), dims));
  return ModelInput(ImageInput{std::move(pixels)});
}

Result<WorkCount> count_images(const BenchmarkFlags& flags) {
  WorkCount count;
  const ModelFlags counting = counting_flags(flags, count);
  BALLAST_TRY(const auto running, RunningModel::load(counting));
  BALLAST_TRY(const ModelInput input, some_images(flags, running->model()));
  BALLAST_TRY([[maybe_unused]] const Tensor output, running->model().forward(input));
  return count;
}

Status measure_images(const BenchmarkFlags& flags, LoadedModel& model, BenchmarkResult& result) {
  BALLAST_TRY(const ModelInput input, some_images(flags, model));
  Measure first{"first image", "images/s", flags.batch, 0};
  Measure images{"images", "images/s", flags.batch, HUGE_VAL};
  for (uint64_t i = 0; i < flags.rounds + 1; ++i) {
    if (interrupted()) return interrupted_error();
    const double start = seconds_now();
    BALLAST_TRY([[maybe_unused]] const Tensor output, model.forward(input));
    BALLAST_CHECK(model.workspace().queue().finish());  // a device may still be computing
    const double seconds = seconds_now() - start;
    if (i == 0) first.seconds = result.measures.front().seconds + seconds;  // with loading, as for text
    else images.seconds = std::min(images.seconds, seconds);
  }
  BALLAST_CHECK(assign(images.work, count_images(flags)));
  result.measures.insert(result.measures.end(), {first, images});
  return {};
}

// ---------------------------------------------------------------- saying so

Result<BenchmarkResult> measure(const BenchmarkFlags& flags, Console& console) {
  const CancelScope cancel;
  std::vector<uint64_t> counts;
  if (!flags.sequences.empty()) BALLAST_CHECK(assign(counts, parse_sequence_counts(flags.sequences)));
  BALLAST_TRY(const auto running, RunningModel::load(flags.model));
  LoadedModel& model = running->model();
  BenchmarkResult result;
  result.path = running->path();
  result.kind = model.kind();
  result.backend = model.backend().name;
  result.level = model.backend().level();
  result.threads = model.context().threads().size();
  result.param_bytes = model.report().param_bytes;
  if (model.workspace().queue().device().limits().is_host_memory) {
    result.machine = measure_machine(model.context().threads());
  }
  result.measures.push_back({"load", "loads/s", 1, running->load_seconds()});
  if (flags.measures_many()) BALLAST_CHECK(measure_many(flags, counts, *running, result));
  else if (model.as_causal_lm() != nullptr) BALLAST_CHECK(measure_text(flags, model, result));
  else if (flags.mode != BenchmarkMode::kAll) return model.cannot("--mode, which is for text models");
  else if (model.as_image_classifier() != nullptr) BALLAST_CHECK(measure_images(flags, model, result));
  else return model.cannot("anything that can be measured here");
  BALLAST_CHECK(running->finish(console));
  return result;
}

std::string benchmark_json(const BenchmarkResult& result) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", result.path);
  add_text(json, "kind", result.kind);
  add_text(json, "backend", result.backend);
  add_text(json, "level", result.level);
  add_number(json, "threads", result.threads);
  add_number(json, "param_bytes", result.param_bytes);
  if (result.machine) {
    json.key("machine").begin_object().key("read_bytes_per_s").real(result.machine->read_bytes_per_second);
    json.key("flops").real(result.machine->flops).end_object();
  }
  json.key("measures").begin_array();
  for (const Measure& m : result.measures) {
    json.begin_object();
    add_text(json, "name", m.name);
    json.key("seconds").real(m.seconds);
    add_number(json, "items", m.items);
    add_text(json, "unit", m.unit);
    json.key("rate").real(m.rate());
    if (m.work.flops > 0) {
      json.key("flop").real(m.work.flops);
      add_number(json, "weight_bytes", m.work.param_bytes);
    }
    if (result.has_shares(m)) {
      json.key("bandwidth_share").real(result.bandwidth_share(m)).key("flops_share").real(result.flops_share(m));
    }
    json.end_object();
  }
  json.end_array();
  if (!result.sequences.empty()) add_sequences(json, result.sequences, result.machine);
  if (result.shared_prefix) add_shared_prefix(json, *result.shared_prefix);
  json.end_object();
  return json.take() + '\n';
}

void print_benchmark(const BenchmarkResult& result, Console& console) {
  console.out() +=
      fmt::format("{}: {} model of {}, backend {} ({}), {}\n", printable(result.path), result.kind,
                  human_size(result.param_bytes), result.backend, result.level, counted(result.threads, "thread"));
  if (result.machine) {
    console.out() += fmt::format("this machine reads {:.1f} GB/s and computes {:.1f} Gflop/s\n",
                                 result.machine->read_bytes_per_second / 1e9, result.machine->flops / 1e9);
  }
  console.out() += '\n';
  Table table({{"what"},
               {"ms", Align::kRight},
               {"rate", Align::kRight},
               {""},
               {"bandwidth used", Align::kRight},
               {"compute used", Align::kRight}});
  for (const Measure& m : result.measures) {
    const bool counted_work = m.work.flops > 0;
    const bool has_rate = m.items > 1 || counted_work;
    table.add_row(Cell(m.name, Paint::kBold), fmt::format("{:.2f}", m.seconds * 1e3),
                  has_rate ? fmt::format("{:.1f}", m.rate()) : "", has_rate ? m.unit : "",
                  result.has_shares(m) ? fmt::format("{:.0f}%", 100 * result.bandwidth_share(m)) : "",
                  result.has_shares(m) ? fmt::format("{:.0f}%", 100 * result.flops_share(m)) : "");
  }
  table.append_to(console.out(), console.output());
  if (!result.sequences.empty()) print_sequences(result.sequences, result.machine, console);
  if (result.shared_prefix) print_shared_prefix(*result.shared_prefix, console);
}

int benchmark(const BenchmarkFlags& flags, Console& console) {
  const auto result = measure(flags, console);
  if (!result) return console.fail(result.error(), flags.json);
  if (flags.json) console.out() += benchmark_json(*result);
  else print_benchmark(*result, console);
  return kExitYes;
}

constexpr const char* kBenchmarkFooter =
    "Measures loading, time to first token, prefill and decode of text models; loading and images of image models.\n"
    "The best of several rounds counts. \"bandwidth used\" relates the weights read per second to the memory\n"
    "bandwidth of this machine, \"compute used\" the multiply-adds to its peak arithmetic throughput; both limits are "
    "measured\n"
    "first. Where a device computes, both are left out.\n"
    "\n"
    "--sequences decodes that many texts in each pass, with tokens of their own, behind prompts of --prompt-tokens.\n"
    "--shared-prefix times two requests that begin with the same N tokens; the second reuses what the first computed.\n"
    "\n"
    "Examples:\n"
    "  ballast benchmark\n"
    "  ballast benchmark model.gptrs --prompt-tokens 64 --max-tokens 32 --threads 1\n"
    "  ballast benchmark --sequences 1,4,16 --prompt-tokens 32 --max-tokens 16\n"
    "  ballast benchmark --shared-prefix 128\n"
    "  ballast benchmark model.gptrs --json\n";

}  // namespace

RunCommand add_benchmark(CLI::App& program, Console& console) {
  Command command(program, "benchmark", "Measure the speed of a model on this machine");
  auto flags = std::make_shared<BenchmarkFlags>();
  constexpr uint64_t kMost = 1 << 16;
  command.optional_path("MODEL", flags->model.path,
                        "Model file or folder (default: the model that comes with Ballast)");
  command.count("--prompt-tokens", "N", flags->prompt_tokens, "Prompt length for text models (128)", 1, kMost);
  command.count("--max-tokens", "N", flags->max_tokens, "Tokens to generate with text models (64)", 1, kMost);
  command.count("--warmup-tokens", "N", flags->warmup_tokens, "Tokens to generate before timing starts (0)", 0, kMost);
  const Flag mode = command.choice("--mode", "PART", flags->mode,
                                   {{"prefill", BenchmarkMode::kPrefill},
                                    {"first-token", BenchmarkMode::kFirstToken},
                                    {"decode-steady", BenchmarkMode::kDecode}},
                                   "Measure only prefill, first-token or decode-steady");
  command.text("--sequences", "LIST", flags->sequences, "Measure decode with so many texts in each pass: 1,2,4,8")
      .excludes(mode);
  command
      .count("--shared-prefix", "N", flags->shared_prefix,
             "Measure the time to first token of two requests with the same first N tokens", kPagePositions, kMost)
      .excludes(mode);
  add_cache_dtype_flag(command, flags->cache_dtype);
  command.count("--batch", "N", flags->batch, "Batch size for image models (1)", 1, kMost);
  command.count("--image-size", "N", flags->image_size, "Image size for image models (default: the model's)", 1, kMost);
  command.count("--rounds", "N", flags->rounds, "Measure N times and keep the best; --sequences adds the median (3)", 1,
                kMost);
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kBenchmarkFooter);
  return [flags, &console] { return benchmark(*flags, console); };
}

}  // namespace ballast::cli
