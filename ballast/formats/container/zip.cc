#include "ballast/formats/container/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ballast/base/checked.h"
#include "ballast/base/sort_positions.h"
#include "ballast/formats/container/zip_end.h"
#include "ballast/formats/container/zip_records.h"

namespace ballast {

namespace {

using namespace zip;

constexpr uint16_t kUnreadableFlags = kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders | kFlagPatch;

struct CentralEntry {
  uint16_t flags;
  uint16_t method;
  std::string_view stored_name;
  ByteSpan extra;
  ByteSpan whole;
};

// Splits the entry at the front of `cursor`; nullopt where none stands.
std::optional<CentralEntry> take_central_entry(ByteSpan directory, ByteCursor& cursor) {
  const size_t start = cursor.position();
  const auto fixed = cursor.take_bytes(kCentralSize);
  if (!fixed || load_le<uint32_t>(fixed->data()) != kCentralSignature) return std::nullopt;
  const auto name = cursor.take_bytes(load_le<uint16_t>(fixed->data() + 28));
  const auto extra = cursor.take_bytes(load_le<uint16_t>(fixed->data() + 30));
  if (!name || !extra || !cursor.take_bytes(load_le<uint16_t>(fixed->data() + 32))) return std::nullopt;
  return CentralEntry{load_le<uint16_t>(fixed->data() + 8), load_le<uint16_t>(fixed->data() + 10), as_text(*name),
                      *extra, directory.subspan(start, cursor.position() - start)};
}

// The values of the zip64 extra field, in the order in which the fields that need them come. Fewer than four trailing
// bytes are padding of old aligning tools.
class Zip64Values {
 public:
  explicit Zip64Values(ByteSpan extra) {
    ByteCursor cursor(extra);
    while (cursor.remaining() >= 4) {
      const auto id = cursor.take_le<uint16_t>();
      const auto body = cursor.take_bytes(*cursor.take_le<uint16_t>());
      sound_ = sound_ && body && !(*id == kExtraZip64 && found_);
      if (!sound_) return;
      if (*id != kExtraZip64) continue;
      found_ = true;
      values_ = *body;
    }
  }

  // False where the lengths of the extra fields do not fit, or the field stands twice.
  bool is_sound() const { return sound_; }

  // Replaces a 32-bit field that says so by its 64-bit value. False where that is missing.
  bool resolve(uint64_t& field) {
    if (field != kIn64) return true;
    if (values_.size() < sizeof(uint64_t)) return false;
    field = load_le<uint64_t>(values_.data());
    values_ = values_.subspan(sizeof(uint64_t));
    return true;
  }

 private:
  ByteSpan values_;
  bool sound_ = true;
  bool found_ = false;
};

class DirectoryReader {
 public:
  DirectoryReader(const ByteSource& source, Findings& findings) : source_(source), findings_(findings) {}

