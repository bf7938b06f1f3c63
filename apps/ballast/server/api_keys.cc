#include "apps/ballast/server/api_keys.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "apps/ballast/output/text.h"
#include "apps/ballast/server/secret.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kLargestKeyFile = 1 << 20;
constexpr size_t kShortKey = 16;
constexpr size_t kLongestKey = 1024;

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_key_character(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

Status ApiKeys::add(std::string name, std::string_view key, std::string_view source) {
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: the key \"{}\" {}", source, printable(name), why));
  };
  if (name.empty()) return refuse("has no name before its colon");
  if (key.empty()) return refuse("is empty");
  if (key.size() > kLongestKey) return refuse(fmt::format("has {} characters, more than {}", key.size(), kLongestKey));
  if (!std::ranges::all_of(key, is_key_character)) return refuse("has spaces or characters that are not ASCII");
  const auto has_name = [&](const Key& known) { return known.name == name; };
  if (std::ranges::any_of(keys_, has_name)) return refuse("is there twice; give each key a name of its own");
  if (key.size() < kShortKey) short_names_.push_back(name);
  keys_.push_back({std::move(name), blake3(as_bytes(key))});
  return {};
}

Result<ApiKeys> ApiKeys::parse(std::string_view text, std::string_view source) {
  ApiKeys keys;
  for (const std::string_view whole : lines_of(text)) {
    const std::string_view line = without_blanks(whole);
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    const bool named = colon != std::string_view::npos;
    std::string name =
        named ? std::string(without_blanks(line.substr(0, colon))) : fmt::format("key {}", keys.keys_.size() + 1);
    BALLAST_CHECK(keys.add(std::move(name), without_blanks(named ? line.substr(colon + 1) : line), source));
  }
  if (!keys.empty()) return keys;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: there is no key in it; write one per line, as NAME:KEY", source));
}

std::optional<std::string> ApiKeys::find(std::string_view key) const {
  const Digest digest = blake3(as_bytes(key));
  const Key* found = nullptr;
  for (const Key& known : keys_) {  // all of them, always: the time says nothing
    if (same_digest(known.digest, digest)) found = &known;
  }
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

Result<ApiKeys> read_api_keys(const std::string& path) {
  BALLAST_TRY(const auto file, open_file(path, FileAccess::kPositional));
  if (file->size() > kLargestKeyFile) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: {} bytes are more than a file of API keys has (at most {})", path, file->size(),
                                  kLargestKeyFile));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*file, 0, file->size()));
  return ApiKeys::parse(as_text(bytes), path);
}

bool is_readable_by_others(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

std::optional<std::string_view> bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer";
  if (authorization.size() <= kScheme.size() || authorization[kScheme.size()] != ' ') return std::nullopt;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return std::nullopt;
  }
  return without_blanks(authorization.substr(kScheme.size()));
}

}  // namespace ballast::cli
