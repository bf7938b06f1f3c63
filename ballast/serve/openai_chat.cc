// POST /v1/chat/completions
#include <algorithm>
#include <iterator>

#include "ballast/serve/openai_text.h"
#include "ballast/serve/read_messages.h"
#include "ballast/serve/read_tools.h"

namespace ballast::serve {

namespace {

// {"content": [...], "refusal": null}, or null where none were asked for.
void append_chat_log_probabilities(JsonWriter& json, const std::vector<ChosenToken>& tokens, bool is_asked) {
  json.key("logprobs");
  if (!is_asked) {
    json.null();
    return;
  }
  json.begin_object().key("content");
  append_chosen_tokens(json, tokens);
  json.key("refusal").null().end_object();
}

// Agents go on where there are calls, whatever ended the answer behind them.
std::string_view chat_finish_reason(const ChoiceEnd& end) {
  return end.calls > 0 ? "tool_calls" : end.is_cut ? "length" : "stop";
}

void append_chat_call(JsonWriter& json, const AnswerCall& call) {
  json.key("id").string(call.id).key("type").string("function").key("function").begin_object();
  json.key("name").string(call.name).key("arguments").string(call.arguments).end_object();
}

class ChatWriter : public TextWriter {
 public:
  ChatWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : sink_(std::move(sink)),
        head_("chatcmpl-", label),
        has_log_probabilities_(ask.log_probabilities.has_value()),
        choices_(ask.choices) {}

  void piece(size_t index, AnswerPiece piece) override {
    Choice& choice = choices_[index];
    choice.content += piece.content;
    choice.reasoning += piece.reasoning;
    std::ranges::move(piece.tokens, std::back_inserter(choice.tokens));
    std::ranges::move(piece.calls, std::back_inserter(choice.calls));
  }

  void end(size_t index, const ChoiceEnd& end) override { choices_[index].end = end; }

  void finish(const AnswerUsage& usage) override {
    JsonWriter json;
    json.begin_object();
    head_.append_to(json, "chat.completion");
    json.key("choices").begin_array();
    for (size_t i = 0; i < choices_.size(); ++i) append_choice(json, i);
    json.end_array().key("usage");
    append_usage(json, usage);
    sink_->send(json_answer(json.end_object().take()));
  }

  void fail(const Refusal& refusal) override { sink_->send(to_answer(refusal, Dialect::kOpenAi)); }

 private:
  struct Choice {
    std::string content{}, reasoning{};
    std::vector<ChosenToken> tokens{};
    std::vector<AnswerCall> calls{};
    ChoiceEnd end{};
  };

  void append_choice(JsonWriter& json, size_t index) const {
    const Choice& choice = choices_[index];
    json.begin_object().key("index").number(index).key("message").begin_object();
    json.key("role").string("assistant").key("content");
    if (choice.content.empty() && !choice.calls.empty()) json.null();
    else json.string(choice.content);
    if (!choice.reasoning.empty()) json.key("reasoning_content").string(choice.reasoning);
    json.key("refusal").null();
    if (!choice.calls.empty()) append_calls(json, choice.calls);
    json.end_object();
    append_chat_log_probabilities(json, choice.tokens, has_log_probabilities_);
    json.key("finish_reason").string(chat_finish_reason(choice.end)).end_object();
  }

  static void append_calls(JsonWriter& json, const std::vector<AnswerCall>& calls) {
    json.key("tool_calls").begin_array();
    for (const AnswerCall& call : calls) {
      json.begin_object();
      append_chat_call(json, call);
      json.end_object();
    }
    json.end_array();
  }

  std::shared_ptr<AnswerSink> sink_;
  OpenAiHead head_;
  bool has_log_probabilities_;
  std::vector<Choice> choices_;
};

class ChatStreamWriter : public OpenAiStreamWriter {
 public:
  ChatStreamWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : OpenAiStreamWriter(std::move(sink), ask, OpenAiHead("chatcmpl-", label), "chat.completion.chunk"),
        calls_(ask.choices),
        has_log_probabilities_(ask.log_probabilities.has_value()) {}

  void piece(size_t index, AnswerPiece piece) override { stream_.write(roles() + chunk(index, piece)); }

  void end(size_t index, const ChoiceEnd& end) override {
    JsonWriter json = begin_chunk(index);
    json.key("delta").begin_object().end_object().key("logprobs").null();
    json.key("finish_reason").string(chat_finish_reason(end));
    stream_.write(roles() + finish_chunk(std::move(json)));
  }

