#include "ballast/training/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "ballast/io/file.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer/byte_tokenizer.h"
#include "ballast/text/tokenizer/sentencepiece_file.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestFile = uint64_t{256} << 20;
// In the order in which load_tokenizer looks for them, then what belongs to the others.
constexpr std::array<const char*, 5> kNames = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt",
                                               "tokenizer_config.json"};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Result<std::string> contents_of(const fs::path& path) {
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kLargestFile) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a tokenizer file", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Status append_file(std::vector<CompanionFile>& files, const char* name, const fs::path& path) {
  BALLAST_TRY(std::string contents, contents_of(path));
  files.push_back({name, std::move(contents)});
  return {};
}

fs::path folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

Result<std::vector<CompanionFile>> find_tokenizer_files(const std::string& folder) {
  std::vector<CompanionFile> files;
  const auto found = std::ranges::find_if(kNames.begin(), kNames.begin() + 3,
                                          [&](const char* name) { return is_there(fs::path(folder) / name); });
  if (found == kNames.begin() + 3) return files;
  BALLAST_CHECK(append_file(files, *found, fs::path(folder) / *found));
  const std::string_view first = *found;
  for (const char* name : {"merges.txt", "tokenizer_config.json"}) {
    const bool belongs = std::string_view(name) != "merges.txt" || first == "vocab.json";
    if (belongs && is_there(fs::path(folder) / name)) BALLAST_CHECK(append_file(files, name, fs::path(folder) / name));
  }
  return files;
}

Result<std::vector<CompanionFile>> tokenizer_files(const std::string& tokenizer) {
  std::error_code ignored;
  if (fs::is_directory(tokenizer, ignored)) return find_tokenizer_files(tokenizer);
  if (tokenizer == kByteTokenizerName && !is_there(tokenizer))
    return std::vector<CompanionFile>{{"tokenizer.json", byte_tokenizer_json()}};
  const fs::path path = tokenizer, folder = folder_of(tokenizer);
  BALLAST_TRY(std::string contents, contents_of(path));
  if (contents.starts_with("GGUF")) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: the vocabulary of a GGUF file cannot be put beside the trained model; convert "
                                  "the file to a folder first, and name the folder's tokenizer.json",
                                  tokenizer));
  }
  std::vector<CompanionFile> files;
  const bool pairs = path.filename() == "vocab.json" && is_there(folder / "merges.txt");
  const char* name = pairs ? "vocab.json" : looks_like_sentencepiece(contents) ? "tokenizer.model" : "tokenizer.json";
  files.push_back({name, std::move(contents)});
  if (pairs) BALLAST_CHECK(append_file(files, "merges.txt", folder / "merges.txt"));
  if (is_there(folder / "tokenizer_config.json"))
    BALLAST_CHECK(append_file(files, "tokenizer_config.json", folder / "tokenizer_config.json"));
  return files;
}

Status check_tokenizer_place(const std::string& model_path, std::span<const CompanionFile> files, bool overwrite) {
  if (files.empty()) return {};
  const fs::path folder = folder_of(model_path);
  for (const char* name : kNames) {
    if (!is_there(folder / name)) continue;
    const auto ours = std::ranges::find(files, name, &CompanionFile::name);
    if (ours != files.end() && overwrite) continue;
    BALLAST_TRY(const std::string there, contents_of(folder / name));
    if (ours != files.end() && ours->contents == there) continue;
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: the folder holds another tokenizer ({}), which the trained model would be taken "
                                  "to use; save the model in a folder of its own",
                                  model_path, name));
  }
  return {};
}

Status add_companions(AtomicFiles& set, const std::string& model_path, std::span<const CompanionFile> files) {
  for (const CompanionFile& file : files) {
    const fs::path path = folder_of(model_path) / file.name;
    if (const auto there = contents_of(path); there && *there == file.contents) continue;
    BALLAST_TRY(ByteSink* const sink, set.add(path.string(), file.contents.size()));
    BALLAST_CHECK(sink->write_text(file.contents));
  }
  return {};
}

}  // namespace ballast
