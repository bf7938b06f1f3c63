// What happens inside a text model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ballast/device/host_values.h"
#include "ballast/engine/sampler.h"
#include "bindings/wasm/run/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kMostTokens = 256;  // whose attention is shown: it grows with their square
constexpr uint64_t kLensRows = 32;     // of logits that are held
constexpr size_t kBestOfLens = 5;

void write_best(JsonWriter& json, const Tokenizer& tokenizer, std::span<const float> logits, size_t top) {
  json.begin_array();
  for (const SampledToken& token : Sampler::likeliest(logits, top)) {
    json.begin_object().key("token");
    write_token(json, tokenizer, token.id);
    json.key("probability").real(std::exp(token.log_probability)).end_object();
  }
  json.end_array();
}

// The best of each row.
Status write_rows(JsonWriter& json, const Tokenizer& tokenizer, const Tensor& logits) {
  BALLAST_TRY(const auto values, HostValues<float>::of(logits));
  const auto width = static_cast<size_t>(logits.dims()[1]);
  for (size_t at = 0; at + width <= values.size(); at += width) {
    write_best(json, tokenizer, values.span().subspan(at, width), kBestOfLens);
  }
  return {};
}

}  // namespace

Status inspect_call(Session& session, const JsonObject& request, Answer& answer) {
  session.looking.reset();
  BALLAST_TRY(const std::vector<TokenId> ids, encode_prompt(session, request));
  BALLAST_TRY(const uint64_t top, request.count_or("top", 10));
  if (ids.size() > kMostTokens) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the text has {} tokens; at most {} can be inspected", ids.size(), kMostTokens));
  }
  BALLAST_TRY(TextInspection found, inspect_text(*session.model->as_causal_lm(), session.model->context(), ids));
  BALLAST_TRY(const auto logits, HostValues<float>::of(found.logits));
  const auto width = static_cast<size_t>(found.logits.dims()[1]);
  answer.json.key("tokens").begin_array();
  for (const TokenId id : ids) write_token(answer.json, *session.tokenizer, id);
  answer.json.end_array().key("next");
  write_best(answer.json, *session.tokenizer, logits.span().last(width),
             static_cast<size_t>(std::min<uint64_t>(top, width)));
  answer.json.key("layers").number(found.layers.size());
  found.logits = {};
  session.looking = std::move(found);
  return {};
}

Status layer_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const uint64_t index, request.count("layer"));
  if (!session.looking || index >= session.looking->layers.size()) {
    return make_error(ErrorCode::kInvalidArgument, "no text with such a layer is being inspected");
  }
  const TextInspection::Layer& layer = session.looking->layers[static_cast<size_t>(index)];
  const LayerViews& views = *session.model->as_causal_lm()->layer_views();
  Context& context = session.model->context();
  answer.json.key("lens").begin_array();
  const uint64_t length = layer.states.dims()[0];
  for (uint64_t row = 0; row < length; row += kLensRows) {
    const uint64_t rows = std::min(kLensRows, length - row);
    BALLAST_TRY(const Tensor states, ops::slice_along_axis(context, layer.states, 0, row, rows));
    BALLAST_TRY(const Tensor logits, views.predict_from(context, states));
    BALLAST_CHECK(write_rows(answer.json, *session.tokenizer, logits));
  }
  answer.json.end_array();
  BALLAST_TRY(const std::vector<float> weights, attention_weights(views.attention_of(index), layer.qkv));
  answer.bytes.resize(weights.size() * sizeof(float));
  std::memcpy(answer.bytes.data(), weights.data(), answer.bytes.size());
  if (index + 1 == session.looking->layers.size()) session.looking.reset();  // nobody asks again
  return {};
}

}  // namespace ballast::wasm
