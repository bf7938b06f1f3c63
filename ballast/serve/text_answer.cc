#include "ballast/serve/text_answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ballast/base/counter_random.h"
#include "ballast/device/host_values.h"
#include "ballast/serve/prompt_scores.h"

namespace ballast::serve {

TextAnswer::Choice::Choice(const AnswerPlan& plan, size_t number)
    : prompt(number),
      decoder(*plan.tokenizer),
      stops([&] {
        std::vector<std::string> all = plan.stop;
        all.insert(all.end(), plan.turn_ends.begin(), plan.turn_ends.end());
        return all;
      }()),
      split(plan.knows_thinking, plan.begins_thinking) {
  if (plan.call_style) reader.emplace(*plan.call_style, plan.tools);
}

TextAnswer::TextAnswer(std::shared_ptr<AnswerSink> sink, std::unique_ptr<TextWriter> writer, Ticket ticket,
                       std::shared_ptr<EngineInbox> inbox, std::shared_ptr<ServiceMetrics> metrics,
                       uint64_t most_unsent, Clock::time_point arrival)
    : sink_(std::move(sink)),
      writer_(std::move(writer)),
      ticket_(std::move(ticket)),
      inbox_(std::move(inbox)),
      metrics_(std::move(metrics)),
      most_unsent_(most_unsent),
      arrival_(arrival) {}

// Whoever held it last had no memory to go on.
TextAnswer::~TextAnswer() { fail({.status = 503, .message = "the server is out of memory", .retry_after = 5}); }

void TextAnswer::start(AnswerPlan plan) {
  plan_ = std::move(plan);
  start_ = Clock::now();
  uint64_t total = 0;
  for (const uint64_t tokens : plan_.prompt_tokens) total += tokens;
  reused_.assign(plan_.prompt_tokens.size(), 0);
  for (size_t prompt = 0; prompt < plan_.prompt_tokens.size(); ++prompt) {
    for (uint64_t i = 0; i < plan_.choices; ++i) choices_.emplace_back(plan_, prompt);
  }
  open_choices_ = choices_.size();
  writer_->begin(total);
  for (size_t i = 0; i < choices_.size() && !plan_.echo.empty(); ++i) writer_->piece(i, plan_.echo[choices_[i].prompt]);
}

void TextAnswer::leave() {
  if (has_left_.exchange(true)) return;
  if (!is_over_) ++metrics_->left;
  inbox_->look_for_left();
}

void TextAnswer::drop() {
  if (is_over()) ticket_.reset();
}

// The place is free before the client sees the end: it may ask again at once.
void TextAnswer::fail(const Refusal& refusal) {
  if (is_over_.exchange(true)) return;
  const bool is_wanted = !has_left_;
  if (is_wanted) ++metrics_->refused;
  ticket_.reset();
  if (is_wanted) writer_->fail(refusal);
}

void TextAnswer::take(size_t index, const EngineEvent& event) {
  if (is_over()) return;
  Choice& choice = choices_[index];
  if (choice.is_over) return;
  // The other choices of a prompt take it over from the first.
  if (index % plan_.choices == 0) reused_[choice.prompt] = event.reused;
  if (event.kind == EngineEvent::Kind::kToken) {
    take_token(choice, index, event);
    return;
  }
  switch (event.reason) {
    case FinishReason::kStopToken: end_choice(choice, index, false); break;
    case FinishReason::kMaxTokens:
    case FinishReason::kContextFull: end_choice(choice, index, true); break;
    case FinishReason::kDeadline: fail(late_refusal()); break;
    case FinishReason::kFailed:
      fail(event.error ? refusal_of(*event.error) : Refusal{.status = 500, .message = "the answer failed"});
      break;
    case FinishReason::kCancelled:
      fail({.status = 503, .message = "the server has cancelled the answer", .retry_after = 1});
      break;
  }
}

void TextAnswer::take_token(Choice& choice, size_t index, const EngineEvent& event) {
  const auto now = Clock::now();
  if (!first_token_) {
    first_token_ = now;
    metrics_->first_token.add(now - arrival_);
  } else if (choices_.size() == 1) {
    metrics_->between_tokens.add(now - *last_token_);
  }
  last_token_ = now;
  ++choice.tokens;
  const Status chosen = add_log_probability(choice, event);
  auto text = chosen ? text_of(choice, event.token.id) : Result<std::string>(chosen.error());
  if (!text) {
    fail(refusal_of(text.error()));
    return;
  }
  show(choice, index, *text, false);
  if (choice.stops.found() || has_enough_calls(choice)) end_choice(choice, index, false);
  if (!is_over_ && sink_->unsent() > most_unsent_) {
    ++metrics_->too_slow;
    fail({.status = 503, .message = "the client reads too slowly: the answer was given up", .may_retry = false});
  }
}

// Special tokens are not part of a text, but for those that some families mark their reasoning and calls with.
Result<std::string> TextAnswer::text_of(Choice& choice, TokenId id) const {
  if (!plan_.tokenizer->is_special(id)) return choice.decoder.next(id);
  const auto bytes = plan_.tokenizer->bytes_of(id);
  if (!bytes) return std::string();
  const bool is_mark = (plan_.knows_thinking && (*bytes == "<think>" || *bytes == "</think>")) ||
                       (plan_.call_style && is_tool_call_mark(*plan_.call_style, *bytes));
  return is_mark ? std::string(*bytes) : std::string();
}

Status TextAnswer::add_log_probability(Choice& choice, const EngineEvent& event) const {
  if (!plan_.log_probabilities) return {};
  const std::lock_guard turn(plan_.text->model().running());
  BALLAST_TRY(const auto logits, HostValues<float>::of(event.logits));
  BALLAST_TRY(ChosenToken chosen, to_chosen(*plan_.tokenizer, logits.span(), event.token.id, *plan_.log_probabilities));
  choice.held.push_back({std::move(chosen), choice.read_bytes});
  return {};
}

void TextAnswer::show(Choice& choice, size_t index, std::string_view text, bool is_last) {
  if (!plan_.stop.empty()) choice.tail += text;
  std::string allowed = choice.stops.next(text);
  if (is_last) allowed += choice.stops.finish();
  choice.read_bytes += text.size();
  choice.shown_bytes += allowed.size();
  SplitText split = choice.split.next(allowed);
  if (is_last || choice.stops.found()) {
    SplitText rest = choice.split.finish();
    split.reasoning += rest.reasoning;
    split.content += rest.content;
  }
  if (!split.reasoning.empty() && !is_last) ++choice.reasoning_tokens;
  AnswerPiece piece{std::move(split.content), std::move(split.reasoning)};
  if (choice.reader) add_calls(choice, index, is_last || choice.stops.found(), piece);
  const bool has_text = !piece.empty();
  if (has_text || is_last) piece.tokens = tokens_shown(choice, is_last && !choice.stops.found());
  if (!piece.empty()) writer_->piece(index, std::move(piece));
}

// Tokens go with their text. What is held back because it may be a stop string keeps its tokens back.
std::vector<ChosenToken> TextAnswer::tokens_shown(Choice& choice, bool is_all) {
  const auto is_shown = [&](const HeldToken& held) { return is_all || held.begin < choice.shown_bytes; };
  const auto end = std::ranges::find_if_not(choice.held, is_shown);
  std::vector<ChosenToken> tokens;
  for (auto at = choice.held.begin(); at != end; ++at) tokens.push_back(std::move(at->token));
  choice.held.erase(choice.held.begin(), end);
  return tokens;
}

// Takes the calls out of the piece's text.
void TextAnswer::add_calls(Choice& choice, size_t index, bool is_last, AnswerPiece& piece) const {
  ToolText text = choice.reader->next(piece.content);
  if (is_last) {
    ToolText rest = choice.reader->finish();
    text.content += rest.content;
    std::ranges::move(rest.calls, std::back_inserter(text.calls));
  }
  piece.content = std::move(text.content);
  for (ToolCall& call : text.calls) {
    if (has_enough_calls(choice)) return;
    std::string id = make_call_id(counter_random(plan_.call_ids, index), choice.calls++);
    piece.calls.push_back({std::move(id), std::move(call.name), std::move(call.arguments)});
  }
}

std::string TextAnswer::stop_found(const Choice& choice) const {
  size_t first = std::string::npos;
  std::string found;
  for (const std::string& stop : plan_.stop) {
    const size_t at = stop.empty() ? std::string::npos : choice.tail.find(stop);
    if (at >= first) continue;
    first = at;
    found = stop;
  }
  return found;
}

void TextAnswer::end_choice(Choice& choice, size_t index, bool is_cut) {
  ChoiceEnd end{.is_cut = is_cut};
  if (choice.stops.found()) end.stop = stop_found(choice);
  else if (!has_enough_calls(choice)) show(choice, index, choice.decoder.finish(), true);
  // An unfinished character may have been what was missing of a stop string.
  if (choice.stops.found()) end.is_cut = false;
  end.calls = choice.calls;
  choice.is_over = true;
  writer_->end(index, end);
  if (--open_choices_ == 0) finish();
}

void TextAnswer::finish() {
  if (is_over_.exchange(true)) return;
  const auto now = Clock::now();
  metrics_->whole_answer.add(now - arrival_);
  ++metrics_->answers;
  ticket_.reset();
  writer_->finish(usage());
}

AnswerUsage TextAnswer::usage() const {
  AnswerUsage usage{.load = plan_.load};
  for (const uint64_t tokens : plan_.prompt_tokens) usage.prompt_tokens += tokens;
  for (const uint64_t tokens : reused_) usage.cached_tokens += tokens;
  for (const Choice& choice : choices_) {
    usage.written_tokens += choice.tokens;
    usage.reasoning_tokens += choice.reasoning_tokens;
  }
  const auto now = Clock::now();
  usage.prompt = first_token_.value_or(now) - start_;
  usage.writing = now - first_token_.value_or(now);
  usage.total = now - arrival_;
  return usage;
}

}  // namespace ballast::serve
