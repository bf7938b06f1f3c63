#include "apps/ballast/flags/model_flags.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <filesystem>

#include "apps/ballast/flags/parse_size.h"
#include "apps/ballast/models/kernel_cache.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"
#include "ballast/base/json.h"
#include "ballast/io/file.h"
#include "ballast/io/output_path.h"
#include "ballast/ops/backend.h"
#include "ballast/ops/context.h"
#include "ballast/ops/registry.h"
#include "ballast/params/param_store.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

// "64MiB", "500MB", "0.25", "25%"
Status parse_budget(const std::string& text, LoadOptions& options) {
  const auto refuse = [&] {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--param-budget {}: not a size such as 64MiB or a share such as 25%, above 0", text));
  };
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || !(number > 0)) return refuse();
  const std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit == "%") {
    if (number > 100) return refuse();
    options.param_budget_fraction = number / 100;
    return {};
  }
  if (unit.empty() && number <= 1 && text.find('.') != std::string::npos) {
    options.param_budget_fraction = number;
    return {};
  }
  const auto bytes = parse_size(text);
  if (!bytes) return refuse();
  options.param_budget = *bytes;
  return {};
}

Status parse_overrides(const std::vector<std::string>& texts, LoadOptions& options) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--override {}: write FUNCTIONAL=POLICY, such as matmul=benchmark", text));
    }
    options.overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return {};
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string unused_note(const std::vector<std::string>& names, std::string_view kind) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return fmt::format("note: {} of the file {} not used by the {} model: {}\n", counted(names.size(), "tensor"),
                     names.size() == 1 ? "is" : "are", kind, text);
}

// The most memory that this process held so far, its program and the mapped pages it touched included.
uint64_t process_peak() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Flag add_cache_dtype_flag(Command& command, DType& dtype) {
  return command.choice("--kv-cache-dtype", "TYPE", dtype,
                        std::vector<std::pair<std::string, DType>>{{"f32", DType::kF32}, {"f16", DType::kF16}},
                        "Store the KV cache as f32 (default) or f16");
}

void add_load_flags(Command& command, ModelFlags& flags) {
  command.text("--backend", "NAME", flags.load.backend, "Compute with this backend; `ballast backends` lists them");
  command.threads(flags.load.threads);
  command.choice("--numerics", "HOW", flags.load.numerics, {{"fast", Numerics::kFast}, {"exact", Numerics::kExact}},
                 "Arithmetic for quantised and bf16 weights: fast (default) or exact (f32)");
  command.text("--param-budget", "SIZE", flags.budget, "Limit the memory for parameters: 64MiB, or 25%");
  command.texts("--override", "FUNCTIONAL=POLICY", flags.overrides,
                "Choose an implementation: force=NAME or benchmark; `ballast ops` lists them");
  command.text("--config", "FILE", flags.config_path, "Read the model config (JSON) from here, for files without one");
}

void add_model_flags(Command& command, ModelFlags& flags) {
  add_load_flags(command, flags);
  command.flag("--stats", flags.stats, "Report memory, reads and waits at the end");
  command.written_file("--profile", flags.profile_path, "Write a timeline of all operations (Chrome trace)");
  command.flag("--overwrite", flags.overwrite, "Replace existing files that the command writes");
}

