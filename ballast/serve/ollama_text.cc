#include "ballast/serve/ollama_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ballast/serve/read_form.h"
#include "ballast/serve/read_messages.h"
#include "ballast/serve/read_sampling.h"
#include "ballast/serve/read_tools.h"

namespace ballast::serve {

namespace {

// num_predict -1 and -2: as much as fits.
void read_ollama_options(Fields& fields, TextAsk& ask) {
  auto options = fields.object("options");
  if (!options) return;
  read_sampling(*options, ask.sampling);
  refuse_unsupported(*options);
  read_stops(*options, "stop", ask.stop);
  if (const auto most = options->whole("num_predict", -2, INT32_MAX); most && *most >= 0) {
    ask.max_tokens = static_cast<uint64_t>(*most);
  }
}

// "json", or a schema.
void read_ollama_format(Fields& fields, std::optional<FormAsk>& form) {
  const auto raw = fields.raw("format");
  if (!raw || *raw == "\"\"") return;
  if (*raw == "\"json\"") form = FormAsk{.kind = FormAsk::Kind::kJsonObject, .param = "format"};
  else if (is_json_object(*raw)) read_schema_form(fields, "format", form);
  else fields.refuse("format", "must be \"json\" or a JSON Schema");
}

void read_ollama_common(Fields& fields, TextAsk& ask) {
  ask.model = fields.text("model").value_or("");
  refuse_unsupported(fields);
  read_ollama_format(fields, ask.form);
  read_ollama_options(fields, ask);
  read_log_probabilities(fields, ask);
  ask.stream = fields.truth("stream").value_or(true);
  // true, false, or a word for how much.
  if (const auto think = fields.raw("think")) {
    const bool is_truth = *think == "true" || *think == "false";
    if (!is_truth && !is_json_string(*think)) fields.refuse("think", "must be true, false, or a word such as \"high\"");
    ask.template_values.emplace_back("enable_thinking", is_truth ? std::string(*think) : "true");
  }
}

void append_ollama_calls(JsonWriter& json, const std::vector<AnswerCall>& calls) {
  json.key("tool_calls").begin_array();
  for (const AnswerCall& call : calls) {
    // A line of the stream has no other end than its own; strings in JSON have no line ends.
    std::string arguments = call.arguments;
    std::ranges::replace_if(
        arguments, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    json.begin_object().key("id").string(call.id).key("function").begin_object();
    json.key("name").string(call.name).key("arguments").raw(arguments).end_object().end_object();
  }
  json.end_array();
}

JsonWriter begin_ollama_line(const std::string& model, OllamaForm form, const AnswerPiece& piece) {
  JsonWriter json;
  json.begin_object().key("model").string(model).key("created_at").string(timestamp_now());
  if (!piece.tokens.empty()) {
    json.key("logprobs");
    append_chosen_tokens(json, piece.tokens);
  }
  if (form == OllamaForm::kChat) {
    json.key("message").begin_object().key("role").string("assistant").key("content").string(piece.content);
    if (!piece.reasoning.empty()) json.key("thinking").string(piece.reasoning);
    if (!piece.calls.empty()) append_ollama_calls(json, piece.calls);
    json.end_object();
    return json;
  }
  json.key("response").string(piece.content);
  if (!piece.reasoning.empty()) json.key("thinking").string(piece.reasoning);
  return json;
}

class OllamaWriter : public TextWriter {
 public:
  OllamaWriter(std::shared_ptr<AnswerSink> sink, bool is_stream, OllamaForm form, std::string model)
      : sink_(sink),
        stream_(std::move(sink), "application/x-ndjson"),
        is_stream_(is_stream),
        form_(form),
        model_(std::move(model)) {}

  void piece(size_t, AnswerPiece piece) override {
    if (is_stream_) {
      JsonWriter json = begin_line(piece);
      json.key("done").boolean(false);
      stream_.write(to_ollama_line(json.end_object().take()));
      return;
    }
    whole_.content += piece.content;
    whole_.reasoning += piece.reasoning;
    std::ranges::move(piece.tokens, std::back_inserter(whole_.tokens));
    std::ranges::move(piece.calls, std::back_inserter(whole_.calls));
  }

  void end(size_t, const ChoiceEnd& end) override { is_cut_ = end.is_cut; }

  void finish(const AnswerUsage& usage) override {
    JsonWriter json = begin_line(whole_);
    const auto nanoseconds = [](std::chrono::nanoseconds time) {
      return static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
    };
    json.key("done").boolean(true).key("done_reason").string(is_cut_ ? "length" : "stop");
    json.key("total_duration").number(nanoseconds(usage.total)).key("load_duration").number(nanoseconds(usage.load));
    json.key("prompt_eval_count").number(usage.prompt_tokens);
    json.key("prompt_eval_duration").number(nanoseconds(usage.prompt));
    json.key("eval_count").number(usage.written_tokens).key("eval_duration").number(nanoseconds(usage.writing));
    std::string last = json.end_object().take();
    if (!is_stream_) {
      sink_->send(json_answer(std::move(last)));
      return;
    }
    stream_.write(to_ollama_line(std::move(last)));
    stream_.end();
  }

  void fail(const Refusal& refusal) override {
    stream_.fail(refusal, Dialect::kOllama, to_ollama_line(error_json(refusal, Dialect::kOllama)));
  }

 private:
  JsonWriter begin_line(const AnswerPiece& piece) const { return begin_ollama_line(model_, form_, piece); }

  std::shared_ptr<AnswerSink> sink_;
  PieceStream stream_;
  bool is_stream_;
  OllamaForm form_;
  std::string model_;
  AnswerPiece whole_;  // where it is no stream
  bool is_cut_ = false;
};

}  // namespace

std::string ollama_load_answer(const std::string& model, OllamaForm form) {
  JsonWriter json = begin_ollama_line(model, form, {});
  return json.key("done").boolean(true).key("done_reason").string("load").end_object().take();
}

std::string to_ollama_line(std::string json) {
  // U+2028, U+2029 and U+0085, which can only stand inside of strings.
  constexpr std::pair<std::string_view, std::string_view> kLineEnds[] = {
      {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}, {"\xC2\x85", "\\u0085"}};
  for (const auto& [bytes, escape] : kLineEnds) {
    for (size_t at = 0; (at = json.find(bytes, at)) != std::string::npos; at += escape.size()) {
      json.replace(at, bytes.size(), escape);
    }
  }
  return json + '\n';
}

void read_ollama_chat(Fields& fields, TextAsk& ask) {
  ask.is_chat = true;
  read_ollama_common(fields, ask);
  ask.turns = read_messages(fields, "messages");
  read_tools(fields, ask.tools);
}

// With a chat template a prompt is a user's message, unless it is "raw"; without one it is continued.
void read_ollama_generate(Fields& fields, TextAsk& ask) {
  read_ollama_common(fields, ask);
  if (fields.has("template")) fields.refuse("template", "templates are the model's own: leave it out");
  if (fields.has("context")) {
    fields.refuse("context", "would change the answer: send the conversation to /api/chat instead");
  }
  if (!fields.elements("images", kMostMessages).empty()) {
    fields.refuse("images", "has pictures: the models here read text only", "unsupported_content");
  }
  std::string prompt = fields.text("prompt").value_or("");
  const std::string system = fields.text("system").value_or("");
  if (fields.truth("raw").value_or(false)) {
    ask.prompts.emplace_back(std::move(prompt));
    return;
  }
  ask.is_chat = true;
  ask.may_be_plain = system.empty();
  if (!system.empty()) ask.turns.push_back({.role = "system", .content = system});
  ask.turns.push_back({.role = "user", .content = std::move(prompt)});
}

std::unique_ptr<TextWriter> make_ollama_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, OllamaForm form,
                                               std::string model) {
  return std::make_unique<OllamaWriter>(std::move(sink), ask.stream, form, std::move(model));
}

}  // namespace ballast::serve
