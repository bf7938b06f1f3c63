// POST /v1/responses. Nothing is stored: every request brings the whole conversation.
#include "ballast/serve/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ballast/serve/read_messages.h"
#include "ballast/serve/read_response.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostIncluded = 100;
constexpr std::string_view kNoResponseScores = "not supported here: use /v1/chat/completions";

// What would need a memory between requests, or another kind of answer.
void refuse_for_responses(Fields& fields) {
  for (const std::string_view key : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.has(key)) {
      fields.refuse(key, "would change the answer: this server stores nothing, so send the whole conversation",
                    "unsupported_parameter");
    }
  }
  if (fields.truth("background").value_or(false)) {
    fields.refuse("background", "is true: this server stores nothing", "unsupported_parameter");
  }
  if (const auto truncation = fields.text("truncation");
      truncation && *truncation != "disabled" && *truncation != "auto") {
    fields.refuse("truncation", "must be \"disabled\" or \"auto\"");
  }
  refuse_unsupported(fields, {"max_tool_calls", {}, "this server has no tools of its own: leave it out"});
  refuse_unsupported(fields, {"logprobs", {"false"}, kNoResponseScores});
  for (const std::string& included : fields.texts("include", kMostIncluded)) {
    if (included != "message.output_text.logprobs") continue;
    fields.refuse("include", fmt::format("has \"{}\": {}", included, kNoResponseScores), "unsupported_parameter");
  }
}

class ResponseParts {
 public:
  ResponseParts(const TextAsk& ask, const AnswerLabel& label)
      : id_(make_answer_id("resp_")),
        message_id_(make_answer_id("msg_")),
        reasoning_id_(make_answer_id("rs_")),
        model_(label.model),
        created_(unix_seconds()),
        sampling_(ask.sampling),
        max_tokens_(ask.max_tokens),
        echo_(ask.echo_of_response),
        may_call_several_(ask.tools.may_call_several) {}

  std::string content{}, reasoning{};
  std::vector<AnswerCall> calls{};
  bool is_cut = false;

  const std::string& message_id() const { return message_id_; }
  const std::string& reasoning_id() const { return reasoning_id_; }

  void append_text_part(JsonWriter& json, std::string_view text) const {
    json.begin_object().key("type").string("output_text").key("text").string(text);
    json.key("annotations").begin_array().end_array().key("logprobs").begin_array().end_array().end_object();
  }

  void append_message(JsonWriter& json, bool is_done) const {
    json.begin_object().key("type").string("message").key("id").string(message_id_);
    json.key("status").string(!is_done ? "in_progress" : is_cut ? "incomplete" : "completed");
    json.key("role").string("assistant").key("content").begin_array();
    if (is_done) append_text_part(json, content);
    json.end_array().end_object();
  }

  void append_reasoning(JsonWriter& json, bool is_done) const {
    json.begin_object().key("type").string("reasoning").key("id").string(reasoning_id_);
    json.key("summary").begin_array().end_array().key("content").begin_array();
    if (is_done) {
      json.begin_object().key("type").string("reasoning_text").key("text").string(reasoning).end_object();
    }
    json.end_array().end_object();
  }

  static void append_call(JsonWriter& json, const AnswerCall& call, bool is_done) {
    json.begin_object().key("type").string("function_call").key("id").string(call_item(call));
    json.key("call_id").string(call.id).key("name").string(call.name);
    json.key("arguments").string(is_done ? call.arguments : "");
    json.key("status").string(is_done ? "completed" : "in_progress").end_object();
  }
  static std::string call_item(const AnswerCall& call) { return "fc_" + call.id; }

  // Clients expect a message where there is nothing else.
  bool has_message() const { return !content.empty() || calls.empty(); }

  // With what there is of the output, where `status` is the last one.
  void append_response(JsonWriter& json, std::string_view status, const AnswerUsage* usage,
                       const Refusal* refusal = nullptr) const {
    json.begin_object().key("id").string(id_).key("object").string("response").key("created_at").number(created_);
    json.key("status").string(status).key("background").boolean(false).key("error");
    if (refusal == nullptr) json.null();
    else json.begin_object().key("code").string("server_error").key("message").string(refusal->message).end_object();
    json.key("incomplete_details");
    if (status == "incomplete") json.begin_object().key("reason").string("max_output_tokens").end_object();
    else json.null();
    json.key("instructions").raw(or_else(echo_.instructions, "null")).key("max_output_tokens");
    if (max_tokens_) json.number(*max_tokens_);
    else json.null();
    json.key("model").string(model_).key("output").begin_array();
    if (usage != nullptr && !reasoning.empty()) append_reasoning(json, true);
    if (usage != nullptr && has_message()) append_message(json, true);
    if (usage != nullptr) {
      for (const AnswerCall& call : calls) append_call(json, call, true);
    }
    json.end_array().key("parallel_tool_calls").boolean(may_call_several_).key("previous_response_id").null();
    json.key("store").boolean(false);
    append_or_null(json, "temperature", sampling_.temperature);
    json.key("text").begin_object().key("format").raw(or_else(echo_.text_format, R"({"type":"text"})")).end_object();
    json.key("tool_choice").raw(or_else(echo_.tool_choice, R"("auto")"));
    json.key("tools").raw(or_else(echo_.tools, "[]"));
    append_or_null(json, "top_p", sampling_.top_p);
    json.key("truncation").string("disabled").key("usage");
    if (usage == nullptr) json.null();
    else append_response_usage(json, *usage);
    json.key("metadata").begin_object().end_object().end_object();
  }

