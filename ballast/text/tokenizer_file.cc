#include "ballast/text/tokenizer_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- the byte alphabet

// Files spell bytes as printable characters: those that are printable themselves, and for the other 68, in ascending
// order, U+0100 and up.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      byte_of_[printable ? byte : next++] = static_cast<char>(byte);
    }
  }

  // Characters outside the alphabet stand for themselves.
  std::string to_bytes(std::string_view text) const {
    std::string bytes;
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      const auto code_point = take_code_point(text, at);
      if (!code_point) {
        bytes += text[at++];
        continue;
      }
      const auto found = *code_point < byte_of_.size() ? byte_of_[*code_point] : std::nullopt;
      if (found) bytes += *found;
      else bytes.append(text, start, at - start);
    }
    return bytes;
  }

 private:
  std::array<std::optional<char>, 0x100 + 68> byte_of_{};
};

// ---------------------------------------------------------------- reading

class TokenizerJson {
 public:
  TokenizerJson(std::string_view json, const std::string& where) : json_(json), where_(where) {}

  Result<TokenizerDescription> parse() {
    JsonReader reader(json_, where_);
    BALLAST_CHECK(reader.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(key));
      if (!more) break;
      BALLAST_CHECK(read_top(reader, key));
    }
    BALLAST_CHECK(reader.finish());
    if (!seen_vocab_) return make_error(ErrorCode::kCorrupt, where_ + ": no vocabulary: this is no tokenizer file");
    if (hugging_face_ && !seen_pre_tokenizer_) return unsupported("it has no ByteLevel pre-tokenizer");
    BALLAST_CHECK(settle_unknown());
    return std::move(description_);
  }

 private:
  Status read_top(JsonReader& reader, const std::string& key) {
    if (key == "vocab") return read_vocab(reader);
    if (key == "merges") return read_merges(reader);
    if (key == "unk_token") return read_unknown(reader);
    if (key == "model") return read_model(reader);
    if (key == "added_tokens") return read_added(reader);
    if (key == "pre_tokenizer") return read_pre_tokenizer(reader);
    if (key == "normalizer") return refuse_unless_null(reader, "normalizer");
    if (key == "post_processor") return read_post_processor(reader);
    return reader.skip_value();
  }

  // ---- the model

  Status read_model(JsonReader& reader) {
    hugging_face_ = true;
    BALLAST_CHECK(reader.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(key));
      if (!more) return {};
      BALLAST_CHECK(read_model_field(reader, key));
    }
  }

  Status read_model_field(JsonReader& reader, const std::string& key) {
    if (key == "vocab") return read_vocab(reader);
    if (key == "merges") return read_merges(reader);
    if (key == "unk_token") return read_unknown(reader);
    if (key == "type") {
      BALLAST_TRY(const std::string type, reader.read_string());
      if (type == "BPE") return {};
      return unsupported(fmt::format("its model is \"{}\"", type));
    }
    if (key == "ignore_merges") {
      BALLAST_TRY(description_.vocabulary.whole_pieces_first, reader.read_bool());
      return {};
    }
    // What changes the tokens of a byte-level vocabulary must be off.
    for (const std::string_view name :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "fuse_unk"}) {
      if (key == name) return refuse_unless_off(reader, name);
    }
    return reader.skip_value();
  }

  Status read_vocab(JsonReader& reader) {
    seen_vocab_ = true;
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type != JsonType::kObject) return unsupported("its vocabulary is no object of texts and ids");
    BALLAST_CHECK(reader.enter_object());
    std::string text;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(text));
      if (!more) return {};
      BALLAST_TRY(const uint64_t id, reader.read_u64());
      if (id > UINT32_MAX) return reader.error_here(fmt::format("token id {} does not fit 32 bits", id));
      description_.vocabulary.tokens.push_back({alphabet_.to_bytes(text), static_cast<TokenId>(id)});
    }
  }

  Status read_merges(JsonReader& reader) {
    BALLAST_CHECK(reader.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return {};
      BALLAST_TRY(const JsonType type, reader.peek());
      if (type == JsonType::kString) BALLAST_CHECK(read_merge_text(reader));
      else BALLAST_CHECK(read_merge_pair(reader));
    }
  }

  Status read_merge_text(JsonReader& reader) {
    std::string merge;
    BALLAST_CHECK(assign(merge, reader.read_string()));
    if (merge.starts_with("#version")) return {};
    const size_t space = merge.find(' ');
    if (space == std::string::npos) return reader.error_here(fmt::format("merge \"{}\" has no space", merge));
    add_merge(std::string_view(merge).substr(0, space), std::string_view(merge).substr(space + 1));
    return {};
  }

  Status read_merge_pair(JsonReader& reader) {
    BALLAST_CHECK(reader.enter_array());
    std::array<std::string, 2> sides;
    for (std::string& side : sides) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return reader.error_here("a merge needs two texts");
      BALLAST_CHECK(assign(side, reader.read_string()));
    }
    BALLAST_TRY(const bool more, reader.next_element());
    if (more) return reader.error_here("a merge has more than two texts");
    add_merge(sides[0], sides[1]);
    return {};
  }

  void add_merge(std::string_view left, std::string_view right) {
    description_.vocabulary.merges.push_back({alphabet_.to_bytes(left), alphabet_.to_bytes(right)});
  }

  // ---- unknown and added tokens

  Status read_unknown(JsonReader& reader) {
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type == JsonType::kNull) return reader.read_null();
    BALLAST_CHECK(assign(unknown_, reader.read_string()));
    return {};
  }

  Status settle_unknown() {
    // gpt.rs writes its own files with "<unk>" where none is named.
    if (unknown_.empty() && !hugging_face_) unknown_ = "<unk>";
    if (unknown_.empty()) return {};
    const std::string bytes = alphabet_.to_bytes(unknown_);
    for (const auto& token : description_.vocabulary.tokens) {
      if (token.bytes == bytes) description_.vocabulary.unknown = token.id;
    }
    if (!hugging_face_ && description_.vocabulary.unknown) {
      // A flat file lists no added tokens; its mark for the unknown is the end of text in GPT-2's.
      description_.added.push_back({unknown_, *description_.vocabulary.unknown, true});
    }
    return {};
  }

  Status read_added(JsonReader& reader) {
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type == JsonType::kNull) return reader.read_null();
    BALLAST_CHECK(reader.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return {};
      BALLAST_CHECK(read_added_token(reader));
    }
  }

  Status read_added_token(JsonReader& reader) {
    AddedToken token;
    BALLAST_CHECK(reader.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(key));
      if (!more) break;
      if (key == "id") {
        BALLAST_TRY(const uint64_t id, reader.read_u64());
        if (id > UINT32_MAX) return reader.error_here(fmt::format("token id {} does not fit 32 bits", id));
        token.id = static_cast<TokenId>(id);
      } else if (key == "content") {
        BALLAST_CHECK(assign(token.text, reader.read_string()));
      } else if (key == "special") {
        BALLAST_TRY(token.special, reader.read_bool());
      } else if (key == "lstrip" || key == "rstrip" || key == "single_word") {
        BALLAST_CHECK(refuse_unless_off(reader, key));
      } else {
        BALLAST_CHECK(reader.skip_value());
      }
    }
    description_.added.push_back(std::move(token));
    return {};
  }

  // ---- the parts around the model

  Status read_pre_tokenizer(JsonReader& reader) {
    hugging_face_ = seen_pre_tokenizer_ = true;
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type != JsonType::kObject) return unsupported("it has no ByteLevel pre-tokenizer");
    BALLAST_TRY(const std::string_view raw, reader.read_raw());
    BALLAST_TRY(const std::string name, type_in(raw));
    // A sequence or a pattern of its own may cut as GPT-2 does, but nothing in the file says so.
    if (name != "ByteLevel") return unsupported(fmt::format("its pre-tokenizer is {}", name));
    JsonReader fields(raw, where_);
    BALLAST_CHECK(fields.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, fields.next_key(key));
      if (!more) return {};
      if (key == "add_prefix_space") {
        BALLAST_TRY(description_.add_prefix_space, fields.read_bool());
      } else if (key == "use_regex") {
        BALLAST_TRY(const bool use, fields.read_bool());
        if (!use) return unsupported("its ByteLevel pre-tokenizer does not cut the text");
      } else {
        BALLAST_CHECK(fields.skip_value());
      }
    }
  }

  // What adds no tokens is fine: ByteLevel only moves offsets, and a template may hold nothing but the text.
  Status read_post_processor(JsonReader& reader) {
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type != JsonType::kObject) return refuse_unless_null(reader, "post-processor");
    BALLAST_TRY(const std::string_view raw, reader.read_raw());
    BALLAST_TRY(const std::string name, type_in(raw));
    if (name == "ByteLevel") return {};
    if (name != "TemplateProcessing") return unsupported(fmt::format("its post-processor is {}", name));
    JsonReader fields(raw, where_);
    BALLAST_CHECK(fields.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, fields.next_key(key));
      if (!more) return {};
      if (key == "single") BALLAST_CHECK(refuse_unless_plain(fields));
      else BALLAST_CHECK(fields.skip_value());
    }
  }

  // The template of one text: [{"Sequence": ...}] is the text itself, {"SpecialToken": ...} would add one.
  Status refuse_unless_plain(JsonReader& reader) {
    BALLAST_CHECK(reader.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return {};
      BALLAST_CHECK(reader.enter_object());
      std::string key;
      for (;;) {
        BALLAST_TRY(const bool another, reader.next_key(key));
        if (!another) break;
        BALLAST_TRY(const std::string_view raw, reader.read_raw());
        if (key != "Sequence") {
          return unsupported(fmt::format("its post-processor adds tokens: {}", raw.substr(0, 60)));
        }
      }
    }
  }

  // The "type" of one of the parts, with those of its members where it is a sequence: "Sequence" of "Split",
  // "ByteLevel"
  Result<std::string> type_in(std::string_view part) {
    std::string name = "without a type";
    std::string members;
    JsonReader reader(part, where_);
    BALLAST_CHECK(reader.enter_object());
    std::string key;
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_key(key));
      if (!more) break;
      if (key == "type") {
        BALLAST_CHECK(assign(name, reader.read_string()));
      } else if (key == "pretokenizers" || key == "processors") {
        BALLAST_CHECK(assign(members, types_in(reader)));
      } else {
        BALLAST_CHECK(reader.skip_value());
      }
    }
    return members.empty() ? name : fmt::format("{} of {}", name, members);
  }

  Result<std::string> types_in(JsonReader& reader) {
    std::vector<std::string> names;
    BALLAST_CHECK(reader.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return fmt::format("{}", fmt::join(names, ", "));
      BALLAST_CHECK(reader.enter_object());
      std::string key;
      for (;;) {
        BALLAST_TRY(const bool another, reader.next_key(key));
        if (!another) break;
        if (key == "type") {
          BALLAST_TRY(std::string name, reader.read_string());
          names.push_back(std::move(name));
        } else {
          BALLAST_CHECK(reader.skip_value());
        }
      }
    }
  }

  Status refuse_unless_null(JsonReader& reader, std::string_view part) {
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type == JsonType::kNull) return reader.read_null();
    return unsupported(fmt::format("it has a {}", part));
  }

  Status refuse_unless_off(JsonReader& reader, std::string_view name) {
    BALLAST_TRY(const std::string_view raw, reader.read_raw());
    for (const std::string_view off : {"null", "false", "\"\"", "0", "0.0"}) {
      if (raw == off) return {};
    }
    return unsupported(fmt::format("its \"{}\" is {}", name, raw.substr(0, 40)));
  }

  Error unsupported(const std::string& what) const {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {}; only byte-level BPE as GPT-2 has it is understood", where_, what));
  }

  std::string_view json_;
  const std::string& where_;
  ByteAlphabet alphabet_;
  TokenizerDescription description_;
  std::string unknown_;
  bool hugging_face_ = false;
  bool seen_vocab_ = false;
  bool seen_pre_tokenizer_ = false;
};

}  // namespace