  Result<ZipDirectory> read() {
    auto end = find_zip_end(source_);
    if (!end) {
      BALLAST_CHECK(findings_.broken_off(source_.size(), std::move(end).error()));
      return read_without_directory();
    }
    end_ = *end;
    BALLAST_TRY(const BytesOrView directory, BytesOrView::of(source_, end_.directory_offset, end_.directory_size));
    if (end_.count > end_.directory_size / kCentralSize) {
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} members cannot be listed in a directory of {} bytes",
                                                         source_.name(), end_.count, end_.directory_size));
    }
    result_.members.reserve(static_cast<size_t>(end_.count));
    ends_.reserve(static_cast<size_t>(end_.count));
    result_.is_numpy_form = true;
    BALLAST_CHECK(read_entries(directory.bytes()));
    BALLAST_CHECK(check_names());
    BALLAST_CHECK(check_overlap());
    BALLAST_CHECK(check_tail_form());
    return std::move(result_);
  }

 private:
  // The directory stands at the end, so a file that was cut short has none: members are taken as they come, each from
  // its own header.
  Result<ZipDirectory> read_without_directory() {
    end_ = {.count = 0, .directory_offset = source_.size(), .directory_size = 0, .records_offset = source_.size()};
    for (uint64_t at = 0;;) {
      BALLAST_TRY(const auto found, find_local_header(at));
      if (!found) break;
      const size_t known_before = result_.members.size();
      BALLAST_CHECK(read_lone_member(*found));
      // Behind a member that could not be read, the next header is searched for.
      at = result_.members.size() > known_before ? ends_.back() : *found + kLocalSize;
    }
    result_.is_numpy_form = false;
    BALLAST_CHECK(check_names());
    return std::move(result_);
  }

  // Offset of the next mark of a local header. Keeps what it read: a file of nothing but marks must not cost more.
  Result<std::optional<uint64_t>> find_local_header(uint64_t from) {
    constexpr std::string_view kMark = "PK\x03\x04";
    constexpr uint64_t kWindow = 1 << 20;
    while (range_fits(from, kLocalSize, source_.size())) {
      if (from < window_start_ || from + kMark.size() > window_start_ + window_.size()) {
        window_start_ = from;
        BALLAST_TRY(window_, read_bytes(source_, from, std::min(kWindow, source_.size() - from)));
      }
      const size_t at = as_text(window_).find(kMark, static_cast<size_t>(from - window_start_));
      if (at != std::string_view::npos) return std::optional(window_start_ + at);
      from = window_start_ + window_.size() - (kMark.size() - 1);  // a mark may lie across the border
      if (window_start_ + window_.size() == source_.size()) break;
    }
    return std::optional<uint64_t>();
  }

  // A member that only its local header at `offset` describes.
  Status read_lone_member(uint64_t offset) {
    ZipMember member;
    member.header_offset = offset;
    std::array<std::byte, kLocalSize> fixed;
    if (!range_fits(offset, kLocalSize, source_.size())) return {};
    BALLAST_CHECK(source_.read_at(offset, fixed));
    const size_t name_size = load_le<uint16_t>(fixed.data() + 26);
    const size_t extra_size = load_le<uint16_t>(fixed.data() + 28);
    if (!range_fits(offset, kLocalSize + name_size + extra_size, source_.size())) {
      return findings_.error(
          "local_header", offset, "",
          fmt::format("{}: the header of a member at byte {} runs past the end of the file", source_.name(), offset));
    }
    BALLAST_TRY(const BytesOrView header, BytesOrView::of(source_, offset, kLocalSize + name_size + extra_size));
    const auto flags = load_le<uint16_t>(fixed.data() + 6);
    const auto method = load_le<uint16_t>(fixed.data() + 8);
    const std::string_view stored_name = as_text(header.bytes().subspan(kLocalSize, name_size));
    auto name = decode_zip_name(stored_name, (flags & kFlagUtf8) != 0);
    if (!name) return error("name", offset, std::string(), "its name claims to be UTF-8 and is not");
    member.name = *std::move(name);
    Zip64Values large(header.bytes().subspan(kLocalSize + name_size));
    member.crc32 = load_le<uint32_t>(fixed.data() + 14);
    member.stored_size = load_le<uint32_t>(fixed.data() + 18);
    member.size = load_le<uint32_t>(fixed.data() + 22);
    if (!large.is_sound() || !large.resolve(member.size) || !large.resolve(member.stored_size)) {
      return error("extra_field", offset, member.name, "the extra fields of its header are damaged");
    }
    BALLAST_TRY(const bool readable, check_kind(flags, method, offset, member));
    if (!readable) return {};
    // The sizes stand behind the data, whose end nobody knows.
    if ((flags & kFlagDescriptor) != 0) {
      return error("descriptor", offset, member.name, "its size stands only in the directory, which is gone");
    }
    member.data_offset = offset + header.bytes().size();
    BALLAST_TRY(const bool sound, place_data(flags, header.bytes(), member));
    if (sound) result_.members.push_back(std::move(member));
    return {};
  }

  // False: an error was recorded, and the member cannot be read.
  Result<bool> check_kind(uint16_t flags, uint16_t method, uint64_t offset, ZipMember& member) {
    const auto refuse = [&](std::string code, std::string_view what, ErrorCode as) -> Result<bool> {
      BALLAST_CHECK(error(std::move(code), offset, member.name, what, as));
      return false;
    };
    member.deflated = method == kDeflated;
    if ((flags & kUnreadableFlags) != 0) {
      return refuse("encrypted", "it is encrypted or a patch; only plain members can be read", ErrorCode::kUnsupported);
    }
    if (method != kStored && method != kDeflated) {
      return refuse("method", fmt::format("compression method {} is not handled; store or deflate it instead", method),
                    ErrorCode::kUnsupported);
    }
    if (const auto problem = unsafe_zip_name(member.name); !problem.empty()) {
      return refuse("unsafe_name", problem, ErrorCode::kCorrupt);
    }
    return true;
  }

  Status error(std::string code, uint64_t offset, const std::string& member, std::string_view what,
               ErrorCode as = ErrorCode::kCorrupt) {
    return findings_.error(std::move(code), offset, member,
                           fmt::format("{}: member \"{}\": {}", source_.name(), member, what), as);
  }

  Status read_entries(ByteSpan directory) {
    ByteCursor cursor(directory);
    for (uint64_t i = 0; i < end_.count; ++i) {
      const uint64_t offset = end_.directory_offset + cursor.position();
      const auto entry = take_central_entry(directory, cursor);
      if (!entry) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("{}: entry {} of {} of the zip directory, at byte {}, is damaged", source_.name(),
                                      i + 1, end_.count, offset));
      }
      BALLAST_CHECK(read_entry(*entry, offset));
    }
    if (cursor.at_end()) return {};
    return findings_.error("directory", end_.directory_offset + cursor.position(), "",
                           fmt::format("{}: {} bytes follow the {} entries of the zip directory", source_.name(),
                                       cursor.remaining(), end_.count));
  }

  // Adds the member to the result, or reports why not.
  Status read_entry(const CentralEntry& entry, uint64_t offset) {
    ZipMember member;
    auto name = decode_zip_name(entry.stored_name, (entry.flags & kFlagUtf8) != 0);
    if (!name) {
      return error("name", offset, std::string(), "its name claims to be UTF-8 and is not");
    }
    member.name = *std::move(name);
    const size_t known_before = result_.members.size();
    auto sound = read_member(entry, offset, member);
    if (!sound) return std::move(sound).error();
    if (!*sound) {
      result_.is_numpy_form = false;
      return {};
    }
    if (known_before == 0) result_.style.windows = load_le<uint16_t>(entry.whole.data() + 4) >> 8 == 0;
    if (result_.is_numpy_form) {
      result_.is_numpy_form = as_text(entry.whole) == zip_central_header(member, result_.style);
    }
    result_.members.push_back(std::move(member));
    return {};
  }

  // False: an error was recorded, and the member cannot be used.
  Result<bool> read_member(const CentralEntry& entry, uint64_t offset, ZipMember& member) {
    const auto refuse = [&](std::string code, std::string_view what,
                            ErrorCode as = ErrorCode::kCorrupt) -> Result<bool> {
      BALLAST_CHECK(error(std::move(code), offset, member.name, what, as));
      return false;
    };
    const std::byte* fixed = entry.whole.data();
    member.crc32 = load_le<uint32_t>(fixed + 16);
    member.stored_size = load_le<uint32_t>(fixed + 20);
    member.size = load_le<uint32_t>(fixed + 24);
    member.header_offset = load_le<uint32_t>(fixed + 42);
    Zip64Values large(entry.extra);
    if (!large.is_sound()) return refuse("extra_field", "its extra fields in the zip directory are damaged");
    if (!large.resolve(member.size) || !large.resolve(member.stored_size) || !large.resolve(member.header_offset)) {
      return refuse("zip64", "its size or place should stand in a zip64 field that is not there");
    }
    if (load_le<uint16_t>(fixed + 34) != 0) {
      return refuse("multi_disk", "it stands on another disk of a set", ErrorCode::kUnsupported);
    }
    BALLAST_TRY(const bool readable, check_kind(entry.flags, entry.method, offset, member));
    if (!readable) return false;
    return read_local(entry, member);
  }

  Result<bool> read_local(const CentralEntry& entry, ZipMember& member) {
    const auto refuse = [&](std::string code, std::string_view what) -> Result<bool> {
      BALLAST_CHECK(error(std::move(code), member.header_offset, member.name, what));
      return false;
    };
    const uint64_t limit = end_.directory_offset;
    if (!range_fits(member.header_offset, kLocalSize, limit)) {
      return refuse("range", fmt::format("its header at byte {} lies outside the members, which end at byte {}",
                                         member.header_offset, limit));
    }
    std::array<std::byte, kLocalSize> fixed;
    BALLAST_CHECK(source_.read_at(member.header_offset, fixed));
    const std::byte* at = fixed.data();
    const size_t name_size = load_le<uint16_t>(at + 26);
    const size_t extra_size = load_le<uint16_t>(at + 28);
    const uint64_t header_size = kLocalSize + name_size + extra_size;
    if (load_le<uint32_t>(at) != kLocalSignature) {
      return refuse("local_header", fmt::format("there is no header at byte {}", member.header_offset));
    }
    if (!range_fits(member.header_offset, header_size, limit)) {
      return refuse("local_header", fmt::format("its header of {} bytes runs past the members, which end at byte {}",
                                                header_size, limit));
    }
    BALLAST_TRY(const BytesOrView header, BytesOrView::of(source_, member.header_offset, header_size));
    if (as_text(header.bytes().subspan(kLocalSize, name_size)) != entry.stored_name) {
      return refuse("mismatch", "its own header has another name than the zip directory");
    }
    const auto flags = load_le<uint16_t>(at + 6);
    constexpr uint16_t kMeaningful = kUnreadableFlags | kFlagUtf8 | kFlagDescriptor;
    if (load_le<uint16_t>(at + 8) != entry.method || (flags & kMeaningful) != (entry.flags & kMeaningful)) {
      return refuse("mismatch", "its own header has another method or other flags than the zip directory");
    }
    BALLAST_TRY(const bool sizes_agree, check_local_sizes(header.bytes(), kLocalSize + name_size, flags, member));
    if (!sizes_agree) return false;
    member.data_offset = member.header_offset + header_size;
    return place_data(flags, header.bytes(), member);
  }

  Result<bool> check_local_sizes(ByteSpan header, uint64_t extra_offset, uint16_t flags, const ZipMember& member) {
    const auto refuse = [&](std::string_view what) -> Result<bool> {
      BALLAST_CHECK(error("mismatch", member.header_offset, member.name, what));
      return false;
    };
    Zip64Values large(header.subspan(static_cast<size_t>(extra_offset)));
    if (!large.is_sound()) return refuse("the extra fields of its header are damaged");
    const auto crc = load_le<uint32_t>(header.data() + 14);
    uint64_t stored_size = load_le<uint32_t>(header.data() + 18);
    uint64_t size = load_le<uint32_t>(header.data() + 22);
    if (!large.resolve(size) || !large.resolve(stored_size)) {
      return refuse("its size should stand in a zip64 field that is not there");
    }
    // With a data descriptor the numbers were unknown when the header was written.
    const bool may_be_zero = (flags & kFlagDescriptor) != 0;
    const auto agree = [may_be_zero](uint64_t local, uint64_t central) {
      return local == central || (may_be_zero && local == 0);
    };
    if (agree(size, member.size) && agree(stored_size, member.stored_size) && agree(crc, member.crc32)) return true;
    return refuse(fmt::format("its own header says {} bytes (stored {}, CRC {:08x}), the zip directory {} ({}, {:08x})",
                              size, stored_size, crc, member.size, member.stored_size, member.crc32));
  }

  Result<bool> place_data(uint16_t flags, ByteSpan header, ZipMember& member) {
    const auto refuse = [&](std::string code, std::string_view what) -> Result<bool> {
      BALLAST_CHECK(error(std::move(code), member.data_offset, member.name, what));
      return false;
    };
    if (!range_fits(member.data_offset, member.stored_size, end_.directory_offset)) {
      return refuse("truncated", fmt::format("its {} bytes at byte {} run past the members, which end at byte {}",
                                             member.stored_size, member.data_offset, end_.directory_offset));
    }
    if (!member.deflated && member.stored_size != member.size) {
      return refuse("size",
                    fmt::format("it is not compressed, yet {} bytes stand for {}", member.stored_size, member.size));
    }
    if (member.deflated && member.size / kMaxDeflateRatio > member.stored_size) {
      return refuse("bomb", fmt::format("{} compressed bytes cannot hold {}; deflate reaches at most 1 to {}",
                                        member.stored_size, member.size, kMaxDeflateRatio));
    }
    uint64_t end = member.data_offset + member.stored_size;
    if ((flags & kFlagDescriptor) != 0) {
      BALLAST_TRY(const uint64_t length, descriptor_length(end, member));
      if (length == 0)
        return refuse("descriptor", "the data descriptor behind it is missing or contradicts the zip directory");
      end += length;
    }
    if (result_.is_numpy_form) {
      const uint64_t expected_offset = ends_.empty() ? 0 : ends_.back();
      result_.is_numpy_form = member.header_offset == expected_offset &&
                              as_text(header) == zip_local_header(member, result_.style) &&
                              end == member.data_offset + member.stored_size;
    }
    ends_.push_back(end);
    return true;
  }

  // Length of the data descriptor at `offset`: with or without a signature, with 32- or 64-bit sizes. 0: none agrees.
  Result<uint64_t> descriptor_length(uint64_t offset, const ZipMember& member) {
    std::array<std::byte, 24> bytes{};
    const uint64_t room = std::min<uint64_t>(bytes.size(), end_.directory_offset - offset);
    BALLAST_CHECK(source_.read_at(offset, MutableByteSpan(bytes).first(static_cast<size_t>(room))));
    for (const bool large : {false, true}) {
      for (const bool marked : {true, false}) {
        std::string expected;
        if (marked) append_le<uint32_t>(expected, kDescriptorSignature);
        append_le<uint32_t>(expected, member.crc32);
        for (const uint64_t size : {member.stored_size, member.size}) {
          if (large) append_le<uint64_t>(expected, size);
          else append_le<uint32_t>(expected, static_cast<uint32_t>(size));
        }
        if (expected.size() <= room && as_text(bytes).starts_with(expected)) return expected.size();
      }
    }
    return uint64_t{0};
  }

  std::vector<uint32_t> sorted_positions(PositionOrder less) {
    std::vector<uint32_t> order = all_positions(result_.members.size());
    sort_positions(order, less);
    return order;
  }

  Status check_names() {
    const auto& members = result_.members;
    const auto order = sorted_positions([&](uint32_t a, uint32_t b) { return members[a].name < members[b].name; });
    for (size_t i = 1; i < order.size(); ++i) {
      const ZipMember& twin = members[order[i]];
      if (twin.name != members[order[i - 1]].name) continue;
      BALLAST_CHECK(
          error("duplicate_name", twin.header_offset, twin.name, "the name stands twice in the zip directory"));
    }
    return {};
  }

  // Members that share bytes are how a small file expands without bound, and how one file shows two contents.
  Status check_overlap() {
    const auto& members = result_.members;
    const auto order =
        sorted_positions([&](uint32_t a, uint32_t b) { return members[a].header_offset < members[b].header_offset; });
    uint64_t covered = 0;
    for (const uint32_t index : order) {
      const ZipMember& member = members[index];
      if (member.header_offset < covered) {
        BALLAST_CHECK(error("overlap", member.header_offset, member.name,
                            fmt::format("it begins at byte {}, inside the member before it, which ends at byte {}",
                                        member.header_offset, covered)));
      }
      if (member.header_offset > covered) warn_hole(covered, member.header_offset);
      covered = std::max(covered, ends_[index]);
    }
    if (covered < end_.directory_offset) warn_hole(covered, end_.directory_offset);
    return {};
  }

  void warn_hole(uint64_t from, uint64_t to) {
    result_.is_numpy_form = false;
    findings_.warning("hole", from, "", [&] {
      return fmt::format("{}: {} bytes at byte {} belong to no member", source_.name(), to - from, from);
    });
  }

  Status check_tail_form() {
    if (!result_.is_numpy_form) return {};
    const std::string expected = zip_end_records(end_.count, end_.directory_offset, end_.directory_size);
    if (source_.size() - end_.records_offset != expected.size()) {
      result_.is_numpy_form = false;
      return {};
    }
    BALLAST_TRY(const BytesOrView tail, BytesOrView::of(source_, end_.records_offset, expected.size()));
    result_.is_numpy_form = as_text(tail.bytes()) == expected;
    return {};
  }

  const ByteSource& source_;
  Findings& findings_;
  ZipEnd end_;
  ZipDirectory result_;
  ByteVector window_;  // of a search for headers
  uint64_t window_start_ = 0;
  std::vector<uint64_t> ends_;  // where each member ends, its data descriptor included
};

}  // namespace

bool looks_like_zip(ByteSpan head) {
  const std::string_view text = as_text(head);
  return text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
}

bool for_each_zip_name(const ByteSource& source, const std::function<bool(std::string_view)>& visit) {
  const auto end = find_zip_end(source);
  if (!end) return false;
  const auto directory = BytesOrView::of(source, end->directory_offset, end->directory_size);
  if (!directory) return false;
  ByteCursor cursor(directory->bytes());
  while (const auto entry = take_central_entry(directory->bytes(), cursor)) {
    if (!visit(entry->stored_name)) break;
  }
  return true;
}

std::string_view first_zip_name(ByteSpan head) {
  constexpr size_t kNameLength = 26;
  if (head.size() < kLocalSize) return {};
  return as_text(head).substr(kLocalSize, load_le<uint16_t>(head.data() + kNameLength));
}

Result<ZipDirectory> read_zip_directory(const ByteSource& source, Findings& findings) {
  return DirectoryReader(source, findings).read();
}

}  // namespace ballast