  std::string_view last_status() const { return is_cut ? "incomplete" : "completed"; }

 private:
  static std::string_view or_else(const std::string& said, std::string_view otherwise) {
    return said.empty() ? otherwise : said;
  }

  static void append_or_null(JsonWriter& json, std::string_view key, std::optional<double> value) {
    json.key(key);
    if (value) json.real(*value);
    else json.null();
  }

  static void append_response_usage(JsonWriter& json, const AnswerUsage& usage) {
    json.begin_object().key("input_tokens").number(usage.prompt_tokens);
    json.key("input_tokens_details").begin_object().key("cached_tokens").number(usage.cached_tokens).end_object();
    json.key("output_tokens").number(usage.written_tokens).key("output_tokens_details").begin_object();
    json.key("reasoning_tokens").number(usage.reasoning_tokens).end_object();
    json.key("total_tokens").number(usage.prompt_tokens + usage.written_tokens).end_object();
  }

  std::string id_, message_id_, reasoning_id_, model_;
  uint64_t created_;
  SamplingAsk sampling_;
  std::optional<uint64_t> max_tokens_;
  ResponseEcho echo_;
  bool may_call_several_;
};

class ResponseWriter : public TextWriter {
 public:
  ResponseWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : sink_(std::move(sink)), parts_(ask, label) {}

  void piece(size_t, AnswerPiece piece) override {
    parts_.content += piece.content;
    parts_.reasoning += piece.reasoning;
    std::ranges::move(piece.calls, std::back_inserter(parts_.calls));
  }
  void end(size_t, const ChoiceEnd& end) override { parts_.is_cut = end.is_cut && end.calls == 0; }
  void finish(const AnswerUsage& usage) override {
    JsonWriter json;
    parts_.append_response(json, parts_.last_status(), &usage);
    sink_->send(json_answer(json.take()));
  }
  void fail(const Refusal& refusal) override { sink_->send(to_answer(refusal, Dialect::kOpenAi)); }

 private:
  std::shared_ptr<AnswerSink> sink_;
  ResponseParts parts_;
};

class ResponseStreamWriter : public TextWriter {
 public:
  ResponseStreamWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : stream_(std::move(sink), std::string(kEventStream)), parts_(ask, label) {}

  void piece(size_t, AnswerPiece piece) override {
    std::string events = beginning();
    if (!piece.reasoning.empty()) {
      if (item_ == Item::kNone) events += open_reasoning();
      parts_.reasoning += piece.reasoning;
      events += delta("response.reasoning_text.delta", parts_.reasoning_id(), piece.reasoning);
    }
    if (!piece.content.empty()) {
      events += open_message();
      parts_.content += piece.content;
      events += delta("response.output_text.delta", parts_.message_id(), piece.content);
    }
    // They come whole, and behind the text.
    std::ranges::move(piece.calls, std::back_inserter(parts_.calls));
    if (!events.empty()) stream_.write(std::move(events));
  }

  void end(size_t, const ChoiceEnd& end) override { parts_.is_cut = end.is_cut && end.calls == 0; }

  void finish(const AnswerUsage& usage) override {
    std::string events = beginning();
    if (parts_.has_message()) {
      events += open_message();  // a statement of its own: it moves what the next is written with
      events += close_message();
    } else {
      events += close_reasoning();
    }
    for (const AnswerCall& call : parts_.calls) events += call_events(call);
    const std::string type = fmt::format("response.{}", parts_.last_status());
    events += event(type, [&](JsonWriter& json) {
      json.key("response");
      parts_.append_response(json, parts_.last_status(), &usage);
    });
    stream_.write(std::move(events));
    stream_.end();
  }

  void fail(const Refusal& refusal) override {
    const std::string last = event("response.failed", [&](JsonWriter& json) {
      json.key("response");
      parts_.append_response(json, "failed", nullptr, &refusal);
    });
    stream_.fail(refusal, Dialect::kOpenAi, last);
  }

 private:
  enum class Item : unsigned char { kNone, kReasoning, kMessage };

