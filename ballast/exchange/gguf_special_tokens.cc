#include "ballast/exchange/gguf_special_tokens.h"

#include <algorithm>

#include "ballast/base/json_object.h"
#include "ballast/text/tokenizer/tokenizer_json.h"

namespace ballast {

namespace {

class SpecialTokenFinder {
 public:
  SpecialTokenFinder(const std::vector<AddedToken>& added_tokens, uint64_t vocab)
      : added_tokens_(added_tokens), vocab_(vocab) {}

  Result<GgufSpecialTokens> find(const GgufSourceFiles& files, std::string_view config_json) {
    if (files.tokenizer_config)
      BALLAST_CHECK(read_config(*files.tokenizer_config, files.name_of("tokenizer_config.json")));
    if (files.tokenizer_json) BALLAST_CHECK(read_document(*files.tokenizer_json, files.name_of("tokenizer.json")));
    if (has_config_) take_named();
    BALLAST_TRY(const JsonObject config, JsonObject::parse(config_json, files.name_of("config.json"), kStrictRules));
    BALLAST_CHECK(take_numbered(config));
    take_from_template("bos", first_);
    take_from_template("eos", last_);
    return std::move(found_);
  }

 private:
  // ---- tokenizer_config.json: texts of the marks, and whether they are added

  Status read_config(std::string_view json, const std::string& where) {
    BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
    has_config_ = true;
    for (const std::string& type : types_) {
      BALLAST_TRY(std::string text, mark_text(fields, type + "_token"));
      if (!text.empty()) texts_[type] = std::move(text);
      const auto flag = fields.find("add_" + type + "_token");
      if (flag == "true" || flag == "false") flags_[type] = flag == "true";
    }
    return {};
  }

  static Result<std::string> mark_text(const JsonObject& fields, const std::string& key) {
    const auto raw = fields.find(key);
    if (!raw) return std::string();
    if (raw->starts_with('"')) return fields.text(key);
    if (!raw->starts_with('{')) return std::string();
    BALLAST_TRY(const JsonObject token, JsonObject::parse(*raw, fields.where(), kStrictRules));
    return token.text_or("content", "");
  }

  // ---- tokenizer.json: what is put around a text

  Status read_document(std::string_view json, const std::string& where) {
    BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
    if (const auto raw = fields.find("normalizer")) BALLAST_CHECK(read_normalizer(*raw, where));
    if (has_config_) {
      if (!texts_.contains("bos") && texts_.contains("cls")) texts_["bos"] = texts_["cls"];
      if (!texts_.contains("eos") && texts_.contains("sep")) texts_["eos"] = texts_["sep"];
    }
    const auto raw = fields.find("post_processor");
    if (!raw) return {};
    BALLAST_TRY(const auto processors, flatten_sequence(*raw, "processors", where));
    for (const JsonObject& processor : processors) BALLAST_CHECK(read_processor(processor));
    return {};
  }

  Status read_normalizer(std::string_view json, const std::string& where) {
    BALLAST_TRY(const auto members, flatten_sequence(json, "normalizers", where));
    for (const JsonObject& member : members) {
      BALLAST_TRY(const std::string type, member.text("type"));
      if (type == "Lowercase") found_.lower_case = true;
      if (type == "StripAccents") found_.strip_accents = true;
      if (type != "BertNormalizer") continue;
      if (member.has("lowercase")) BALLAST_CHECK(assign(found_.lower_case, member.truth_or("lowercase", false)));
      if (member.has("strip_accents"))
        BALLAST_CHECK(assign(found_.strip_accents, member.truth_or("strip_accents", false)));
    }
    return {};
  }

  Status read_processor(const JsonObject& processor) {
    BALLAST_TRY(const std::string type, processor.text("type"));
    if (type == "ByteLevel") {
      for (const char* name : {"bos", "eos"}) {
        if (std::ranges::find(found_.added, name, &std::pair<std::string, bool>::first) == found_.added.end()) {
          set_added(name, false);
        }
      }
    } else if (type == "RobertaProcessing") {
      for (const char* name : {"bos", "eos", "sep"}) set_added(name, true);
    } else if (type == "TemplateProcessing") {
      BALLAST_TRY(const auto single, processor.elements("single"));
      if (single.size() > 1) BALLAST_CHECK(read_template(single, processor.where()));
      BALLAST_TRY(const auto pair, processor.elements("pair"));
      BALLAST_CHECK(read_pair(pair, processor.where()));
    }
    return {};
  }

  // The text of a token in a template; empty where a sequence stands there.
  static Result<std::string> template_token(std::string_view json, const std::string& where) {
    BALLAST_TRY(const JsonObject part, JsonObject::parse(json, where, kStrictRules));
    const auto raw = part.find("SpecialToken");
    if (!raw) return std::string();
    BALLAST_TRY(const JsonObject token, JsonObject::parse(*raw, where, kStrictRules));
    return token.text_or("id", "");
  }

