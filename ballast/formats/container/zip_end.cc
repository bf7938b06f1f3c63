#include "ballast/formats/container/zip_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ballast/base/checked.h"
#include "ballast/formats/container/zip_records.h"

namespace ballast {

namespace {

using namespace zip;

constexpr uint64_t kMaxComment = 0xFFFF;
constexpr std::string_view kEndMark = "PK\x05\x06";

Error corrupt(const ByteSource& source, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", source.name(), what));
}

Error several_disks(const ByteSource& source) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: this zip file is one part of several; join them first", source.name()));
}

// Offset of the one end record whose comment reaches exactly to the end of the file.
Result<uint64_t> find_end_record(const ByteSource& source) {
  const uint64_t tail_size = std::min(source.size(), kEndSize + kMaxComment);
  const uint64_t tail_start = source.size() - tail_size;
  BALLAST_TRY(const BytesOrView tail, BytesOrView::of(source, tail_start, tail_size));
  const std::string_view text = as_text(tail.bytes());
  std::optional<size_t> found;
  size_t marks_after = 0;
  bool any_mark = false;
  for (size_t at = text.find(kEndMark); at != std::string_view::npos; at = text.find(kEndMark, at + 1)) {
    any_mark = true;
    if (found) ++marks_after;
    if (found || text.size() - at < kEndSize) continue;
    const auto comment = load_le<uint16_t>(tail.bytes().data() + at + 20);
    if (at + kEndSize + comment == text.size()) found = at;
  }
  if (found && marks_after == 0) return tail_start + *found;
  if (found) {
    return corrupt(source, fmt::format("the comment behind the zip end record at byte {} holds another end record, so "
                                       "that programs disagree about what the file contains",
                                       tail_start + *found));
  }
  return corrupt(source, any_mark ? "the zip end record does not reach the end of the file; bytes were appended, or "
                                    "the file was cut short"
                                  : "there is no zip end record; the file was probably cut short");
}

struct End64 {
  uint64_t offset;  // of the record
  ZipEnd end;
};

Result<End64> read_end64(const ByteSource& source, uint64_t locator_offset, ByteSpan locator) {
  const auto record_offset = load_le<uint64_t>(locator.data() + 8);
  if (load_le<uint32_t>(locator.data() + 4) != 0 || load_le<uint32_t>(locator.data() + 16) > 1) {
    return several_disks(source);
  }
  if (record_offset > locator_offset || locator_offset - record_offset < kEnd64Size) {
    return corrupt(source, fmt::format("the zip64 end record should stand at byte {}, which leaves no room for it "
                                       "before its locator at byte {}",
                                       record_offset, locator_offset));
  }
  std::array<std::byte, kEnd64Size> record;
  BALLAST_CHECK(source.read_at(record_offset, record));
  const std::byte* at = record.data();
  // The size field counts what follows it.
  const uint64_t expected_size = locator_offset - record_offset - 12;
  if (load_le<uint32_t>(at) != kEnd64Signature || load_le<uint64_t>(at + 4) != expected_size) {
    return corrupt(source, fmt::format("there is no sound zip64 end record at byte {}; data may have been put in front "
                                       "of the archive",
                                       record_offset));
  }
  if (load_le<uint32_t>(at + 16) != 0 || load_le<uint32_t>(at + 20) != 0) return several_disks(source);
  if (load_le<uint64_t>(at + 24) != load_le<uint64_t>(at + 32)) return several_disks(source);
  return End64{record_offset, ZipEnd{.count = load_le<uint64_t>(at + 32),
                                     .directory_offset = load_le<uint64_t>(at + 48),
                                     .directory_size = load_le<uint64_t>(at + 40),
                                     .records_offset = record_offset}};
}

// A short field must be the sentinel or say the same as its 64-bit twin.
bool agrees(uint64_t short_value, uint64_t sentinel, uint64_t value) {
  return short_value == sentinel || short_value == value;
}

Status check_directory_place(const ByteSource& source, const ZipEnd& end) {
  const auto directory_end = checked_add(end.directory_offset, end.directory_size);
  if (directory_end && *directory_end == end.records_offset) return {};
  if (!directory_end || *directory_end > end.records_offset) {
    return corrupt(source, fmt::format("the zip directory of {} bytes at byte {} would run past its end record at byte "
                                       "{}; the file was probably cut short",
                                       end.directory_size, end.directory_offset, end.records_offset));
  }
  return corrupt(source, fmt::format("the zip directory should end at byte {}, but its end record stands at byte {}: "
                                     "{} bytes were put in front of the archive or into it",
                                     *directory_end, end.records_offset, end.records_offset - *directory_end));
}

}  // namespace

Result<ZipEnd> find_zip_end(const ByteSource& source) {
  BALLAST_TRY(const uint64_t end_offset, find_end_record(source));
  std::array<std::byte, kEndSize> record;
  BALLAST_CHECK(source.read_at(end_offset, record));
  const std::byte* at = record.data();
  const auto count = load_le<uint16_t>(at + 10);
  ZipEnd end{.count = count,
             .directory_offset = load_le<uint32_t>(at + 16),
             .directory_size = load_le<uint32_t>(at + 12),
             .records_offset = end_offset};

  std::array<std::byte, kLocator64Size> locator{};
  if (end_offset >= kLocator64Size) BALLAST_CHECK(source.read_at(end_offset - kLocator64Size, locator));
  if (load_le<uint32_t>(locator.data()) == kLocator64Signature) {
    BALLAST_TRY(const End64 large, read_end64(source, end_offset - kLocator64Size, locator));
    if (!agrees(count, kIn64Count, large.end.count) ||
        !agrees(end.directory_offset, kIn64, large.end.directory_offset) ||
        !agrees(end.directory_size, kIn64, large.end.directory_size)) {
      return corrupt(source, fmt::format("the zip end records at bytes {} and {} contradict each other", large.offset,
                                         end_offset));
    }
    end = large.end;
  } else if (end.directory_offset == kIn64 || end.directory_size == kIn64) {
    return corrupt(source, "the zip end record points to a zip64 record that is not there");
  } else if (load_le<uint16_t>(at + 4) != 0 || load_le<uint16_t>(at + 6) != 0 || load_le<uint16_t>(at + 8) != count) {
    return several_disks(source);
  }
  BALLAST_CHECK(check_directory_place(source, end));
  return end;
}

}  // namespace ballast
