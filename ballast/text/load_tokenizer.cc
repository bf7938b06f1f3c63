#include "ballast/text/load_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "ballast/archive/guard.h"
#include "ballast/archive/open.h"
#include "ballast/io/file.h"
#include "ballast/io/list_folder.h"
#include "ballast/text/byte_tokenizer.h"
#include "ballast/text/gguf_vocabulary.h"
#include "ballast/text/sentencepiece_file.h"
#include "ballast/text/tokenizer_file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

// Far above any vocabulary in use, far below what could hurt.
constexpr uint64_t kLargest = uint64_t{256} << 20;
constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::array<const char*, 3> kTokenizerNames = {"tokenizer.json", "tokenizer.model", "vocab.json"};

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

bool is_gguf(const fs::path& path) {
  if (!is_file(path)) return false;
  const auto source = open_file(path.string(), FileAccess::kPositional);
  if (!source || (*source)->size() < kGgufMagic.size()) return false;
  const auto bytes = read_bytes(**source, 0, kGgufMagic.size());
  return bytes && as_text(*bytes) == kGgufMagic;
}

Result<TokenizerDescription> describe_gguf(const fs::path& path) {
  BALLAST_TRY(const Archive archive, open_archive(path.string()));
  BALLAST_TRY(GgufVocabulary vocabulary, read_gguf_vocabulary(archive.description(), path.string()));
  return describe_gguf_vocabulary(std::move(vocabulary), path.string());
}

Result<TokenizerDescription> describe_content(const fs::path& path) {
  BALLAST_TRY(const std::string text, read_text(path));
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] != '{') {
    if (looks_like_sentencepiece(text)) return parse_sentencepiece(text, path.string());
    return make_error(
        ErrorCode::kUnknownFormat,
        fmt::format("{}: neither a tokenizer.json nor a SentencePiece model nor a GGUF file", path.string()));
  }
  const fs::path merges = path.parent_path() / "merges.txt";
  if (path.filename() == "vocab.json" && is_file(merges)) {
    BALLAST_TRY(const std::string merge_text, read_text(merges));
    return parse_vocab_and_merges(text, path.string(), merge_text, merges.string());
  }
  return parse_tokenizer_json(text, path.string());
}

Result<TokenizerDescription> describe(const fs::path& path) {
  if (is_gguf(path)) return describe_gguf(path);
  BALLAST_TRY(TokenizerDescription description, describe_content(path));
  const fs::path config = path.parent_path() / "tokenizer_config.json";
  if (is_file(config)) {
    BALLAST_TRY(const std::string text, read_text(config));
    BALLAST_CHECK(apply_tokenizer_config(text, config.string(), description));
  }
  return description;
}

std::optional<fs::path> find_in(const fs::path& folder) {
  for (const char* name : kTokenizerNames) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

// The GGUF file of a folder that holds one, and so the vocabulary too; nullopt where there are several.
std::optional<fs::path> find_only_gguf(const fs::path& folder) {
  std::optional<fs::path> found;
  const auto names = names_in_folder(folder.string());
  if (!names) return std::nullopt;
  for (const std::string& name : *names) {
    if (!name.ends_with(".gguf") || !is_gguf(folder / name)) continue;
    if (found) return std::nullopt;
    found = folder / name;
  }
  return found;
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& path) {
  return guarded([&]() -> Result<Tokenizer> {
    fs::path file = path;
    std::error_code ignored;
    if (path == kByteTokenizerName && !fs::exists(file, ignored)) {
      BALLAST_TRY(TokenizerDescription bytes, parse_tokenizer_json(byte_tokenizer_json(), path));
      return Tokenizer::make(std::move(bytes));
    }
    if (fs::is_directory(file, ignored)) {
      const auto found = find_in(file);
      if (!found) {
        return make_error(
            ErrorCode::kNotFound,
            fmt::format("{}: the folder holds none of tokenizer.json, tokenizer.model and vocab.json", path));
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
  if (is_gguf(model)) return model_path;
  const bool is_folder = fs::is_directory(model, ignored);
  auto found = find_in(is_folder ? model : model.parent_path());
  if (!found && is_folder) found = find_only_gguf(model);
  if (!found) return std::nullopt;
  return found->string();
}

}  // namespace ballast