 private:
  // Each choice's role once, before its first piece, and that of choice 0 before every other: clients rely on both.
  std::string roles() {
    std::string all;
    if (stream_.has_begun()) return all;
    for (size_t i = 0; i < calls_.size(); ++i) {
      JsonWriter json = begin_chunk(i);
      json.key("delta").begin_object().key("role").string("assistant").key("content").string("").end_object();
      json.key("logprobs").null().key("finish_reason").null();
      all += finish_chunk(std::move(json));
    }
    return all;
  }

  std::string chunk(size_t index, const AnswerPiece& piece) {
    const bool has_other = !piece.reasoning.empty() || !piece.calls.empty();
    JsonWriter json = begin_chunk(index);
    json.key("delta").begin_object();
    if (!piece.reasoning.empty()) json.key("reasoning_content").string(piece.reasoning);
    if (!piece.content.empty() || !has_other) json.key("content").string(piece.content);
    if (!piece.calls.empty()) append_calls(json, piece.calls, calls_[index]);
    json.end_object();
    append_chat_log_probabilities(json, piece.tokens, has_log_probabilities_);
    json.key("finish_reason").null();
    return finish_chunk(std::move(json));
  }

  // A call comes whole, so its id and name are sent once. `number`: of the next call of the choice.
  static void append_calls(JsonWriter& json, const std::vector<AnswerCall>& calls, uint64_t& number) {
    json.key("tool_calls").begin_array();
    for (const AnswerCall& call : calls) {
      json.begin_object().key("index").number(number++);
      append_chat_call(json, call);
      json.end_object();
    }
    json.end_array();
  }

  std::vector<uint64_t> calls_;  // of each choice, so far
  bool has_log_probabilities_;
};

}  // namespace

OpenAiHead::OpenAiHead(std::string_view id_prefix, const AnswerLabel& label)
    : id_(make_answer_id(id_prefix)),
      model_(label.model),
      fingerprint_("ballast-" + label.version),
      created_(unix_seconds()) {}

void OpenAiHead::append_to(JsonWriter& json, std::string_view object) const {
  json.key("id").string(id_).key("object").string(object).key("created").number(created_);
  json.key("model").string(model_).key("system_fingerprint").string(fingerprint_);
}

OpenAiStreamWriter::OpenAiStreamWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, OpenAiHead head,
                                       std::string_view object)
    : stream_(std::move(sink), std::string(kEventStream)),
      head_(std::move(head)),
      object_(object),
      has_usage_(ask.usage_in_stream) {}

// What was used comes last and alone, because clients look at choices[0] of every other object.
void OpenAiStreamWriter::finish(const AnswerUsage& usage) {
  std::string last;
  if (has_usage_) {
    JsonWriter json;
    json.begin_object();
    head_.append_to(json, object_);
    json.key("choices").begin_array().end_array().key("usage");
    append_usage(json, usage);
    last = to_event(json.end_object().take());
  }
  stream_.write(last + to_event("[DONE]"));
  stream_.end();
}

void OpenAiStreamWriter::fail(const Refusal& refusal) {
  stream_.fail(refusal, Dialect::kOpenAi, to_event(error_json(refusal, Dialect::kOpenAi)));
}

JsonWriter OpenAiStreamWriter::begin_chunk(size_t choice) const {
  JsonWriter json;
  json.begin_object();
  head_.append_to(json, object_);
  json.key("choices").begin_array().begin_object().key("index").number(choice);
  return json;
}

std::string OpenAiStreamWriter::finish_chunk(JsonWriter json) {
  return to_event(json.end_object().end_array().end_object().take());
}

void read_chat_completion(Fields& fields, const AskLimits& limits, TextAsk& ask) {
  ask.is_chat = true;
  read_openai_common(fields, limits, ask);
  ask.turns = read_messages(fields, "messages");
  read_tools(fields, ask.tools);
  read_tool_choice(fields, ask.tools);
  read_template_values(fields, ask);
  if (fields.truth("echo").value_or(false)) {
    fields.refuse("echo", "would change the answer: only /v1/completions supports it", "unsupported_parameter");
  }
  refuse_unsupported(fields, {"add_special_tokens", {"false"}, "only false is supported here"});
  ask.max_tokens = fields.count("max_completion_tokens", 1, INT32_MAX);
  if (!ask.max_tokens) ask.max_tokens = fields.count("max_tokens", 1, INT32_MAX);
  read_log_probabilities(fields, ask);
}

std::unique_ptr<TextWriter> make_chat_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, AnswerLabel label) {
  if (ask.stream) return std::make_unique<ChatStreamWriter>(std::move(sink), ask, label);
  return std::make_unique<ChatWriter>(std::move(sink), ask, label);
}

}  // namespace ballast::serve
