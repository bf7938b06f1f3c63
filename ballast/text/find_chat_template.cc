#include "ballast/text/find_chat_template.h"

#include "ballast/archive/file_set.h"
#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr uint64_t kLargestTemplateFile = uint64_t{64} << 20U;  // tokenizer_config.json lists added tokens too

Result<std::optional<std::string>> read_settings(const FileSet& files, const std::string& name) {
  return read_if_there(files, name, kLargestTemplateFile, "a file of settings");
}

// "<s>", or {"content": "<s>", ...}; "" where it is null or absent.
Result<std::string> mark_text(const JsonObject& config, std::string_view key) {
  const auto raw = config.find(key);
  if (!raw) return std::string();
  if (!raw->starts_with('{')) {
    BALLAST_TRY(const auto text, config.find_text(key));
    return text.value_or("");
  }
  BALLAST_TRY(const auto object, config.find_object(key));
  BALLAST_TRY(const auto text, object->find_text("content"));
  return text.value_or("");
}

// [{"name": "default", "template": "..."}, ...]
Result<std::string> default_of_list(std::string_view raw, const std::string& where) {
  JsonReader json(raw, where);
  std::string first;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return first;
    BALLAST_TRY(const std::string_view element, json.read_raw());
    BALLAST_TRY(const JsonObject entry, JsonObject::parse(element, where));
    BALLAST_TRY(const auto name, entry.find_text("name"));
    BALLAST_TRY(const auto text, entry.find_text("template"));
    if (text && (first.empty() || name == "default")) first = *text;
  }
}

Result<std::string> template_in(const JsonObject& config) {
  const auto raw = config.find("chat_template");
  if (!raw) return std::string();
  if (raw->starts_with('[')) return default_of_list(*raw, config.where());
  BALLAST_TRY(const auto text, config.find_text("chat_template"));
  return text.value_or("");
}

// chat_template.jinja, else tokenizer_config.json, which has the names of marks besides.
Result<FoundChatTemplate> template_beside(const FileSet& files) {
  FoundChatTemplate found;
  BALLAST_TRY(const auto config_text, read_settings(files, "tokenizer_config.json"));
  if (config_text) {
    found.where = files.place_of("tokenizer_config.json");
    BALLAST_TRY(const JsonObject config, JsonObject::parse(*config_text, found.where));
    BALLAST_TRY(found.bos_token, mark_text(config, "bos_token"));
    BALLAST_TRY(found.eos_token, mark_text(config, "eos_token"));
    BALLAST_TRY(found.text, template_in(config));
  }
  BALLAST_TRY(const auto own_text, read_settings(files, "chat_template.jinja"));
  if (own_text) {
    found.text = *own_text;
    found.where = files.place_of("chat_template.jinja");
  }
  return found;
}

}  // namespace

Result<std::optional<FoundChatTemplate>> find_chat_template(const ModelSource& model) {
  return guarded([&]() -> Result<std::optional<FoundChatTemplate>> {
    if (model.files() != nullptr) {
      BALLAST_TRY(FoundChatTemplate beside, template_beside(*model.files()));
      if (!beside.text.empty()) return std::optional(std::move(beside));
    }
    const auto archive = model.archive();
    // A file that cannot be read has no template either; whoever loads the model says what is wrong with it.
    return archive ? find_chat_template((*archive)->description()) : std::nullopt;
  });
}

Result<std::optional<FoundChatTemplate>> find_chat_template(const std::string& model_path) {
  return guarded([&] { return find_chat_template(ModelSource(model_path)); });
}

std::optional<FoundChatTemplate> find_chat_template(const Description& description) {
  FoundChatTemplate found;
  const auto number = [](const MetaValue& value) -> std::optional<TokenId> {
    if (const auto* whole = std::get_if<uint64_t>(&value)) return static_cast<TokenId>(*whole);
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<TokenId>(*whole);
    return std::nullopt;
  };
  for (const MetaEntry& entry : description.metadata) {
    if (entry.key == "tokenizer.chat_template") {
      if (const auto* text = std::get_if<std::string>(&entry.value)) found.text = *text;
      found.where = entry.key;
    } else if (entry.key == "tokenizer.ggml.bos_token_id") {
      found.bos_id = number(entry.value);
    } else if (entry.key == "tokenizer.ggml.eos_token_id") {
      found.eos_id = number(entry.value);
    }
  }
  if (found.text.empty()) return std::nullopt;
  return found;
}

}  // namespace ballast
