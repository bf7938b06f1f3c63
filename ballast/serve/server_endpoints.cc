// What operators ask, and what llama-server's clients know besides OpenAI's interface.
#include <fmt/format.h>

#include "ballast/base/utf8.h"
#include "ballast/serve/endpoints.h"
#include "ballast/serve/fields.h"
#include "ballast/serve/prepare.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostDecodedTokens = 1'000'000;

Leave health(ServiceState& state, Call& call) {
  if (state.refuses_new) {
    return refuse(state, call, {.status = 503, .message = "the server is stopping", .retry_after = 5});
  }
  if (!state.is_loading) return send_json(call, R"({"status":"ok"})");
  HttpAnswer answer = json_answer(R"({"status":"loading"})");
  answer.status = 503;
  answer.headers.emplace_back("Retry-After", "1");
  call.sink->send(std::move(answer));
  return {};
}

// A piece that is no UTF-8 by itself is a list of its bytes, as llama-server has it.
void append_piece(JsonWriter& json, std::string_view bytes) {
  if (is_valid_utf8(bytes)) {
    json.string(bytes);
    return;
  }
  json.begin_array();
  for (const char byte : bytes) json.number(static_cast<unsigned char>(byte));
  json.end_array();
}

// In tokens.
uint64_t tokens_that_fit(const OpenModel& open) { return open.text ? open.most_tokens : open.embedder->max_length(); }

Leave tokenize(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  const std::string model = fields.text("model").value_or("");
  const auto content = fields.text("content");
  if (!content) fields.refuse("content", "is missing: it must be a text");
  // Off unless asked for: what users wrote is no special token.
  const EncodeOptions options{.special_tokens = fields.truth("parse_special").value_or(false),
                              .add_special_tokens = fields.truth("add_special").value_or(false)};
  const bool with_pieces = fields.truth("with_pieces").value_or(false);
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  return start_short_work(
      state, call, model,
      [text = *content, options, with_pieces](OpenModel& open, const auto&) -> std::variant<HttpAnswer, Refusal> {
        if (auto refusal = check_text_bytes("the text", text.size(), tokens_that_fit(open), "content"))
          return std::move(*refusal);
        const auto ids = open.tokenizer->encode(text, options);
        if (!ids) return refusal_of(ids.error());
        JsonWriter json;
        json.begin_object().key("tokens").begin_array();
        for (const TokenId id : *ids) {
          if (!with_pieces) {
            json.number(id);
            continue;
          }
          json.begin_object().key("id").number(id).key("piece");
          append_piece(json, open.tokenizer->bytes_of(id).value_or(""));
          json.end_object();
        }
        return json_answer(json.end_array().end_object().take());
      });
}

Leave detokenize(ServiceState& state, Call& call) {
  Fields fields(call.request.body);
  const std::string model = fields.text("model").value_or("");
  const auto raw = fields.raw("tokens");
  if (!raw) fields.refuse("tokens", "is missing: it must be a list of token ids");
  auto ids = raw ? token_list(*raw) : std::nullopt;
  if (!ids) fields.refuse("tokens", "must be a list of token ids");
  else if (ids->size() > kMostDecodedTokens)
    fields.refuse("tokens", fmt::format("has {} ids: at most {} are allowed", ids->size(), kMostDecodedTokens));
  if (fields.refusal()) return refuse(state, call, *fields.refusal());
  return start_short_work(state, call, model,
                          [ids = std::move(*ids)](OpenModel& open, const auto&) -> std::variant<HttpAnswer, Refusal> {
                            const auto text = open.tokenizer->decode(ids);
                            if (!text) return refusal_of(text.error());
                            JsonWriter json;
                            json.begin_object().key("content").string(to_utf8(*text)).end_object();
                            return json_answer(json.take());
                          });
}

Leave props(ServiceState& state, Call& call) {
  const std::string name = state.table.name_of("");
  const uint64_t slots = state.options.engine.most_sequences;
  const std::string version = state.options.version;
  return start_short_work(
      state, call, "", [name, slots, version](OpenModel& open, const auto&) -> std::variant<HttpAnswer, Refusal> {
        JsonWriter json;
        json.begin_object().key("model_alias").string(name).key("build_info").string("ballast-" + version);
        json.key("total_slots").number(slots);
        json.key("default_generation_settings").begin_object().key("n_ctx").number(tokens_that_fit(open)).end_object();
        json.key("chat_template").string(open.chat ? open.chat->template_text() : "");
        json.key("modalities").begin_object().key("vision").boolean(false).key("audio").boolean(false).end_object();
        return json_answer(json.end_object().take());
      });
}

