#include "apps/ballast/commands/generate_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "apps/ballast/output/generated_text.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/progress_bar.h"

namespace ballast::cli {

namespace {

constexpr size_t kShownPrompt = 72;  // columns

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken: return "end_of_text";
    case FinishReason::kContextFull: return "context_full";
    default: return "max_tokens";
  }
}

// A prompt from the time it is handed to the engine until its text is printed.
struct BatchItem {
  explicit BatchItem(TextStream words) : stream(std::move(words)) {}

  TextStream stream;
  GeneratedText written;
  double begun = seconds_now(), decode_begun = 0;
  bool done = false;
  std::optional<Error> error;
};

class PromptBatch {
 public:
  PromptBatch(const BatchSettings& settings, const std::vector<FilePrompt>& prompts, const RunningModel& running,
              const TextModel& model, Console& console)
      : settings_(settings),
        prompts_(prompts),
        running_(running),
        model_(model),
        console_(console),
        bar_(console.errors(), ProgressUnit::kPrompts) {}

  Result<int> run();

 private:
  bool is_over() const { return printed_ == prompts_.size() || interrupted() || console_.reader_gone(); }
  void begin_more();
  void begin(size_t prompt);
  Result<RequestId> submit(size_t prompt, BatchItem& item);
  void on_event(const EngineEvent& event);
  Status on_token(BatchItem& item, const SampledToken& token);
  void finish(RequestId id, std::string_view stop, std::optional<Error> error = {});
  void print_done(bool also_behind_others);
  void print(size_t prompt, const BatchItem& item);
  void print_text(const FilePrompt& prompt, const BatchItem& item);
  void print_json(const FilePrompt& prompt, const BatchItem& item);
  void print_end() const;

  const BatchSettings& settings_;
  const std::vector<FilePrompt>& prompts_;
  const RunningModel& running_;
  const TextModel& model_;
  Console& console_;
  ProgressBar bar_;
  std::unique_ptr<Engine> engine_;
  std::map<size_t, BatchItem> items_;      // begun and not printed, by prompt
  std::map<RequestId, size_t> in_flight_;  // prompts that the engine has
  size_t begun_ = 0, printed_ = 0;
  size_t failed_ = 0, tokens_ = 0;
  bool has_texts_ = false;  // on standard output, without JSON
  double start_ = seconds_now();
};

// ---------------------------------------------------------------- prompts

void PromptBatch::begin_more() {
  while (in_flight_.size() < settings_.parallel && begun_ < prompts_.size()) begin(begun_++);
}

void PromptBatch::begin(size_t prompt) {
  BatchItem& item = items_.emplace(prompt, BatchItem(model_.make_stream(settings_.stop))).first->second;
  const auto id = submit(prompt, item);
  if (id) {
    in_flight_.emplace(*id, prompt);
  } else {
    item.error = id.error();
    item.done = true;
  }
}

Result<RequestId> PromptBatch::submit(size_t prompt, BatchItem& item) {
  const FilePrompt& given = prompts_[prompt];
  GenerateOptions options = settings_.options;
  options.max_tokens = given.max_tokens.value_or(options.max_tokens);
  options.sampling.seed = given.seed.value_or(options.sampling.seed);
  if (options.sampling.temperature > 0) item.written.seed = options.sampling.seed;
  BALLAST_TRY(Request request, given.tokens.empty() ? model_.make_request(given.text, options)
                                                    : model_.make_request(given.tokens, options));
  item.written.prompt = request.prompt;
  return engine_->submit(std::move(request));
}

// ---------------------------------------------------------------- texts

void PromptBatch::on_event(const EngineEvent& event) {
  const auto known = in_flight_.find(event.id);
  if (known == in_flight_.end()) return;  // ended by a stop string
  BatchItem& item = items_.at(known->second);
  if (event.kind == EngineEvent::Kind::kFinished) return finish(event.id, finish_name(event.reason), event.error);
  const Status said = on_token(item, event.token);
  if (said && !item.stream.stopped()) return;
  // It may have ended with this very token: then there is nothing to cancel.
  static_cast<void>(engine_->cancel(event.id));
  finish(event.id, "stop_text", said ? std::nullopt : std::optional(said.error()));
}

Status PromptBatch::on_token(BatchItem& item, const SampledToken& token) {
  GeneratedText& written = item.written;
  const double now = seconds_now();
  written.tokens.push_back(token);
  ++tokens_;
  if (written.tokens.size() == 1) written.prefill = now - item.begun;
  if (written.tokens.size() == std::max<uint64_t>(settings_.warmup_tokens, 1)) item.decode_begun = now;
  BALLAST_TRY(const std::string piece, item.stream.next(token.id));
  written.text += piece;
  return {};
}

