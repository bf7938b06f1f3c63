#include "apps/ballast/models/file_digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/file.h"

namespace ballast::cli {

FileDigest FileDigest::of_blob_name(std::string_view name) {
  const bool is_hex =
      std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (is_hex && name.size() == 64) return {Kind::kSha256, std::string(name)};
  if (is_hex && name.size() == 40) return {Kind::kGitBlob, std::string(name)};
  return {};
}

FileDigester::FileDigester(FileDigest expected, uint64_t size) : expected_(std::move(expected)) {
  if (expected_.kind == FileDigest::Kind::kSha256) hasher_.emplace(ShaHasher::Kind::kSha256);
  if (expected_.kind != FileDigest::Kind::kGitBlob) return;
  hasher_.emplace(ShaHasher::Kind::kSha1);
  const std::string head = fmt::format("blob {}", size);
  hasher_->update(as_bytes({head.c_str(), head.size() + 1}));  // with the zero at its end
}

Status FileDigester::finish(std::string_view what) {
  if (!hasher_) return {};
  const std::string digest = hasher_->finish_hex();
  if (digest == expected_.hex) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: the {} is {}, expected {}", what, expected_.kind_name(), digest, expected_.hex));
}

Status check_digest(const std::string& path, const FileDigest& expected, const Progress& progress) {
  constexpr size_t kPiece = size_t{1} << 20;
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  FileDigester digester(expected, source->size());
  ByteVector buffer(static_cast<size_t>(std::min<uint64_t>(source->size(), kPiece)));
  for (uint64_t at = 0; at < source->size();) {
    const auto piece =
        MutableByteSpan(buffer).first(static_cast<size_t>(std::min<uint64_t>(source->size() - at, kPiece)));
    BALLAST_CHECK(source->read_at(at, piece));
    digester.update(piece);
    at += piece.size();
    BALLAST_CHECK(report_progress(progress, {.activity = "checking", .done = at, .total = source->size()}));
  }
  return digester.finish(path);
}

}  // namespace ballast::cli
