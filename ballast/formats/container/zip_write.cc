#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/formats/container/zip.h"
#include "ballast/formats/container/zip_records.h"

namespace ballast {

namespace {

using namespace zip;

// Python's zipfile goes over to 64 bits where a signed 32-bit number would end.
constexpr uint64_t kZip64Limit = 0x7FFFFFFF;

constexpr uint16_t kVersionPlain = 20;
constexpr uint16_t kVersionZip64 = 45;
constexpr uint16_t kDate1980 = 0x0021;  // 1 January 1980: files do not depend on the clock
constexpr uint16_t kHostUnix = 3 << 8;
constexpr uint16_t kHostWindows = 0;
constexpr uint32_t kOwnerMayReadAndWrite = 0600U << 16;
constexpr uint16_t kMemberAlignment = 64;

bool has_large_sizes(const ZipMember& member) { return member.size > kZip64Limit || member.stored_size > kZip64Limit; }

bool has_local_zip64(const ZipMember& member, const ZipStyle& style) {
  return style.always_zip64 || has_large_sizes(member);
}

uint16_t version_needed(bool zip64) { return zip64 ? kVersionZip64 : kVersionPlain; }

// What local and central headers have in common, from the flags to the CRC.
void append_shared_fields(std::string& out, const ZipMember& member) {
  append_le<uint16_t>(out, is_ascii(member.name) ? uint16_t{0} : kFlagUtf8);
  append_le<uint16_t>(out, member.deflated ? kDeflated : kStored);
  append_le<uint16_t>(out, 0);
  append_le<uint16_t>(out, kDate1980);
  append_le<uint32_t>(out, member.crc32);
}

void append_zip64_extra(std::string& out, const std::vector<uint64_t>& values) {
  append_le<uint16_t>(out, kExtraZip64);
  append_le<uint16_t>(out, static_cast<uint16_t>(values.size() * sizeof(uint64_t)));
  for (const uint64_t value : values) append_le<uint64_t>(out, value);
}

uint32_t or_in64(uint64_t value, bool in64) { return in64 ? kIn64 : static_cast<uint32_t>(value); }

}  // namespace

std::string zip_local_header(const ZipMember& member, const ZipStyle& style, uint16_t padding) {
  const bool zip64 = has_local_zip64(member, style);
  std::string extra;
  if (zip64) append_zip64_extra(extra, {member.size, member.stored_size});
  if (padding != 0) {
    append_le<uint16_t>(extra, kExtraAlignment);
    append_le<uint16_t>(extra, static_cast<uint16_t>(padding - 4));
    append_le<uint16_t>(extra, kMemberAlignment);
    extra.append(padding - kMinZipPadding, '\0');
  }
  std::string out;
  append_le<uint32_t>(out, kLocalSignature);
  append_le<uint16_t>(out, version_needed(zip64));
  append_shared_fields(out, member);
  append_le<uint32_t>(out, or_in64(member.stored_size, zip64));
  append_le<uint32_t>(out, or_in64(member.size, zip64));
  append_le<uint16_t>(out, static_cast<uint16_t>(member.name.size()));
  append_le<uint16_t>(out, static_cast<uint16_t>(extra.size()));
  return out + member.name + extra;
}

std::string zip_central_header(const ZipMember& member, const ZipStyle& style) {
  const bool large = has_large_sizes(member);
  const bool far = member.header_offset > kZip64Limit;
  std::vector<uint64_t> in_extra;
  if (large) in_extra = {member.size, member.stored_size};
  if (far) in_extra.push_back(member.header_offset);
  std::string extra;
  if (!in_extra.empty()) append_zip64_extra(extra, in_extra);

  const uint16_t version = version_needed(has_local_zip64(member, style) || !in_extra.empty());
  std::string out;
  append_le<uint32_t>(out, kCentralSignature);
  append_le<uint16_t>(out, static_cast<uint16_t>((style.windows ? kHostWindows : kHostUnix) | version));
  append_le<uint16_t>(out, version);
  append_shared_fields(out, member);
  append_le<uint32_t>(out, or_in64(member.stored_size, large));
  append_le<uint32_t>(out, or_in64(member.size, large));
  append_le<uint16_t>(out, static_cast<uint16_t>(member.name.size()));
  append_le<uint16_t>(out, static_cast<uint16_t>(extra.size()));
  append_le<uint16_t>(out, 0);  // comment
  append_le<uint16_t>(out, 0);  // disk
  append_le<uint16_t>(out, 0);  // internal attributes
  append_le<uint32_t>(out, kOwnerMayReadAndWrite);
  append_le<uint32_t>(out, or_in64(member.header_offset, far));
  return out + member.name + extra;
}

std::string zip_end_records(uint64_t count, uint64_t offset, uint64_t size) {
  std::string out;
  if (count > kIn64Count || offset > kZip64Limit || size > kZip64Limit) {
    append_le<uint32_t>(out, kEnd64Signature);
    append_le<uint64_t>(out, kEnd64Size - 12);  // bytes after this field
    append_le<uint16_t>(out, kVersionZip64);
    append_le<uint16_t>(out, kVersionZip64);
    append_le<uint32_t>(out, 0);  // this disk
    append_le<uint32_t>(out, 0);  // disk of the directory
    append_le<uint64_t>(out, count);
    append_le<uint64_t>(out, count);
    append_le<uint64_t>(out, size);
    append_le<uint64_t>(out, offset);
    append_le<uint32_t>(out, kLocator64Signature);
    append_le<uint32_t>(out, 0);
    append_le<uint64_t>(out, offset + size);
    append_le<uint32_t>(out, 1);  // disks
  }
  const auto short_count = static_cast<uint16_t>(std::min<uint64_t>(count, kIn64Count));
  append_le<uint32_t>(out, kEndSignature);
  append_le<uint16_t>(out, 0);
  append_le<uint16_t>(out, 0);
  append_le<uint16_t>(out, short_count);
  append_le<uint16_t>(out, short_count);
  append_le<uint32_t>(out, static_cast<uint32_t>(std::min<uint64_t>(size, kIn64)));
  append_le<uint32_t>(out, static_cast<uint32_t>(std::min<uint64_t>(offset, kIn64)));
  append_le<uint16_t>(out, 0);  // comment
  return out;
}

}  // namespace ballast
