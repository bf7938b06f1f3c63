#include "ballast/text/load_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "ballast/archive/guard.h"
#include "ballast/io/file.h"
#include "ballast/text/tokenizer_file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// Far above any vocabulary in use, far below what could hurt.
constexpr uint64_t kLargest = uint64_t{256} << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Result<std::string> read_text(const fs::path& path) {
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kLargest) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a tokenizer file", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Result<TokenizerDescription> describe(const fs::path& path) {
  const fs::path merges = path.parent_path() / "merges.txt";
  BALLAST_TRY(const std::string text, read_text(path));
  if (path.filename() == "vocab.json" && is_file(merges)) {
    BALLAST_TRY(const std::string merge_text, read_text(merges));
    return parse_vocab_and_merges(text, path.string(), merge_text, merges.string());
  }
  return parse_tokenizer_json(text, path.string());
}

std::optional<fs::path> find_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.json"}) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& path) {
  return guarded([&]() -> Result<Tokenizer> {
    fs::path file = path;
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      const auto found = find_in(file);
      if (!found) {
        return make_error(ErrorCode::kNotFound,
                          fmt::format("{}: the folder holds neither tokenizer.json nor vocab.json", path));
      }
      file = *found;
    }
    BALLAST_TRY(TokenizerDescription description, describe(file));
    auto tokenizer = Tokenizer::make(std::move(description));
    if (!tokenizer) return std::move(tokenizer).error().with_context(file.string());
    return tokenizer;
  });
}

std::optional<std::string> find_tokenizer_beside(const std::string& model_path) {
  std::error_code ignored;
  const fs::path model = model_path;
  const auto found = find_in(fs::is_directory(model, ignored) ? model : model.parent_path());
  if (!found) return std::nullopt;
  return found->string();
}

}  // namespace ballast