  // Every event has its type and its number.
  template <typename Fill>
  std::string event(std::string_view type, const Fill& fill) {
    JsonWriter json;
    json.begin_object().key("type").string(type).key("sequence_number").number(sequence_++);
    fill(json);
    return to_event(json.end_object().take(), type);
  }

  std::string beginning() {
    if (stream_.has_begun()) return "";
    std::string events;
    for (const std::string_view type : {"response.created", "response.in_progress"}) {
      events += event(type, [&](JsonWriter& json) {
        json.key("response");
        parts_.append_response(json, "in_progress", nullptr);
      });
    }
    return events;
  }

  std::string item_event(std::string_view type, bool is_done) {
    return event(type, [&](JsonWriter& json) {
      json.key("output_index").number(index_).key("item");
      if (item_ == Item::kMessage) parts_.append_message(json, is_done);
      else parts_.append_reasoning(json, is_done);
    });
  }

  void append_place(JsonWriter& json, const std::string& item) const {
    json.key("item_id").string(item).key("output_index").number(index_).key("content_index").number(0);
  }

  std::string delta(std::string_view type, const std::string& item, const std::string& text) {
    return event(type, [&](JsonWriter& json) {
      append_place(json, item);
      json.key("delta").string(text);
      if (item_ == Item::kMessage) json.key("logprobs").begin_array().end_array();
    });
  }

  std::string open_reasoning() {
    item_ = Item::kReasoning;
    return item_event("response.output_item.added", false);
  }

  std::string close_reasoning() {
    if (item_ != Item::kReasoning) return "";
    std::string events = event("response.reasoning_text.done", [&](JsonWriter& json) {
      append_place(json, parts_.reasoning_id());
      json.key("text").string(parts_.reasoning);
    });
    events += item_event("response.output_item.done", true);
    ++index_;
    return events;
  }

  std::string call_events(const AnswerCall& call) {
    const auto item = [&](std::string_view type, bool is_done) {
      return event(type, [&](JsonWriter& json) {
        json.key("output_index").number(index_).key("item");
        ResponseParts::append_call(json, call, is_done);
      });
    };
    const auto arguments = [&](std::string_view type, std::string_view key) {
      return event(type, [&](JsonWriter& json) {
        json.key("item_id").string(ResponseParts::call_item(call)).key("output_index").number(index_);
        json.key(key).string(call.arguments);
      });
    };
    std::string events = item("response.output_item.added", false);
    events += arguments("response.function_call_arguments.delta", "delta");
    events += arguments("response.function_call_arguments.done", "arguments");
    events += item("response.output_item.done", true);
    ++index_;
    return events;
  }

  std::string open_message() {
    if (item_ == Item::kMessage) return "";
    std::string events = close_reasoning();
    item_ = Item::kMessage;
    events += item_event("response.output_item.added", false);
    return events + part_event("response.content_part.added", "");
  }

  std::string part_event(std::string_view type, std::string_view text) {
    return event(type, [&](JsonWriter& json) {
      append_place(json, parts_.message_id());
      json.key("part");
      parts_.append_text_part(json, text);
    });
  }

  std::string close_message() {
    std::string events = event("response.output_text.done", [&](JsonWriter& json) {
      append_place(json, parts_.message_id());
      json.key("text").string(parts_.content).key("logprobs").begin_array().end_array();
    });
    events += part_event("response.content_part.done", parts_.content);
    events += item_event("response.output_item.done", true);
    ++index_;
    return events;
  }

  PieceStream stream_;
  ResponseParts parts_;
  Item item_ = Item::kNone;
  uint64_t index_ = 0, sequence_ = 0;
};

}  // namespace

void read_response(Fields& fields, const AskLimits& limits, TextAsk& ask) {
  ask.is_chat = true;
  refuse_for_responses(fields);
  read_openai_common(fields, limits, ask);
  read_response_form(fields, ask.form);
  read_response_tools(fields, ask.tools);
  if (ask.choices != 1) fields.refuse("n", "must be 1 here");
  read_response_echo(fields, ask.echo_of_response);
  read_response_input(fields, ask.turns);
  read_template_values(fields, ask);
  if (auto reasoning = fields.object("reasoning")) read_reasoning_effort(*reasoning, "effort", ask);
  ask.max_tokens = fields.count("max_output_tokens", 1, INT32_MAX);
  if (fields.count("top_logprobs", 0, 20).value_or(0) != 0) {
    fields.refuse("top_logprobs", "is not supported here: use /v1/chat/completions", "unsupported_parameter");
  }
}

std::unique_ptr<TextWriter> make_response_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask,
                                                 AnswerLabel label) {
  if (ask.stream) return std::make_unique<ResponseStreamWriter>(std::move(sink), ask, label);
  return std::make_unique<ResponseWriter>(std::move(sink), ask, label);
}

}  // namespace ballast::serve