void PromptBatch::finish(RequestId id, std::string_view stop, std::optional<Error> error) {
  BatchItem& item = items_.at(in_flight_.at(id));
  in_flight_.erase(id);
  item.done = true;
  item.error = std::move(error);
  GeneratedText& written = item.written;
  written.stop = stop;
  if (auto rest = item.stream.finish()) written.text += *rest;
  else item.error = std::move(rest).error();
  if (settings_.constraint) written.complete = settings_.constraint->accepts(written.text);
  if (written.tokens.size() > settings_.warmup_tokens) {
    written.decode = seconds_now() - item.decode_begun;
    written.decoded = written.tokens.size() - settings_.warmup_tokens;
  }
}

// ---------------------------------------------------------------- printing

void PromptBatch::print_done(bool also_behind_others) {
  for (auto item = items_.begin(); item != items_.end();) {
    if (!item->second.done && !also_behind_others) break;
    if (item->second.done) {
      print(item->first, item->second);
      ++printed_;
    }
    item = items_.erase(item);
  }
  console_.flush();
}

void PromptBatch::print(size_t prompt, const BatchItem& item) {
  const FilePrompt& given = prompts_[prompt];
  bar_.clear();
  if (item.error) {
    ++failed_;
    console_.flush();
    static_cast<void>(
        console_.fail(Error(*item.error).with_context(fmt::format("{}: line {}", settings_.file, given.line))));
  }
  if (settings_.json) print_json(given, item);
  else if (!item.error) print_text(given, item);
}

void PromptBatch::print_text(const FilePrompt& prompt, const BatchItem& item) {
  std::string shown = printable(prompt.text);
  if (!prompt.tokens.empty()) shown = fmt::format("{}", fmt::join(prompt.tokens, ","));
  const std::string name = prompt.id.empty() ? std::to_string(prompt.line) : printable(prompt.id);
  if (std::exchange(has_texts_, true)) console_.out() += '\n';
  append_painted(console_.out(), console_.output(), Paint::kBold,
                 fmt::format("[{}] {}", name, shorten(shown, kShownPrompt)));
  console_.out() += '\n';
  const std::string& text = item.written.text;
  console_.out() += (console_.output().interactive ? without_controls(text) : text) + '\n';
}

void PromptBatch::print_json(const FilePrompt& prompt, const BatchItem& item) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", running_.path());
  add_number(json, "line", prompt.line);
  if (!prompt.id.empty()) json.key("id").raw(prompt.id);
  if (item.error) add_error(json, "error", *item.error);
  else add_generated(json, item.written, running_.load_seconds());
  json.end_object();
  console_.out() += json.take() + '\n';
}

void PromptBatch::print_end() const {
  if (interrupted() || console_.reader_gone()) {
    console_.remark(fmt::format("{}: {} of {}\n", interrupted() ? "interrupted" : "reader_gone", printed_,
                                counted(prompts_.size(), "prompt")));
    return;
  }
  std::string line = fmt::format("{}, {}, {:.1f} tokens/s", counted(prompts_.size(), "prompt"),
                                 counted(tokens_, "token"), tokens_per_second(tokens_, seconds_now() - start_));
  if (failed_ != 0) line += fmt::format(" · {} failed", failed_);
  if (settings_.options.sampling.temperature > 0) line += fmt::format(" · seed {}", settings_.options.sampling.seed);
  console_.remark(line + '\n');
}

// ---------------------------------------------------------------- all of them

Result<int> PromptBatch::run() {
  EngineOptions options;
  options.most_sequences = settings_.parallel;
  options.most_rows = std::max(options.most_rows, settings_.parallel);
  options.cache_dtype = settings_.options.cache_dtype;
  BALLAST_TRY(engine_, model_.start_engine(options));
  const Progress progress = bar_.callback();
  while (!is_over()) {
    begin_more();
    BALLAST_TRY(const std::vector<EngineEvent> events, engine_->step());
    for (const EngineEvent& event : events) on_event(event);
    print_done(false);
    static_cast<void>(progress({"generating", printed_, prompts_.size()}));
  }
  if (interrupted()) print_done(true);
  bar_.clear();
  print_end();
  if (interrupted()) return kExitInterrupted;
  return failed_ != 0 ? kExitFailed : kExitYes;
}

}  // namespace

Result<int> generate_batch(const BatchSettings& settings, const std::vector<FilePrompt>& prompts,
                           const RunningModel& running, const TextModel& model, Console& console) {
  return PromptBatch(settings, prompts, running, model, console).run();
}

}  // namespace ballast::cli
