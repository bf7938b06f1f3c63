// Anthropic's interface: POST /v1/messages and /v1/messages/count_tokens.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ballast/serve/endpoints.h"
#include "ballast/serve/prepare.h"
#include "ballast/serve/read_anthropic.h"
#include "ballast/serve/read_messages.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostAnthropicStops = 16;

void read_anthropic_prompt(Fields& fields, TextAsk& ask) {
  ask.is_chat = true;
  ask.model = fields.text("model").value_or("");
  refuse_unsupported(fields);
  if (fields.has("system")) ask.turns.push_back({.role = "system", .content = read_content(fields, "system")});
  read_anthropic_conversation(fields, ask.turns);
  read_anthropic_tools(fields, ask.tools);
  if (auto thinking = fields.object("thinking")) {
    const std::string type = thinking->text("type").value_or("");
    if (type != "enabled" && type != "disabled") thinking->refuse("type", "must be \"enabled\" or \"disabled\"");
    ask.template_values.emplace_back("enable_thinking", type == "enabled" ? "true" : "false");
  }
}

void read_anthropic_messages(Fields& fields, TextAsk& ask) {
  read_anthropic_prompt(fields, ask);
  // Anthropic's own service takes such a message for the beginning of the answer.
  if (!ask.turns.empty() && ask.turns.back().role == "assistant") {
    fields.refuse("messages", "ends with one of the assistant: answers are not continued, so end with one of the user");
  }
  ask.max_tokens = fields.count("max_tokens", 1, INT32_MAX);
  if (!ask.max_tokens) fields.refuse("max_tokens", "is missing");
  ask.sampling.temperature = fields.number("temperature", 0, 1);
  ask.sampling.top_p = fields.number("top_p", 0, 1);
  ask.sampling.top_k = fields.count("top_k", 0, INT32_MAX);
  ask.stop = fields.texts("stop_sequences", kMostAnthropicStops);
  read_anthropic_form(fields, ask.form);
  ask.stream = fields.truth("stream").value_or(false);
}

std::string_view anthropic_stop_reason(const ChoiceEnd& end) {
  return end.calls > 0 ? "tool_use" : end.is_cut ? "max_tokens" : end.stop.empty() ? "end_turn" : "stop_sequence";
}

void append_stop_sequence(JsonWriter& json, const ChoiceEnd& end) {
  json.key("stop_sequence");
  if (end.stop.empty()) json.null();
  else json.string(end.stop);
}

class AnthropicWriter : public TextWriter {
 public:
  AnthropicWriter(std::shared_ptr<AnswerSink> sink, std::string model)
      : sink_(std::move(sink)), model_(std::move(model)) {}

  void piece(size_t, AnswerPiece piece) override {
    content_ += piece.content;
    reasoning_ += piece.reasoning;
    std::ranges::move(piece.calls, std::back_inserter(calls_));
  }
  void end(size_t, const ChoiceEnd& end) override { end_ = end; }

  void finish(const AnswerUsage& usage) override {
    JsonWriter json;
    json.begin_object().key("id").string(make_answer_id("msg_")).key("type").string("message");
    json.key("role").string("assistant").key("model").string(model_).key("content").begin_array();
    if (!reasoning_.empty()) {
      json.begin_object().key("type").string("thinking").key("thinking").string(reasoning_);
      json.key("signature").string("").end_object();
    }
    if (!content_.empty() || calls_.empty()) {
      json.begin_object().key("type").string("text").key("text").string(content_).end_object();
    }
    for (const AnswerCall& call : calls_) {
      json.begin_object().key("type").string("tool_use").key("id").string(call.id).key("name").string(call.name);
      json.key("input").raw(call.arguments).end_object();
    }
    json.end_array().key("stop_reason").string(anthropic_stop_reason(end_));
    append_stop_sequence(json, end_);
    // Anthropic does not count what was known among the input's tokens.
    json.key("usage").begin_object().key("input_tokens").number(usage.prompt_tokens - usage.cached_tokens);
    json.key("cache_read_input_tokens").number(usage.cached_tokens).key("cache_creation_input_tokens").number(0);
    json.key("output_tokens").number(usage.written_tokens).end_object();
    sink_->send(json_answer(json.end_object().take()));
  }

  void fail(const Refusal& refusal) override { sink_->send(to_answer(refusal, Dialect::kAnthropic)); }

 private:
  std::shared_ptr<AnswerSink> sink_;
  std::string model_;
  std::string content_, reasoning_;
  std::vector<AnswerCall> calls_;
  ChoiceEnd end_;
};

// A block of reasoning, where there is one, then a block of text, and one for each call.
class AnthropicStreamWriter : public TextWriter {
 public:
  AnthropicStreamWriter(std::shared_ptr<AnswerSink> sink, std::string model)
      : stream_(std::move(sink), std::string(kEventStream)), model_(std::move(model)) {}

  void begin(uint64_t prompt_tokens) override { prompt_tokens_ = prompt_tokens; }

  void piece(size_t, AnswerPiece piece) override {
    std::string events = beginning();
    if (!piece.reasoning.empty()) {
      events += enter(Block::kThinking) + delta("thinking_delta", "thinking", piece.reasoning);
    }
    if (!piece.content.empty()) events += enter(Block::kText) + delta("text_delta", "text", piece.content);
    for (const AnswerCall& call : piece.calls) events += call_block(call);
    if (!events.empty()) stream_.write(std::move(events));
  }

