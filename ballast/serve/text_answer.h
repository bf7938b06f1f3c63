// The answer to one request for text, from its arrival to its end: tokens come in, a protocol's pieces go out.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/engine/engine.h"
#include "ballast/runtime/text_model.h"
#include "ballast/serve/metrics.h"
#include "ballast/serve/model_table.h"
#include "ballast/serve/runner.h"
#include "ballast/serve/think_split.h"
#include "ballast/serve/writer.h"
#include "ballast/text/tool_calls.h"

namespace ballast::serve {

// How tokens become text; known when the prompt is.
struct AnswerPlan {
  const TextModel* text = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::vector<uint64_t> prompt_tokens{};  // of each prompt
  uint64_t choices = 1;                   // of each prompt
  std::vector<AnswerPiece> echo{};        // of each prompt; empty: none
  std::vector<std::string> stop{};        // of the request
  std::vector<std::string> turn_ends{};   // of the template
  bool knows_thinking = false, begins_thinking = false;
  std::optional<uint64_t> log_probabilities{};
  std::optional<ToolCallStyle> call_style{};  // nullopt: no tools may be called
  std::vector<std::string> tools{};           // that may be called
  bool may_call_several = true;
  uint64_t call_ids = 0;  // what the ids of calls are made of; no other answer has the same
  std::chrono::nanoseconds load{};
};

// One thread at a time: that which prepares it, then the model's own. But for leave(), has_left() and is_over().
class TextAnswer {
 public:
  using Clock = std::chrono::steady_clock;

  TextAnswer(std::shared_ptr<AnswerSink> sink, std::unique_ptr<TextWriter> writer, Ticket ticket,
             std::shared_ptr<EngineInbox> inbox, std::shared_ptr<ServiceMetrics> metrics, uint64_t most_unsent,
             Clock::time_point arrival);
  ~TextAnswer();
  TextAnswer(const TextAnswer&) = delete;
  TextAnswer& operator=(const TextAnswer&) = delete;

  Clock::time_point arrival() const { return arrival_; }
  EngineInbox& inbox() { return *inbox_; }

  void start(AnswerPlan plan);
  void take(size_t choice, const EngineEvent& event);
  void fail(const Refusal& refusal);
  // Whether tokens of this choice are of use.
  bool wants_more(size_t choice) const { return !choices_[choice].is_over; }
  // Nothing computes for it any more: its place is free.
  void drop();

  // Any thread: the client is gone.
  void leave();
  bool has_left() const { return has_left_; }
  // Finished, failed, or nobody wants it.
  bool is_over() const { return is_over_ || has_left_; }

 private:
  struct HeldToken {
    ChosenToken token;
    uint64_t begin;  // of its text in that of the choice
  };
  struct Choice {
    Choice(const AnswerPlan& plan, size_t prompt);
    size_t prompt;
    StreamDecoder decoder;
    StopText stops;
    ThinkSplit split;
    std::optional<ToolCallReader> reader{};
    uint64_t calls = 0;
    std::string tail{};  // of the text: enough to find a stop string in it
    uint64_t tokens = 0, reasoning_tokens = 0;
    std::vector<HeldToken> held{};             // whose text is not shown yet
    uint64_t read_bytes = 0, shown_bytes = 0;  // of the text: that came, and that cannot be part of a stop string
    bool is_over = false;
  };
  void take_token(Choice& choice, size_t index, const EngineEvent& event);
  Result<std::string> text_of(Choice& choice, TokenId id) const;
  Status add_log_probability(Choice& choice, const EngineEvent& event) const;
  void add_calls(Choice& choice, size_t index, bool is_last, AnswerPiece& piece) const;
  bool has_enough_calls(const Choice& choice) const { return choice.calls > 0 && !plan_.may_call_several; }
  void show(Choice& choice, size_t index, std::string_view text, bool is_last);
  static std::vector<ChosenToken> tokens_shown(Choice& choice, bool is_all);
  void end_choice(Choice& choice, size_t index, bool is_cut);
  std::string stop_found(const Choice& choice) const;
  void finish();
  AnswerUsage usage() const;

  std::shared_ptr<AnswerSink> sink_;
  std::unique_ptr<TextWriter> writer_;
  std::optional<Ticket> ticket_;
  std::shared_ptr<EngineInbox> inbox_;
  std::shared_ptr<ServiceMetrics> metrics_;
  uint64_t most_unsent_;

  AnswerPlan plan_;
  std::vector<Choice> choices_;
  size_t open_choices_ = 0;
  std::vector<uint64_t> reused_;  // of each prompt
  const Clock::time_point arrival_;
  Clock::time_point start_ = arrival_;  // of the answer
  std::optional<Clock::time_point> first_token_{}, last_token_{};
  std::atomic<bool> is_over_ = false, has_left_ = false;
};

}  // namespace ballast::serve