std::string label_text(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

struct ModelMetric {
  std::string_view name, type, help;
  uint64_t (*value)(const ModelTable::Line&);
};
constexpr ModelMetric kModelMetrics[] = {
    {"ballast_prompt_tokens_total", "counter", "Prompt tokens computed",
     [](const ModelTable::Line& line) { return line.counters.prompt_tokens; }},
    {"ballast_prompt_tokens_reused_total", "counter", "Prompt tokens taken from the KV cache",
     [](const ModelTable::Line& line) { return line.counters.reused_tokens; }},
    {"ballast_generated_tokens_total", "counter", "Tokens generated",
     [](const ModelTable::Line& line) { return line.counters.generated_tokens; }},
    {"ballast_steps_total", "counter", "Passes of the engine",
     [](const ModelTable::Line& line) { return line.counters.steps; }},
    {"ballast_sequences_finished_total", "counter", "Sequences that ended by themselves",
     [](const ModelTable::Line& line) { return line.counters.finished; }},
    {"ballast_sequences_cancelled_total", "counter", "Sequences cancelled, by a client that left or a stop string",
     [](const ModelTable::Line& line) { return line.counters.cancelled; }},
    {"ballast_sequences_expired_total", "counter", "Sequences that reached their deadline",
     [](const ModelTable::Line& line) { return line.counters.expired; }},
    {"ballast_sequences_failed_total", "counter", "Sequences that failed",
     [](const ModelTable::Line& line) { return line.counters.failed; }},
    {"ballast_preemptions_total", "counter", "Sequences put aside for want of KV cache",
     [](const ModelTable::Line& line) { return line.counters.preemptions; }},
    {"ballast_sequences_running", "gauge", "Sequences being computed",
     [](const ModelTable::Line& line) { return line.counters.running; }},
    {"ballast_sequences_waiting", "gauge", "Sequences in line",
     [](const ModelTable::Line& line) { return line.counters.waiting; }},
    {"ballast_kv_cache_bytes", "gauge", "Bytes of the KV cache in use or kept",
     [](const ModelTable::Line& line) { return line.counters.pool.bytes; }},
    {"ballast_kv_cache_pages_in_use", "gauge", "Pages of the KV cache that sequences hold",
     [](const ModelTable::Line& line) { return line.counters.pool.pages_in_use; }},
    {"ballast_model_loaded", "gauge", "Whether the model is loaded",
     [](const ModelTable::Line& line) { return uint64_t{line.is_open ? 1U : 0U}; }},
    {"ballast_model_bytes", "gauge", "Bytes of the model's weights, while it is loaded",
     [](const ModelTable::Line& line) { return line.bytes; }},
};

Leave metrics(ServiceState& state, Call& call) {
  const ServiceMetrics& counted = *state.metrics;
  std::string out;
  const auto count = [&](std::string_view name, std::string_view help, uint64_t value) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n{0} {2}\n", name, help, value);
  };
  count("ballast_requests_total", "Requests of any kind", counted.requests);
  count("ballast_requests_busy_total", "Requests answered with 429", counted.refused_as_busy);
  count("ballast_requests_refused_total", "Requests answered with another error", counted.refused);
  counted.refused_unread.append_to(out, "ballast_requests_refused_unread_total",
                                   "Requests refused by their head, their size or their lateness, by status");
  count("ballast_answers_total", "Answers of models given to the end", counted.answers);
  count("ballast_clients_left_total", "Clients that left before the end of their answer", counted.left);
  count("ballast_clients_too_slow_total", "Answers given up because the client did not read", counted.too_slow);
  counted.first_token.append_to(out, "ballast_time_to_first_token_seconds", "From arrival to the first token");
  counted.between_tokens.append_to(out, "ballast_inter_token_latency_seconds", "Between two tokens of an answer");
  counted.whole_answer.append_to(out, "ballast_e2e_request_latency_seconds", "From arrival to the end of the answer");
  const auto lines = state.table.lines();
  for (const ModelMetric& metric : kModelMetrics) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, metric.type);
    for (const auto& line : lines) {
      out += fmt::format("{}{{model=\"{}\"}} {}\n", metric.name, label_text(line.name), metric.value(line));
    }
  }
  call.sink->send({.content_type = "text/plain; version=0.0.4", .body = std::move(out)});
  return {};
}

constexpr Endpoint kServerEndpoints[] = {
    {"GET", "/health", true, Dialect::kOpenAi, health},
    {"GET", "/metrics", false, Dialect::kOpenAi, metrics},
    {"GET", "/props", false, Dialect::kOpenAi, props},
    {"POST", "/tokenize", false, Dialect::kOpenAi, tokenize},
    {"POST", "/detokenize", false, Dialect::kOpenAi, detokenize},
};

}  // namespace

std::span<const Endpoint> server_endpoints() { return kServerEndpoints; }

}  // namespace ballast::serve