  Status read_template(const std::vector<std::string_view>& parts, const std::string& where) {
    BALLAST_TRY(first_, template_token(parts.front(), where));
    BALLAST_TRY(last_, template_token(parts.back(), where));
    if (!first_.empty()) {
      for (const char* type : {"bos", "cls"}) {
        if (!texts_.contains(type)) texts_[type] = first_;
      }
      set_added("bos", first_ == texts_["bos"] || first_ == texts_["cls"]);
    }
    if (last_.empty()) return {};
    // What ends a text is the end; what was called so ends a turn.
    if (has_config_ && texts_["eos"] != last_) {
      if (!texts_["eos"].empty()) {
        types_.push_back("eot");
        texts_["eot"] = texts_["eos"];
      }
    }
    texts_["eos"] = last_;
    set_added("eos", true);
    return {};
  }

  // first A sep (sep) B last
  Status read_pair(std::vector<std::string_view> parts, const std::string& where) {
    const auto drop = [&](bool front, const std::string& text) -> Status {
      if (text.empty() || parts.empty()) return {};
      BALLAST_TRY(const std::string token, template_token(front ? parts.front() : parts.back(), where));
      if (token == text) parts.erase(front ? parts.begin() : parts.end() - 1);
      return {};
    };
    BALLAST_CHECK(drop(true, first_));
    BALLAST_CHECK(drop(false, last_));
    if (parts.size() < 3) return {};
    bool adds = false;
    for (size_t i = 1; i + 1 < parts.size() && i <= 2; ++i) {
      BALLAST_TRY(const std::string token, template_token(parts[i], where));
      const bool separates = !token.empty() && (token == texts_["sep"] || token == texts_["eos"]);
      adds = adds || (separates && (i == 2 || last_.empty()));
    }
    set_added("sep", adds);
    if (adds && has_config_ && texts_["sep"].empty()) texts_["sep"] = texts_["eos"];
    return {};
  }

  void set_added(const std::string& type, bool value) {
    const auto found = std::ranges::find(found_.added, type, &std::pair<std::string, bool>::first);
    if (found != found_.added.end()) found->second = value;
    else found_.added.emplace_back(type, value);
  }

  // ---- numbers

  void take_named() {
    for (const std::string& type : types_) {
      const bool is_said =
          std::ranges::find(found_.added, type, &std::pair<std::string, bool>::first) != found_.added.end();
      if (!is_said && flags_.contains(type)) set_added(type, flags_.at(type));
      const auto text = texts_.find(type);
      if (text == texts_.end() || text->second.empty()) continue;
      const auto token = std::ranges::find(added_tokens_, text->second, &AddedToken::text);
      if (token != added_tokens_.end()) set_id(type, token->id);
    }
  }

  // config.json's own; of a list, where nothing else is said, the first.
  Status take_numbered(const JsonObject& config) {
    std::optional<JsonObject> inner;
    if (const auto raw = config.find("text_config"); raw && raw->starts_with('{')) {
      BALLAST_TRY(inner, JsonObject::parse(*raw, config.where(), kStrictRules));
    }
    for (const std::string& type : types_) {
      const std::string key = type + "_token_id";
      auto raw = config.find(key);
      if (!raw && inner) raw = inner->find(key);
      if (!raw) continue;
      std::vector<std::string_view> numbers{*raw};
      if (raw->starts_with('[')) BALLAST_CHECK(assign(numbers, json_elements(*raw, config.where())));
      if (numbers.empty()) continue;
      const auto id = JsonReader(numbers.front(), config.where()).read_u64();
      if (id) set_id(type, *id);
    }
    return {};
  }

  // A mark that is put around texts has a number, whatever the other files leave out.
  void take_from_template(const std::string& type, const std::string& text) {
    const auto token = std::ranges::find(added_tokens_, text, &AddedToken::text);
    if (!text.empty() && token != added_tokens_.end()) set_id(type, token->id);
  }

  void set_id(const std::string& type, uint64_t id) {
    const bool is_there =
        std::ranges::find(found_.ids, type, &std::pair<std::string, uint64_t>::first) != found_.ids.end();
    if (!is_there && id < vocab_) found_.ids.emplace_back(type, id);
  }

  const std::vector<AddedToken>& added_tokens_;
  uint64_t vocab_;
  std::vector<std::string> types_ = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};
  bool has_config_ = false;
  std::map<std::string, std::string> texts_;
  std::map<std::string, bool> flags_;
  std::string first_, last_;  // of the template
  GgufSpecialTokens found_;
};

}  // namespace

Result<GgufSpecialTokens> find_gguf_special_tokens(const GgufSourceFiles& files, std::string_view config_json,
                                                   const std::vector<AddedToken>& added_tokens, uint64_t vocab) {
  return SpecialTokenFinder(added_tokens, vocab).find(files, config_json);
}

}  // namespace ballast
