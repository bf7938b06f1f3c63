// What an answer consists of, and the interface of those who write it as a protocol wants it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/base/token_id.h"
#include "ballast/serve/exchange.h"
#include "ballast/serve/refusal.h"

namespace ballast::serve {

struct LikelyToken {
  std::string bytes{};
  double log_probability = 0;
};
struct ChosenToken : LikelyToken {
  bool has_value = true;  // the first token of a text was not chosen
  std::vector<LikelyToken> likeliest{};
};

// Of a tool.
struct AnswerCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  // a JSON object
};

struct AnswerPiece {
  std::string content{};
  std::string reasoning{};
  std::vector<ChosenToken> tokens{};  // where log-probabilities were asked for
  std::vector<AnswerCall> calls{};
  bool empty() const { return content.empty() && reasoning.empty() && tokens.empty() && calls.empty(); }
};

struct ChoiceEnd {
  bool is_cut = false;  // by the number of tokens, or the context
  std::string stop{};   // the stop string that ended it; empty: none did
  uint64_t calls = 0;   // of tools
};

struct AnswerUsage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of these
  uint64_t written_tokens = 0;
  uint64_t reasoning_tokens = 0;  // of these
  std::chrono::nanoseconds load{}, prompt{}, writing{}, total{};
};

// One thread at a time. Pieces of the choices come in any order, for each choice up to its end; then comes finish(), or
// instead of all that is left fail().
class TextWriter {
 public:
  virtual ~TextWriter() = default;
  // Before everything else, when the prompt's length is known.
  virtual void begin(uint64_t prompt_tokens) { static_cast<void>(prompt_tokens); }
  virtual void piece(size_t choice, AnswerPiece piece) = 0;
  virtual void end(size_t choice, const ChoiceEnd& end) = 0;
  virtual void finish(const AnswerUsage& usage) = 0;
  virtual void fail(const Refusal& refusal) = 0;
};

// The pieces of an answer whose beginning waits for the first of them, so that an error before it has its own status.
class PieceStream {
 public:
  PieceStream(std::shared_ptr<AnswerSink> sink, std::string content_type)
      : sink_(std::move(sink)), content_type_(std::move(content_type)) {}

  bool has_begun() const { return has_begun_; }
  void write(std::string piece);
  void end();
  // In place of what is left: an answer of its own, or a last piece.
  void fail(const Refusal& refusal, Dialect dialect, std::string last_piece);

 private:
  std::shared_ptr<AnswerSink> sink_;
  std::string content_type_;
  bool has_begun_ = false;
};

inline constexpr std::string_view kEventStream = "text/event-stream";
// data: <json>, with the name of the event before it where it has one.
std::string to_event(std::string_view json, std::string_view name = "");

// {"prompt_tokens": ...}, as OpenAI's clients know it.
void append_usage(JsonWriter& json, const AnswerUsage& usage);
// A finite number: JSON has no others.
void append_log_probability(JsonWriter& json, double value);
// As a list: of chat completions, and of Ollama's answers.
void append_chosen_tokens(JsonWriter& json, const std::vector<ChosenToken>& tokens);
// Text that is UTF-8, whatever the bytes are: a token may be half a character.
std::string to_utf8(std::string_view bytes);

// "chatcmpl-" and a number that no other answer of this process has.
std::string make_answer_id(std::string_view prefix);
// Nine letters and digits, which is what some chat templates demand of a call's id; `number`: of the call in its
// answer.
std::string make_call_id(uint64_t answer, uint64_t number);
uint64_t unix_seconds();
// 2026-11-18T17:40:49.123456Z
std::string timestamp_now();

}  // namespace ballast::serve
