#include "ballast/serve/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "ballast/base/counter_random.h"
#include "ballast/base/utf8.h"

namespace ballast::serve {

namespace {

constexpr double kLeastLogProbability = -9999;

uint64_t microseconds_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

void append_likely_token(JsonWriter& json, const LikelyToken& token) {
  json.key("token").string(to_utf8(token.bytes)).key("logprob");
  append_log_probability(json, token.log_probability);
  json.key("bytes").begin_array();
  for (const char byte : token.bytes) json.number(static_cast<unsigned char>(byte));
  json.end_array();
}

}  // namespace

void PieceStream::write(std::string piece) {
  if (has_begun_) {
    sink_->write(std::move(piece));
    return;
  }
  has_begun_ = true;
  sink_->begin({.content_type = content_type_, .body = std::move(piece), .headers = {{"Cache-Control", "no-cache"}}});
}

void PieceStream::end() { sink_->end(); }

void PieceStream::fail(const Refusal& refusal, Dialect dialect, std::string last_piece) {
  if (!has_begun_) {
    sink_->send(to_answer(refusal, dialect));
    return;
  }
  sink_->write(std::move(last_piece));
  sink_->end();
}

std::string to_event(std::string_view json, std::string_view name) {
  return name.empty() ? fmt::format("data: {}\n\n", json) : fmt::format("event: {}\ndata: {}\n\n", name, json);
}

void append_usage(JsonWriter& json, const AnswerUsage& usage) {
  json.begin_object().key("prompt_tokens").number(usage.prompt_tokens);
  json.key("completion_tokens").number(usage.written_tokens);
  json.key("total_tokens").number(usage.prompt_tokens + usage.written_tokens);
  json.key("prompt_tokens_details").begin_object().key("cached_tokens").number(usage.cached_tokens).end_object();
  json.key("completion_tokens_details").begin_object();
  json.key("reasoning_tokens").number(usage.reasoning_tokens).end_object().end_object();
}

void append_log_probability(JsonWriter& json, double value) {
  json.real(std::isnan(value) ? kLeastLogProbability : std::clamp(value, kLeastLogProbability, 0.0));
}

void append_chosen_tokens(JsonWriter& json, const std::vector<ChosenToken>& tokens) {
  json.begin_array();
  for (const ChosenToken& token : tokens) {
    json.begin_object();
    append_likely_token(json, token);
    json.key("top_logprobs").begin_array();
    for (const LikelyToken& other : token.likeliest) {
      json.begin_object();
      append_likely_token(json, other);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_sequence_length(bytes, at);
    if (length == 0) text += "\xEF\xBF\xBD";
    else text += bytes.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return text;
}

std::string make_answer_id(std::string_view prefix) {
  static std::atomic<uint64_t> count{0};
  static const uint64_t start = microseconds_now();
  return fmt::format("{}{:016x}", prefix, counter_random(start, count.fetch_add(1)));
}

std::string make_call_id(uint64_t answer, uint64_t number) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr size_t kCallIdLength = 9;
  std::string id;
  for (uint64_t left = counter_random(answer, number); id.size() < kCallIdLength; left /= kLetters.size()) {
    id += kLetters[left % kLetters.size()];
  }
  return id;
}

uint64_t unix_seconds() { return microseconds_now() / 1000000; }

std::string timestamp_now() {
  using namespace std::chrono;
  const uint64_t now = microseconds_now();
  const sys_seconds moment{seconds(now / 1000000)};
  const auto day = floor<days>(moment);
  const year_month_day date(day);
  const hh_mm_ss time(moment - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count(), time.seconds().count(), now % 1000000);
}

}  // namespace ballast::serve