  void end(size_t, const ChoiceEnd& end) override { end_ = end; }

  void finish(const AnswerUsage& usage) override {
    std::string events = beginning();
    // Clients expect a text, if only an empty one, where there is nothing else.
    if (end_.calls == 0) events += enter(Block::kText);
    events += leave();
    JsonWriter json;
    json.begin_object().key("type").string("message_delta").key("delta").begin_object();
    json.key("stop_reason").string(anthropic_stop_reason(end_));
    append_stop_sequence(json, end_);
    json.end_object().key("usage").begin_object().key("input_tokens").number(usage.prompt_tokens - usage.cached_tokens);
    json.key("cache_read_input_tokens").number(usage.cached_tokens);
    json.key("output_tokens").number(usage.written_tokens).end_object();
    events += to_event(json.end_object().take(), "message_delta");
    stream_.write(events + to_event(R"({"type":"message_stop"})", "message_stop"));
    stream_.end();
  }

  void fail(const Refusal& refusal) override {
    stream_.fail(refusal, Dialect::kAnthropic, to_event(error_json(refusal, Dialect::kAnthropic), "error"));
  }

 private:
  enum class Block : unsigned char { kNone, kThinking, kText, kCall };

  std::string beginning() {
    if (stream_.has_begun()) return "";
    JsonWriter json;
    json.begin_object().key("type").string("message_start").key("message").begin_object();
    json.key("id").string(make_answer_id("msg_")).key("type").string("message").key("role").string("assistant");
    json.key("model").string(model_).key("content").begin_array().end_array().key("stop_reason").null();
    json.key("stop_sequence").null().key("usage").begin_object().key("input_tokens").number(prompt_tokens_);
    json.key("output_tokens").number(0).end_object().end_object();
    return to_event(json.end_object().take(), "message_start");
  }

  std::string enter(Block block) {
    if (block_ == block) return "";
    std::string events = leave();
    block_ = block;
    JsonWriter json;
    json.begin_object().key("type").string("content_block_start").key("index").number(index_);
    json.key("content_block").begin_object();
    if (block == Block::kText) json.key("type").string("text").key("text").string("");
    else json.key("type").string("thinking").key("thinking").string("").key("signature").string("");
    return events + to_event(json.end_object().end_object().take(), "content_block_start");
  }

  std::string call_block(const AnswerCall& call) {
    std::string events = leave();
    block_ = Block::kCall;
    JsonWriter json;
    json.begin_object().key("type").string("content_block_start").key("index").number(index_);
    json.key("content_block").begin_object().key("type").string("tool_use").key("id").string(call.id);
    json.key("name").string(call.name).key("input").begin_object().end_object().end_object();
    events += to_event(json.end_object().take(), "content_block_start");
    return events + delta("input_json_delta", "partial_json", call.arguments) + leave();
  }

  std::string leave() {
    if (block_ == Block::kNone) return "";
    block_ = Block::kNone;
    return to_event(fmt::format(R"({{"type":"content_block_stop","index":{}}})", index_++), "content_block_stop");
  }

  std::string delta(std::string_view type, std::string_view key, const std::string& text) const {
    JsonWriter json;
    json.begin_object().key("type").string("content_block_delta").key("index").number(index_);
    json.key("delta").begin_object().key("type").string(type).key(key).string(text).end_object();
    return to_event(json.end_object().take(), "content_block_delta");
  }

  PieceStream stream_;
  std::string model_;
  uint64_t prompt_tokens_ = 0;
  Block block_ = Block::kNone;
  uint64_t index_ = 0;
  ChoiceEnd end_;
};

Leave anthropic_messages(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  TextAsk ask;
  read_anthropic_messages(fields, ask);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  const std::string name = ask.model.empty() ? state.table.name_of("") : ask.model;
  std::unique_ptr<TextWriter> writer;
  if (ask.stream) writer = std::make_unique<AnthropicStreamWriter>(call.sink, name);
  else writer = std::make_unique<AnthropicWriter>(call.sink, name);
  return start_text(state, call, std::move(ask), std::move(writer));
}

Leave anthropic_count_tokens(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  TextAsk ask;
  read_anthropic_prompt(fields, ask);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  const std::string model = ask.model;
  return start_short_work(state, call, model,
                          [ask = std::move(ask)](OpenModel& open, const auto&) -> std::variant<HttpAnswer, Refusal> {
                            AskedPrompts prompts;
                            if (auto refusal = encode_ask(open, ask, prompts)) return std::move(*refusal);
                            JsonWriter json;
                            json.begin_object().key("input_tokens").number(prompts.tokens[0].size()).end_object();
                            return json_answer(json.take());
                          });
}

constexpr Endpoint kAnthropicEndpoints[] = {
    {"POST", "/messages", true, Dialect::kAnthropic, anthropic_messages},
    {"POST", "/messages/count_tokens", true, Dialect::kAnthropic, anthropic_count_tokens},
};

}  // namespace

std::span<const Endpoint> anthropic_endpoints() { return kAnthropicEndpoints; }

}  // namespace ballast::serve
