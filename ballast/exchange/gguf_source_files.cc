#include "ballast/exchange/gguf_source_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/archive/model_folder.h"
#include "ballast/exchange/folder_gptrs.h"
#include "ballast/io/file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestSourceFile = uint64_t{256} << 20;  // far above any vocabulary in use

Result<std::optional<std::string>> read_source_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::optional<std::string>();
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kLargestSourceFile) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a tokenizer file", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::optional(std::string(as_text(bytes)));
}

Result<std::optional<std::string>> read_tokenizer_document(const fs::path& folder) {
  BALLAST_TRY(auto json, read_source_file(folder / "tokenizer.json"));
  std::optional<std::string> merges;
  if (!json) {
    BALLAST_TRY(json, read_source_file(folder / "vocab.json"));
    BALLAST_TRY(merges, read_source_file(folder / "merges.txt"));
    if (!json || !merges) return std::optional<std::string>();
  }
  const fs::path where = folder / (merges ? "vocab.json" : "tokenizer.json");
  BALLAST_TRY(json, gptrs_tokenizer_json(*json, merges ? &*merges : nullptr, where.string()));
  return json;
}

}  // namespace

std::string GgufSourceFiles::name_of(std::string_view file) const { return (fs::path(folder) / file).string(); }

Result<GgufSourceFiles> read_gguf_source_files(const std::string& path) {
  GgufSourceFiles files;
  if (path.empty() || path == "-") return files;
  std::error_code ignored;
  const fs::path given = path;
  const fs::path folder = fs::is_directory(given, ignored) ? given : given.parent_path();
  files.folder = folder.empty() ? "." : folder.string();
  BALLAST_TRY(files.tokenizer_json, read_tokenizer_document(folder));
  BALLAST_TRY(files.tokenizer_config, read_source_file(folder / "tokenizer_config.json"));
  BALLAST_TRY(files.sentencepiece, read_source_file(folder / "tokenizer.model"));
  BALLAST_TRY(files.generation_config, read_source_file(folder / "generation_config.json"));
  BALLAST_TRY(ModelFolder model, read_model_folder(path));
  files.sentence = std::move(model.sentence);
  return files;
}

}  // namespace ballast
