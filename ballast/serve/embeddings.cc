#include "ballast/serve/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ballast/serve/prepare.h"
#include "ballast/serve/read_sampling.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostTexts = 2048;

std::vector<unsigned char> little_endian_bytes(std::span<const float> values) {
  std::vector<unsigned char> bytes;
  bytes.reserve(values.size() * 4);
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<unsigned char>(bits >> shift));
  }
  return bytes;
}

}  // namespace

std::string to_base64(std::span<const unsigned char> bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8U | (i < count ? bytes[at + i] : 0U);
    for (size_t i = 0; i < 4; ++i) text.push_back(i <= count ? kLetters[bits >> (18 - 6 * i) & 63U] : '=');
  }
  return text;
}

void read_openai_embeddings(Fields& fields, EmbeddingAsk& ask) {
  ask.model = fields.text("model").value_or("");
  const auto raw = fields.raw("input");
  if (!raw) fields.refuse("input", "is missing: it must be a text or a list of texts");
  if (raw && is_json_array(*raw)) {
    for (const std::string_view element : fields.elements("input", kMostTexts)) {
      if (is_json_string(element)) continue;
      fields.refuse("input",
                    "has token ids: they are those of another model's tokenizer, so send texts (LangChain: "
                    "check_embedding_ctx_length=False)");
    }
  }
  ask.texts = fields.texts("input", kMostTexts);
  if (ask.texts.empty()) fields.refuse("input", "is an empty list");
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.refuse("encoding_format", "must be \"float\" or \"base64\"");
  refuse_unsupported(fields, {"truncate_prompt_tokens", {}, "texts are not shortened silently: send shorter ones"});
  refuse_unsupported(fields, {"add_special_tokens", {"true"}, "only true is supported"});
  ask.width = fields.count("dimensions", 1, INT32_MAX);
  ask.is_base64 = format == "base64";
}

std::variant<HttpAnswer, Refusal> embed_for(OpenModel& model, const EmbeddingAsk& ask, const std::atomic<bool>& left,
                                            const std::function<std::string(std::span<const Embedding>)>& write) {
  if (!model.embedder) {
    return Refusal{.message = fmt::format("the model writes texts and makes no vectors of them: it is a {} model, and "
                                          "embeddings need one that was trained for them, such as BERT's kind",
                                          model.kind),
                   .param = "model",
                   .code = "model_cannot_embed"};
  }
  if (ask.width && *ask.width != model.embedder->width()) {
    return Refusal{.message = fmt::format("\"dimensions\" is {}: the vectors of this model have {}", *ask.width,
                                          model.embedder->width()),
                   .param = "dimensions"};
  }
  for (size_t i = 0; i < ask.texts.size(); ++i) {
    const std::string what = fmt::format("text {}", i + 1);
    if (auto refusal = check_text_bytes(what, ask.texts[i].size(), model.embedder->max_length(), "input"))
      return std::move(*refusal);
  }
  const auto is_late = [&] { return ask.deadline && std::chrono::steady_clock::now() >= *ask.deadline; };
  if (is_late()) return late_refusal();
  const auto made = model.embedder->embed(ask.texts, [&](const ProgressUpdate&) { return !left && !is_late(); });
  if (!made && made.error().code == ErrorCode::kCancelled) return late_refusal();
  if (!made) return refusal_of(made.error());
  for (size_t i = 0; i < made->size(); ++i) {
    if ((*made)[i].cut == 0) continue;
    return Refusal{.message = fmt::format("text {} has {} tokens more than the model takes, which is {}: shorten it; "
                                          "nothing is cut off silently",
                                          i + 1, (*made)[i].cut, model.embedder->max_length()),
                   .param = "input",
                   .code = "context_length_exceeded"};
  }
  return json_answer(write(*made));
}

std::string openai_embeddings(const EmbeddingAsk& ask, std::span<const Embedding> embeddings) {
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  uint64_t tokens = 0;
  for (size_t i = 0; i < embeddings.size(); ++i) {
    tokens += embeddings[i].tokens;
    json.begin_object().key("object").string("embedding").key("index").number(i).key("embedding");
    if (ask.is_base64) {
      json.string(to_base64(little_endian_bytes(embeddings[i].vector)));
    } else {
      json.begin_array();
      for (const float value : embeddings[i].vector) json.real(static_cast<double>(value));
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().key("model").string(ask.model).key("usage").begin_object();
  json.key("prompt_tokens").number(tokens).key("total_tokens").number(tokens).end_object();
  return json.end_object().take();
}

}  // namespace ballast::serve
