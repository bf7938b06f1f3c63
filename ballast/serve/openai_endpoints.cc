#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "ballast/serve/embeddings.h"
#include "ballast/serve/endpoints.h"
#include "ballast/serve/responses.h"

namespace ballast::serve {

namespace {

using ReadAsk = void (*)(Fields&, const AskLimits&, TextAsk&);
using MakeWriter = std::unique_ptr<TextWriter> (*)(std::shared_ptr<AnswerSink>, const TextAsk&, AnswerLabel);

Leave answer_openai_text(ServiceState& state, Call& call, ReadAsk read, MakeWriter make_writer) {
  Fields fields(call.request.body);
  TextAsk ask;
  read(fields, {.most_choices = state.options.most_choices}, ask);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  const std::string name = ask.model.empty() ? state.table.name_of("") : ask.model;
  auto writer = make_writer(call.sink, ask, {.model = name, .version = state.options.version});
  return start_text(state, call, std::move(ask), std::move(writer));
}

Leave chat_completions(ServiceState& state, Call& call) {
  return answer_openai_text(state, call, read_chat_completion, make_chat_writer);
}

Leave completions(ServiceState& state, Call& call) {
  return answer_openai_text(state, call, read_completion, make_completion_writer);
}

Leave responses(ServiceState& state, Call& call) {
  return answer_openai_text(state, call, read_response, make_response_writer);
}

Leave embeddings(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  EmbeddingAsk ask;
  read_openai_embeddings(fields, ask);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  if (ask.model.empty()) ask.model = state.table.name_of("");
  ask.deadline = call.deadline(state.options);
  const std::string name = ask.model;
  return start_short_work(state, call, name, [ask = std::move(ask)](OpenModel& model, const std::atomic<bool>& left) {
    return embed_for(model, ask, left, [&](std::span<const Embedding> made) { return openai_embeddings(ask, made); });
  });
}

// What a model can do is ours: OpenAI's interface has no word for it, and clients ignore it. Absent: not known yet.
void append_model(JsonWriter& json, std::string_view name, uint64_t created, const std::optional<ModelFacts>& facts) {
  json.begin_object().key("id").string(name).key("object").string("model").key("created").number(created);
  json.key("owned_by").string("ballast");
  if (facts) {
    json.key("capabilities").begin_array();
    for (const std::string_view use : uses_of(facts->use)) json.string(use);
    json.end_array();
  }
  json.end_object();
}

Leave list_models(ServiceState& state, Call& call) {
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const auto& line : state.table.lines()) {
    for (const std::string& name : line.all_names()) append_model(json, name, state.start_seconds, line.facts);
  }
  return send_json(call, json.end_array().end_object().take());
}

// %2F and its like, as clients write names with slashes.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                           std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    decoded.push_back(is_escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i]);
    if (is_escape) i += 2;
  }
  return decoded;
}

constexpr Endpoint kOpenAiEndpoints[] = {
    {"GET", "/models", true, Dialect::kOpenAi, list_models},
    {"POST", "/chat/completions", true, Dialect::kOpenAi, chat_completions},
    {"POST", "/completions", true, Dialect::kOpenAi, completions},
    {"POST", "/responses", true, Dialect::kOpenAi, responses},
    {"POST", "/embeddings", true, Dialect::kOpenAi, embeddings},
};

}  // namespace

std::span<const Endpoint> openai_endpoints() { return kOpenAiEndpoints; }

Leave show_model(ServiceState& state, Call& call, std::string_view encoded) {
  const std::string name = to_utf8(percent_decoded(encoded));
  const std::string found = name.empty() ? "" : state.table.name_of(name);
  if (found.empty()) return refuse(state, call, unknown_model(name));
  const auto lines = state.table.lines();
  const auto line = std::ranges::find(lines, found, &ModelTable::Line::name);
  JsonWriter json;
  append_model(json, name, state.start_seconds, line != lines.end() ? line->facts : std::nullopt);
  return send_json(call, json.take());
}

}  // namespace ballast::serve