Result<LoadOptions> load_options(const ModelFlags& flags) {
  LoadOptions options = flags.load;
  options.backend = trimmed(options.backend);
  if (options.backend.starts_with("opencl")) use_kernel_cache();
  if (!flags.budget.empty()) BALLAST_CHECK(parse_budget(flags.budget, options));
  BALLAST_CHECK(parse_overrides(flags.overrides, options));
  if (flags.config_path.empty()) return options;
  BALLAST_TRY(const auto source, open_file(flags.config_path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  options.config_text = std::string(as_text(bytes));
  return options;
}

// ---------------------------------------------------------------- the default model

Result<std::string> default_model_path() {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    const fs::path folder = program.parent_path();
    for (const fs::path& candidate :
         {folder / "../share/ballast/models/default/model.gptrs", folder / "../../models/default/model.gptrs"}) {
      if (fs::is_regular_file(candidate, failure)) return fs::weakly_canonical(candidate, failure).string();
    }
  }
  return make_error(ErrorCode::kNotFound,
                    "no model given, and the model that comes with Ballast is not installed; name a model, for "
                    "example smollm2 after `ballast get smollm2`");
}

// ---------------------------------------------------------------- profile

namespace {

constexpr std::string_view kProfileBegin = R"({"displayTimeUnit":"ms","traceEvents":[)";

Result<bool> is_profile(const ByteSource& file) {
  if (file.size() == 0) return true;  // nothing is lost
  BALLAST_TRY(const ByteVector bytes, read_bytes(file, 0, std::min<uint64_t>(file.size(), kProfileBegin.size())));
  return as_text(bytes) == kProfileBegin;
}

}  // namespace

Status check_profile(const ModelFlags& flags, const std::string& out) {
  const std::string& path = flags.profile_path;
  if (path.empty()) return {};
  if (!out.empty() && is_same_place(out, path)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("--profile and --out cannot be one file: {}", path));
  }
  BALLAST_CHECK(check_output_path(path, flags.overwrite));
  const auto file = open_file(path, FileAccess::kPositional);
  if (!file && file.error().code == ErrorCode::kNotFound) return {};
  if (!file) return file.error();
  BALLAST_TRY(const bool ours, is_profile(**file));
  if (ours) return {};
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: exists and is not a profile, so --overwrite does not replace it; name another "
                                "file, or remove it",
                                path));
}

// Gathers what ran when; written as Chrome's trace events, which its about:tracing and Perfetto show.
class RunningModel::Profile final : public ProfileSink {
 public:
  // Opens the file at once: a path that cannot be written is told before anything runs.
  static Result<std::unique_ptr<Profile>> open(const ModelFlags& flags) {
    BALLAST_CHECK(check_profile(flags));
    auto profile = std::make_unique<Profile>(flags);
    BALLAST_TRY(profile->sink_, profile->files_.add(flags.profile_path, 0));
    return profile;
  }
  explicit Profile(const ModelFlags& flags) : flags_(flags), files_({.overwrite = flags.overwrite}) {}

  void on_functional(std::string_view name, std::string_view functional, std::string_view implementation,
                     double begin_seconds, double end_seconds) override {
    if (events_.empty()) origin_ = begin_seconds;
    events_.push_back({std::string(name), std::string(functional), std::string(implementation),
                       (begin_seconds - origin_) * 1e6, (end_seconds - begin_seconds) * 1e6});
  }

  Status write() {
    JsonWriter json;
    json.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();  // see kProfileBegin
    for (const Event& event : events_) {
      json.begin_object().key("name").string(event.name.empty() ? event.functional : event.name);
      json.key("cat").string(event.functional).key("ph").string("X").key("pid").number(1).key("tid").number(1);
      json.key("ts").real(event.begin).key("dur").real(event.duration);
      json.key("args").begin_object().key("functional").string(event.functional);
      json.key("implementation").string(event.implementation).end_object().end_object();
    }
    json.end_array().end_object();
    BALLAST_CHECK(sink_->write_text(json.take() + '\n'));
    BALLAST_CHECK(check_profile(flags_));  // something else may have appeared
    return files_.commit();
  }

 private:
  struct Event {
    std::string name, functional, implementation;
    double begin, duration;  // microseconds
  };
  ModelFlags flags_;
  AtomicFiles files_;
  ByteSink* sink_ = nullptr;
  std::vector<Event> events_;
  double origin_ = 0;
};

// ---------------------------------------------------------------- running

RunningModel::~RunningModel() = default;

Result<std::unique_ptr<RunningModel>> RunningModel::load(const ModelFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<RunningModel> running(new RunningModel);
  running->stats_ = flags.stats;
  BALLAST_TRY(std::string path, flags.path.empty() ? default_model_path() : resolve_model_name(flags.path));
  running->source_.emplace(std::move(path));
  BALLAST_TRY(const LoadOptions options, load_options(flags));
  if (!flags.profile_path.empty()) BALLAST_CHECK(assign(running->profile_, Profile::open(flags)));
  BALLAST_TRY(running->model_, load_model(*running->source_, options));
  running->model_->context().profile = running->profile_.get();
  running->load_seconds_ = seconds_since(start);
  return running;
}

