#include "ballast/backends/opencl/program_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "ballast/base/hash.h"
#include "ballast/io/file.h"
#include "ballast/io/list_folder.h"

namespace ballast::opencl {

namespace {

constexpr std::string_view kEnding = ".opencl";
constexpr size_t kDigestBytes = sizeof(Digest);

std::string hex_of(ByteSpan bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

struct CacheFolder {
  std::mutex mutex;
  std::string path;
};
CacheFolder& cache_folder() {
  static auto* const folder = new CacheFolder();
  return *folder;
}

}  // namespace

ProgramCache ProgramCache::current() {
  CacheFolder& folder = cache_folder();
  const std::lock_guard lock(folder.mutex);
  return ProgramCache(folder.path);
}

void ProgramCache::set_current(std::string path) {
  CacheFolder& folder = cache_folder();
  const std::lock_guard lock(folder.mutex);
  folder.path = std::move(path);
}

std::string program_key(std::initializer_list<std::string_view> device, std::string_view source,
                        std::string_view options) {
  Blake3 hash;
  const auto add = [&](std::string_view text) {
    hash.update_le(static_cast<uint64_t>(text.size()));
    hash.update(text);
  };
  for (const std::string_view text : device) add(text);
  add(source);
  add(options);
  return hex_of(ByteSpan(hash.finish()).first(16));
}

std::string ProgramCache::path_of(const std::string& key) const { return folder_ + "/" + key + std::string(kEnding); }

// A file is the digest of what follows it, and the program.
std::vector<std::byte> ProgramCache::read(const std::string& key) const {
  if (!is_on()) return {};
  const auto source = open_file(path_of(key), FileAccess::kPositional);
  if (!source || (*source)->size() <= kDigestBytes || (*source)->size() > kMostFileBytes + kDigestBytes) return {};
  auto bytes = read_bytes(**source, 0, (*source)->size());
  if (!bytes) return {};
  const ByteSpan digest = ByteSpan(*bytes).first(kDigestBytes), binary = ByteSpan(*bytes).subspan(kDigestBytes);
  if (!std::ranges::equal(blake3(binary), digest)) return {};
  return {binary.begin(), binary.end()};
}

void ProgramCache::write(const std::string& key, ByteSpan binary) const {
  if (!is_on() || binary.empty() || binary.size() > kMostFileBytes) return;
  AtomicFiles files({.overwrite = true});
  const auto sink = files.add(path_of(key), kDigestBytes + binary.size());
  if (!sink) return;
  const Digest digest = blake3(binary);
  if (!(*sink)->write(digest) || !(*sink)->write(binary)) return;
  const auto others = files_below(folder_);
  uint64_t held = binary.size();
  if (others) {
    for (const FolderFile& file : *others) held += file.bytes;
  }
  if (others && held > kMostBytes) {
    for (const FolderFile& file : *others) {
      if (file.path.ends_with(kEnding) && file.path != key + std::string(kEnding)) {
        files.remove_after_commit(folder_ + "/" + file.path);
      }
    }
  }
  static_cast<void>(files.commit());
}

}  // namespace ballast::opencl
