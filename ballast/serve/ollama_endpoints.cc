#include <fmt/format.h>

#include "ballast/base/hash.h"
#include "ballast/serve/embeddings.h"
#include "ballast/serve/endpoints.h"
#include "ballast/serve/ollama_text.h"
#include "ballast/serve/read_messages.h"
#include "ballast/text/tool_calls.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostOllamaTexts = 2048;
// When a model goes that is not closed for want of use: clients calculate with it, so it must not be too far away.
constexpr std::string_view kNever = "2300-01-01T00:00:00Z";

// A request without a prompt asks for no text: it loads the model, as Ollama documents it.
bool asks_to_load(Fields& fields, OllamaForm form) {
  if (form == OllamaForm::kChat) return fields.elements("messages", kMostMessages).empty();
  return fields.text("prompt").value_or("").empty();
}

Leave load_for_ollama(ServiceState& state, Call& call, Fields& fields, OllamaForm form) {
  const std::string asked = fields.text("model").value_or("");
  const std::string keep = std::string(fields.raw("keep_alive").value_or(""));
  if (keep == "0" || keep == "\"0\"" || keep == "\"0s\"" || keep == "\"0m\"")
    fields.refuse("keep_alive", "is 0: requests close no models here", "unsupported_parameter");
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  const std::string name = asked.empty() ? state.table.name_of("") : asked;
  return start_short_work(state, call, asked,
                          [name, form](OpenModel&, const auto&) -> std::variant<HttpAnswer, Refusal> {
                            return json_answer(ollama_load_answer(name, form));
                          });
}

Leave answer_ollama_text(ServiceState& state, Call& call, void (*read)(Fields&, TextAsk&), OllamaForm form) {
  Fields fields(call.request.body);
  if (asks_to_load(fields, form)) return load_for_ollama(state, call, fields, form);
  TextAsk ask;
  read(fields, ask);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  auto writer = make_ollama_writer(call.sink, ask, form, ask.model.empty() ? state.table.name_of("") : ask.model);
  return start_text(state, call, std::move(ask), std::move(writer));
}

Leave ollama_chat(ServiceState& state, Call& call) {
  return answer_ollama_text(state, call, read_ollama_chat, OllamaForm::kChat);
}

Leave ollama_generate(ServiceState& state, Call& call) {
  return answer_ollama_text(state, call, read_ollama_generate, OllamaForm::kGenerate);
}

Leave ollama_embed(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  EmbeddingAsk ask{.model = fields.text("model").value_or(""), .texts = fields.texts("input", kMostOllamaTexts)};
  if (ask.texts.empty()) fields.refuse("input", "is missing or empty: it must be a text or a list of texts");
  ask.width = fields.count("dimensions", 1, INT32_MAX);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  if (ask.model.empty()) ask.model = state.table.name_of("");
  const std::string name = ask.model;
  ask.deadline = call.deadline(state.options);
  const auto arrival = call.arrival;
  return start_short_work(state, call, name, [ask, arrival](OpenModel& model, const std::atomic<bool>& left) {
    return embed_for(model, ask, left, [&](std::span<const Embedding> made) {
      uint64_t tokens = 0;
      JsonWriter json;
      json.begin_object().key("model").string(ask.model).key("embeddings").begin_array();
      for (const Embedding& embedding : made) {
        tokens += embedding.tokens;
        json.begin_array();
        for (const float value : embedding.vector) json.real(static_cast<double>(value));
        json.end_array();
      }
      const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - arrival;
      json.end_array().key("total_duration").number(static_cast<uint64_t>(took.count()));
      json.key("load_duration").number(static_cast<uint64_t>(model.load.count()));
      json.key("prompt_eval_count").number(tokens);
      return json.end_object().take();
    });
  });
}

// Tells models apart by their names, of one process and the next. Ollama's own client shows its first 12 digits and
// ends where there are fewer; hashing the files would take longer than anyone waits for a list.
std::string name_digest(std::string_view name) { return to_hex(blake3(as_bytes(name))); }

// Texts are empty as long as nothing is known of the model.
void append_details(JsonWriter& json, const ModelFacts& facts) {
  json.key("details").begin_object().key("parent_model").string("").key("format").string(facts.format);
  json.key("family").string(facts.family).key("families").begin_array();
  if (!facts.family.empty()) json.string(facts.family);
  json.end_array().key("parameter_size").string(facts.parameter_size);
  json.key("quantization_level").string(facts.quantization).end_object();
}

Leave ollama_tags(ServiceState& state, Call& call) {
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const auto& line : state.table.lines()) {
    const ModelFacts facts = line.facts.value_or(ModelFacts());
    for (const std::string& name : line.all_names()) {
      json.begin_object().key("name").string(name).key("model").string(name);
      json.key("modified_at").string(state.start_timestamp).key("size").number(facts.stored_bytes);
      json.key("digest").string(name_digest(line.name));
      append_details(json, facts);
      json.end_object();
    }
  }
  return send_json(call, json.end_array().end_object().take());
}

// The models that are loaded.
Leave ollama_ps(ServiceState& state, Call& call) {
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const auto& line : state.table.lines()) {
    if (!line.is_open || !line.facts) continue;
    json.begin_object().key("name").string(line.name).key("model").string(line.name);
    json.key("size").number(line.bytes).key("digest").string(name_digest(line.name));
    append_details(json, *line.facts);
    json.key("expires_at").string(kNever).key("size_vram").number(line.facts->is_in_host_memory ? 0 : line.bytes);
    json.key("context_length").number(line.facts->context_length).end_object();
  }
  return send_json(call, json.end_array().end_object().take());
}

Leave ollama_show(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  const std::string name = fields.text(fields.has("model") ? "model" : "name").value_or("");
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  const auto show = [time = state.start_timestamp](OpenModel& model, const auto&) -> std::variant<HttpAnswer, Refusal> {
    JsonWriter json;
    json.begin_object().key("template").string(model.chat ? model.chat->template_text() : "");
    append_details(json, model.facts);
    json.key("model_info").begin_object().key("general.architecture").string(model.kind);
    json.key(fmt::format("{}.context_length", model.kind)).number(model.facts.context_length).end_object();
    json.key("capabilities").begin_array().string(model.text ? "completion" : "embedding");
    if (model.chat && tool_call_style(model.chat->template_text())) json.string("tools");
    json.end_array();
    json.key("modified_at").string(time);
    return json_answer(json.end_object().take());
  };
  return start_short_work(state, call, name, show);
}

Leave ollama_version(ServiceState& state, Call& call) {
  JsonWriter json;
  json.begin_object().key("version").string(state.options.version).end_object();
  return send_json(call, json.take());
}

constexpr Endpoint kOllamaEndpoints[] = {
    {"POST", "/api/chat", false, Dialect::kOllama, ollama_chat},
    {"POST", "/api/generate", false, Dialect::kOllama, ollama_generate},
    {"POST", "/api/embed", false, Dialect::kOllama, ollama_embed},
    {"GET", "/api/tags", false, Dialect::kOllama, ollama_tags},
    {"GET", "/api/ps", false, Dialect::kOllama, ollama_ps},
    {"POST", "/api/show", false, Dialect::kOllama, ollama_show},
    {"GET", "/api/version", false, Dialect::kOllama, ollama_version},
};

}  // namespace

std::span<const Endpoint> ollama_endpoints() { return kOllamaEndpoints; }

}  // namespace ballast::serve