Status RunningModel::finish(Console& console) {
  if (profile_) BALLAST_CHECK(profile_->write());
  const LoadReport& report = model_->report();
  if (!report.unused.empty()) console.remark(unused_note(report.unused, model_->kind()));
  if (report.narrowed != 0) {
    console.remark(fmt::format("note: {} stored as f64; computed in f32\n", counted(report.narrowed, "tensor")));
  }
  const Device& device = model_->workspace().queue().device();
  if (const auto fallbacks = device.fallbacks(); !fallbacks.empty()) {
    console.remark(
        fmt::format("note: the CPU computed in place of {}: {}\n", device.name(), fmt::join(fallbacks, ", ")));
  }
  if (!stats_) return {};
  const ResidencyStats stats = model_->residency();
  std::string text = fmt::format("parameters  {} of {} in {}\n", counted(report.params, "tensor"),
                                 human_size(report.param_bytes), printable(path()));
  if (stats.budget == 0) {
    text += "memory      mapped, no budget";
    if (stats.resident != 0) text += fmt::format("; {} beside it", human_size(stats.resident));
    text += "\n";
  } else {
    text += fmt::format("memory      peak {} of a budget of {}\n", human_size(stats.peak), human_size(stats.budget));
    text += fmt::format("read        {}; {} hits, {} misses, {} evictions\n", human_size(stats.bytes_read),
                        grouped(stats.hits), grouped(stats.misses), grouped(stats.evictions));
    text += fmt::format("waits       {} for the disk, {:.3f} s\n", grouped(stats.waits), stats.wait_seconds);
  }
  for (const DType dtype : report.block_types) {
    // Of bf16, only weights [out, in] are computed in a way of their own.
    text +=
        fmt::format("weights     {}{} times activations: {}\n", dtype_name(dtype), is_block(dtype) ? "" : " [out, in]",
                    model_->backend().block_arithmetic(dtype, model_->context().numerics));
  }
  text += fmt::format("activations {}\n", human_size(model_->workspace().peak_bytes()));
  text += fmt::format("process     peak {}\n", human_size(process_peak()));
  for (const BenchmarkChoice& choice : model_->registry().benchmark_choices()) {
    text += fmt::format("chose       {} for {} {} ({:.3f} ms)\n", choice.implementation, choice.functional,
                        choice.arguments, choice.seconds * 1e3);
  }
  console.remark(text);
  return {};
}

// ---------------------------------------------------------------- tokens

Error with_tokenizer_advice(Error error, TokenizerAdvice advice) {
  if (error.code != ErrorCode::kNotFound) return error;
  if (advice == TokenizerAdvice::kNothing) {
    error.message += "; put its tokenizer.json (or vocab.json with merges.txt) in the folder of the model";
    return error;
  }
  error.message += "; give one with --tokenizer FILE (tokenizer.json, or vocab.json with merges.txt)";
  if (advice == TokenizerAdvice::kTokenizerOrTokens) error.message += ", or token ids with --tokens";
  return error;
}

Result<Tokenizer> tokenizer_for(const std::string& given, const ModelSource& model, TokenizerAdvice advice) {
  if (!given.empty()) return load_tokenizer(given);
  auto own = find_tokenizer(model);
  if (!own) return with_tokenizer_advice(std::move(own).error(), advice);
  return own;
}

Result<std::vector<TokenId>> parse_token_list(const std::vector<std::string>& texts, std::string_view flag) {
  std::vector<TokenId> ids;
  for (const std::string& text : texts) {
    for (size_t at = 0; at <= text.size();) {
      const size_t comma = std::min(text.find(',', at), text.size());
      const std::string word = trimmed(text.substr(at, comma - at));
      at = comma + 1;
      TokenId id = 0;
      const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
      if (failure != std::errc() || end != word.data() + word.size()) {
        return make_error(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: \"{}\" is not a token id; write numbers separated by commas: 1,2,3", flag, word));
      }
      ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace ballast::cli
