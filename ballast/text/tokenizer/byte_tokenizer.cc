#include "ballast/text/tokenizer/byte_tokenizer.h"

#include "ballast/base/json.h"
#include "ballast/text/tokenizer/byte_alphabet.h"

namespace ballast {

namespace {

constexpr unsigned kByteValues = 256;

void add_byte_level(JsonWriter& json, std::string_view key) {
  json.key(key).begin_object().key("type").string("ByteLevel").key("add_prefix_space").boolean(false);
  // Without merges, how the text is cut makes no difference; GPT-2's way is one that every reader of vocabularies has.
  json.key("trim_offsets").boolean(true).key("use_regex").boolean(true).end_object();
}

}  // namespace

std::string byte_tokenizer_json() {
  JsonWriter json(/*pretty=*/true);
  json.begin_object().key("version").string("1.0").key("truncation").null().key("padding").null();
  json.key("added_tokens").begin_array().end_array().key("normalizer").null();
  add_byte_level(json, "pre_tokenizer");
  json.key("post_processor").null();
  add_byte_level(json, "decoder");
  json.key("model").begin_object().key("type").string("BPE").key("dropout").null().key("unk_token").null();
  json.key("continuing_subword_prefix").null().key("end_of_word_suffix").null().key("fuse_unk").boolean(false);
  json.key("byte_fallback").boolean(false).key("vocab").begin_object();
  for (unsigned byte = 0; byte < kByteValues; ++byte)
    json.key(to_byte_alphabet(std::string(1, static_cast<char>(byte)))).number(byte);
  json.end_object().key("merges").begin_array().end_array().end_object().end_object();
  return json.take() + '\n';
}

}  // namespace ballast