Result<TokenizerDescription> parse_tokenizer_json(std::string_view json, const std::string& where) {
  return TokenizerJson(json, where).parse();
}

Result<TokenizerDescription> parse_vocab_and_merges(std::string_view vocab_json, const std::string& vocab_where,
                                                    std::string_view merges, const std::string& merges_where) {
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  const ByteAlphabet alphabet;
  TokenizerDescription description;
  JsonReader reader(vocab_json, vocab_where);
  BALLAST_CHECK(reader.enter_object());
  std::string text;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(text));
    if (!more) break;
    BALLAST_TRY(const uint64_t id, reader.read_u64());
    if (id > UINT32_MAX) return reader.error_here(fmt::format("token id {} does not fit 32 bits", id));
    if (text == kEndOfText) description.added.push_back({text, static_cast<TokenId>(id), true});
    description.vocabulary.tokens.push_back({alphabet.to_bytes(text), static_cast<TokenId>(id)});
  }
  BALLAST_CHECK(reader.finish());
  size_t line_number = 0;
  while (!merges.empty()) {
    const size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return make_error(
          ErrorCode::kCorrupt,
          fmt::format("{}: line {}: a merge needs two texts with a space between them", merges_where, line_number));
    }
    description.vocabulary.merges.push_back(
        {alphabet.to_bytes(line.substr(0, space)), alphabet.to_bytes(line.substr(space + 1))});
  }
  return description;
}

}  // namespace ballast
