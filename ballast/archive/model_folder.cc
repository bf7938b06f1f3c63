#include "ballast/archive/model_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/archive/guard.h"
#include "ballast/base/json.h"
#include "ballast/io/file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostConfigBytes = uint64_t{16} << 20;

Result<std::optional<std::string>> read_if_there(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::optional<std::string>();
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kMostConfigBytes) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a config", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::optional(std::string(as_text(bytes)));
}

Result<bool> names_model_type(std::string_view text, const std::string& where) {
  JsonReader reader(text, where);
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  bool found = false;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    found = found || key == "model_type";
    BALLAST_CHECK(reader.skip_value());
  }
  BALLAST_CHECK(reader.finish());
  return found;
}

}  // namespace

bool is_huggingface_config(std::string_view text) {
  const auto found = names_model_type(text, "");
  return found && *found;
}

Result<ModelFolder> read_model_folder(const std::string& path) {
  return guarded([&]() -> Result<ModelFolder> {
    std::error_code ignored;
    const fs::path folder = fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
    ModelFolder found;
    BALLAST_TRY(auto config, read_if_there(folder / "config.json"));
    if (config) {
      BALLAST_TRY(const bool is_model, names_model_type(*config, (folder / "config.json").string()));
      if (is_model) found.config = ModelConfig{std::string(kHuggingFaceSchema), std::move(*config)};
    }
    BALLAST_TRY(found.generation_config, read_if_there(folder / "generation_config.json"));
    return found;
  });
}

}  // namespace ballast
