// Text models: opening, tokens, writing.
#include <fmt/format.h>

#include "ballast/archive/model_summary.h"
#include "ballast/base/utf8.h"
#include "ballast/models/model.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/text_ends.h"
#include "bindings/wasm/run/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kPromptPiece = 64;  // of a prompt in one step, so that a page can breathe

std::string repaired(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_sequence_length(bytes, at);
    if (length == 0) append_utf8(text, 0xFFFD);
    else text.append(bytes, at, length);
    at += length == 0 ? 1 : length;
  }
  return text;
}

Status check_open(const Session& session) {
  if (session.model && session.tokenizer) return {};
  return make_error(ErrorCode::kInvalidArgument, "no text model is open");
}

// "llama" rather than "decoder", where the files say it.
std::string family_of(const Session& session, const Description& file) {
  const auto summary = summarise_model(file);
  return summary ? summary->architecture : std::string(session.model->kind());
}

void write_info(JsonWriter& json, const Session& session, const Description& file) {
  const CausalLm& writer = *session.model->as_causal_lm();
  const LayerViews* const views = writer.layer_views();
  json.key("info").begin_object().key("family").string(family_of(session, file));
  json.key("layers").number(writer.kv_shape().layers);
  json.key("heads").number(views != nullptr ? views->heads() : writer.kv_shape().kv_heads);
  json.key("contextLength").number(writer.context_length()).key("vocabulary").number(writer.vocab_size()).end_object();
}

Result<Request> read_request(const Session& session, const JsonObject& request) {
  Request asked;
  BALLAST_TRY(asked.prompt, encode_prompt(session, request));
  BALLAST_TRY(asked.max_tokens, request.count("maxTokens"));
  BALLAST_TRY(asked.sampling.temperature, request.number_or("temperature", 0));
  BALLAST_TRY(asked.sampling.top_k, request.count_or("topK", 0));
  BALLAST_TRY(asked.sampling.top_p, request.number_or("topP", 1));
  BALLAST_TRY(asked.sampling.seed, request.count_or("seed", 0));
  asked.sampling.log_probabilities = false;
  asked.stop_tokens = session.stop_tokens;
  return asked;
}

// False where it was the last.
Result<bool> write_event(const EngineEvent& event, Writing& writing, JsonWriter& json) {
  if (event.error) return *event.error;
  if (event.kind == EngineEvent::Kind::kFinished) return false;
  BALLAST_TRY(const std::string text, writing.decoder->next(event.token.id));
  json.begin_object().key("id").number(event.token.id).key("text").string(text).end_object();
  return true;
}

}  // namespace

void write_token(JsonWriter& json, const Tokenizer& tokenizer, TokenId id) {
  json.begin_object().key("id").number(id);
  json.key("text").string(repaired(tokenizer.bytes_of(id).value_or(""))).end_object();
}

Result<std::vector<TokenId>> encode_prompt(const Session& session, const JsonObject& request) {
  BALLAST_CHECK(check_open(session));
  BALLAST_TRY(const std::string prompt, request.text("prompt"));
  BALLAST_TRY(std::vector<TokenId> ids, session.tokenizer->encode(prompt));
  if (!ids.empty()) return ids;
  if (const auto first = first_token(*session.tokenizer)) return std::vector<TokenId>{*first};
  return make_error(ErrorCode::kInvalidArgument,
                    "the prompt is empty, and the tokenizer has no begin-of-text token to start from");
}

Status open_text_call(Session& session, const JsonObject& /*request*/, Answer& answer) {
  const ModelSource source = take_files(session);
  BALLAST_CHECK(open_model(session, source));
  if (session.model->as_causal_lm() == nullptr) return session.model->cannot("text generation");
  BALLAST_TRY(session.tokenizer, find_tokenizer(source));
  session.stop_tokens = all_stop_tokens(session.model->stop_tokens(), &*session.tokenizer);
  BALLAST_TRY(const auto archive, source.archive());
  write_info(answer.json, session, archive->description());
  return {};
}

Status tokens_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_CHECK(check_open(session));
  BALLAST_TRY(const std::string text, request.text("text"));
  BALLAST_TRY(const std::vector<TokenId> ids, session.tokenizer->encode(text));
  answer.json.key("tokens").begin_array();
  for (const TokenId id : ids) write_token(answer.json, *session.tokenizer, id);
  answer.json.end_array();
  return {};
}

Status start_call(Session& session, const JsonObject& request, Answer& answer) {
  session.writing.reset();
  BALLAST_TRY(Request asked, read_request(session, request));
  EngineOptions options;
  options.most_rows = kPromptPiece;
  options.share_prefixes = false;
  auto writing = std::make_unique<Writing>();
  BALLAST_TRY(writing->engine, Engine::make(*session.model->as_causal_lm(), session.model->context(), options));
  answer.json.key("promptTokens").number(asked.prompt.size());
  BALLAST_TRY(writing->request, writing->engine->submit(std::move(asked)));
  writing->decoder.emplace(*session.tokenizer);
  session.writing = std::move(writing);
  return {};
}

Status step_call(Session& session, const JsonObject& /*request*/, Answer& answer) {
  if (!session.writing) return make_error(ErrorCode::kInvalidArgument, "no text is being written");
  BALLAST_TRY(const std::vector<EngineEvent> events, session.writing->engine->step());
  bool goes_on = true;
  answer.json.key("tokens").begin_array();
  for (const EngineEvent& event : events) {
    BALLAST_TRY(const bool more, write_event(event, *session.writing, answer.json));
    goes_on = goes_on && more;
  }
  answer.json.end_array().key("finished").boolean(!goes_on);
  if (goes_on) return {};
  answer.json.key("rest").string(session.writing->decoder->finish());
  session.writing.reset();
  return {};
}

}  // namespace ballast::wasm
