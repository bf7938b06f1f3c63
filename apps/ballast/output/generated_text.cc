#include "apps/ballast/output/generated_text.h"

#include "apps/ballast/output/json_output.h"

namespace ballast::cli {

double tokens_per_second(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

void add_generated(JsonWriter& json, const GeneratedText& written, double load_seconds) {
  json.key("prompt_tokens").begin_array();
  for (const TokenId id : written.prompt) json.number(id);
  json.end_array().key("tokens").begin_array();
  for (const SampledToken& token : written.tokens) json.number(token.id);
  json.end_array();
  add_text(json, "text", written.text);
  json.key("logprobs").begin_array();
  for (const SampledToken& token : written.tokens) json.real(token.log_probability);
  json.end_array();
  add_text(json, "stop", written.stop);
  if (written.complete) json.key("complete").boolean(*written.complete);
  if (written.seed) add_number(json, "seed", *written.seed);
  else add_null(json, "seed");
  json.key("timings").begin_object();
  json.key("load_ms").real(load_seconds * 1e3).key("prefill_ms").real(written.prefill * 1e3);
  json.key("decode_ms").real(written.decode * 1e3);
  json.key("prefill_tokens_per_s").real(tokens_per_second(written.prompt.size(), written.prefill));
  json.key("decode_tokens_per_s").real(tokens_per_second(written.decoded, written.decode));
  json.end_object();
}

}  // namespace ballast::cli
