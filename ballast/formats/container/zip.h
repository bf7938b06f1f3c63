// Zip containers as far as files of tensors use them: members stored or deflated, one disk, no encryption, 64-bit
// sizes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/formats/findings.h"

namespace ballast {

struct ZipMember {
  std::string name;            // UTF-8, whatever the file stores
  uint64_t header_offset = 0;  // of its local header
  uint64_t data_offset = 0;    // of its stored bytes
  uint64_t stored_size = 0;    // compressed where compressed
  uint64_t size = 0;
  uint32_t crc32 = 0;
  bool deflated = false;
};

// How a writer spells the headers. The defaults are those of numpy.savez, which asks Python's zipfile for 64-bit sizes
// in every local header.
struct ZipStyle {
  bool always_zip64 = true;
  bool windows = false;  // Python on Windows names another operating system in the directory
};

// ---------------------------------------------------------------- reading

struct ZipDirectory {
  std::vector<ZipMember> members;  // in the order of the central directory
  // Every byte that is not a member's data is what numpy.savez would have written, in this style.
  bool is_numpy_form = false;
  ZipStyle style;
};

bool looks_like_zip(ByteSpan head);

// Calls `visit` with every name the central directory lists, as stored, until it returns false. Checks next to nothing:
// for telling what a file is. False when there is no directory to list.
bool for_each_zip_name(const ByteSource& source, const std::function<bool(std::string_view)>& visit);

// The name in the local header at the front of a zip file; for files whose directory is gone.
std::string_view first_zip_name(ByteSpan head);

// The one validator of zip structure: end records, central directory, local headers and their agreement, data
// descriptors, names, overlap. No member data is read.
Result<ZipDirectory> read_zip_directory(const ByteSource& source, Findings& findings);

// A name as UTF-8; nullopt where the file says that it is UTF-8 and it is not.
std::optional<std::string> decode_zip_name(std::string_view stored, bool utf8);

// Why a member must not have this name, or "" where it may: an unpacker could be led out of its folder.
std::string_view unsafe_zip_name(std::string_view name);

// Deflate cannot expand further than this: a member that claims more is lying.
inline constexpr uint64_t kMaxDeflateRatio = 1032;

// ---------------------------------------------------------------- writing

inline constexpr size_t kMaxZipName = 0xFFFF;

// The smallest alignment field; see zip_local_header.
inline constexpr uint16_t kMinZipPadding = 6;

// The local header of `member`. `padding` bytes of it (0, or at least kMinZipPadding) are an extra field that moves the
// data to where the writer wants it; readers skip it. Its length does not depend on sizes that are not yet known,
// except where they decide between 32 and 64 bits.
std::string zip_local_header(const ZipMember& member, const ZipStyle& style, uint16_t padding = 0);

std::string zip_central_header(const ZipMember& member, const ZipStyle& style);

// What follows the central directory of `count` members at [offset, offset + size).
std::string zip_end_records(uint64_t count, uint64_t offset, uint64_t size);

}  // namespace ballast
