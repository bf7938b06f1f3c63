#include "ballast/text/find_chat_template.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "ballast/base/json.h"
#include "ballast/edit/json_object.h"
#include "ballast/io/file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestTemplateFile = uint64_t{64} << 20U;  // tokenizer_config.json lists added tokens too

// nullopt where there is no such file.
Result<std::optional<std::string>> read_file_if_any(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::optional<std::string>();
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kLargestTemplateFile) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a file of settings", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::optional(std::string(as_text(bytes)));
}

// "<s>", or {"content": "<s>", ...}; "" where it is null or absent.
Result<std::string> mark_text(const JsonObject& config, std::string_view key) {
  const auto raw = config.find(key);
  if (!raw) return std::string();
  if (!raw->starts_with('{')) {
    BALLAST_TRY(const auto text, config.text(key));
    return text.value_or("");
  }
  BALLAST_TRY(const auto object, config.object(key));
  BALLAST_TRY(const auto text, object->text("content"));
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
    BALLAST_TRY(const auto name, entry.text("name"));
    BALLAST_TRY(const auto text, entry.text("template"));
    if (text && (first.empty() || name == "default")) first = *text;
  }
}

Result<std::string> template_in(const JsonObject& config) {
  const auto raw = config.find("chat_template");
  if (!raw) return std::string();
  if (raw->starts_with('[')) return default_of_list(*raw, config.where());
  BALLAST_TRY(const auto text, config.text("chat_template"));
  return text.value_or("");
}

}  // namespace

Result<std::optional<FoundChatTemplate>> find_chat_template(const std::string& model_path) {
  std::error_code ignored;
  const fs::path model = model_path;
  const fs::path folder = fs::is_directory(model, ignored) ? model : model.parent_path();
  FoundChatTemplate found;
  const fs::path config_path = folder / "tokenizer_config.json";
  BALLAST_TRY(const auto config_text, read_file_if_any(config_path));
  if (config_text) {
    BALLAST_TRY(const JsonObject config, JsonObject::parse(*config_text, config_path.string()));
    BALLAST_TRY(found.bos_token, mark_text(config, "bos_token"));
    BALLAST_TRY(found.eos_token, mark_text(config, "eos_token"));
    BALLAST_TRY(found.text, template_in(config));
    found.where = config_path.string();
  }
  const fs::path own_path = folder / "chat_template.jinja";
  BALLAST_TRY(const auto own_text, read_file_if_any(own_path));
  if (own_text) {
    found.text = *own_text;
    found.where = own_path.string();
  }
  if (!found.text.empty()) return std::optional(std::move(found));
  if (fs::is_directory(model, ignored)) return std::optional<FoundChatTemplate>();
  const auto archive = open_archive(model_path);
  // A file that cannot be read has no template either; whoever loads the model says what is wrong with it.
  return archive ? find_chat_template(archive->description()) : std::nullopt;
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
