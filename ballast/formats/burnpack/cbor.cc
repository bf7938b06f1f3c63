#include "ballast/formats/burnpack/cbor.h"

#include <fmt/format.h>

#include <bit>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/tensor/small_float.h"

namespace ballast {

namespace {

constexpr std::byte kBreak{0xff};
constexpr uint8_t kFalse = 20;
constexpr uint8_t kTrue = 21;
constexpr uint8_t kNull = 22;
constexpr uint8_t kOneByteSimple = 24;
constexpr uint8_t kHalf = 25;
constexpr uint8_t kSingle = 26;
constexpr uint8_t kDouble = 27;
constexpr uint8_t kIndefinite = 31;

uint64_t load_be(const std::byte* from, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value = value << 8 | std::to_integer<uint64_t>(from[i]);
  return value;
}

// The smallest number that may be spelled with one more byte, two more, four more, eight more.
uint64_t least_of_width(size_t width) { return width == 1 ? 24 : uint64_t{1} << (4 * width); }

uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

std::string_view type_name(uint8_t major) {
  static constexpr std::string_view kNames[] = {"a number", "a negative number", "bytes", "text", "an array", "a map",
                                                "a tag",    "a simple value"};
  return kNames[major];
}

}  // namespace

// ---------------------------------------------------------------- reading

CborReader::CborReader(ByteSpan bytes, std::string where, uint64_t base_offset)
    : bytes_(bytes), where_(std::move(where)), base_offset_(base_offset) {}

Error CborReader::error_here(std::string_view what, ErrorCode code) const {
  return make_error(code, fmt::format("{}: byte {}: {}", where_, offset(), what));
}

ByteSpan CborReader::since(uint64_t offset) const {
  const auto from = static_cast<size_t>(offset - base_offset_);
  return bytes_.subspan(from, position_ - from);
}

void CborReader::note_oddity(size_t position, std::string_view what) {
  if (!oddity_) oddity_ = CborOddity{base_offset_ + position, what};
}

bool CborReader::at_break() const { return remaining() > 0 && bytes_[position_] == kBreak; }

Result<CborReader::Head> CborReader::parse_head() {
  if (remaining() == 0) return error_here("the data ends where a value should begin");
  const size_t start = position_;
  const auto first = std::to_integer<uint8_t>(bytes_[position_]);
  Head head{static_cast<uint8_t>(first >> 5), static_cast<uint8_t>(first & 31), 0, false};
  if (head.info < kOneByteSimple) {
    head.value = head.info;
    ++position_;
    return head;
  }
  if (head.info == kIndefinite) {
    const bool allowed = head.major >= kBytesMajor && head.major <= kMapMajor;
    if (!allowed) return error_here("a break where a value should begin");
    head.indefinite = true;
    note_oddity(start, "an indefinite length");
    ++position_;
    return head;
  }
  if (head.info > kDouble) return error_here(fmt::format("byte 0x{:02x} begins no CBOR value", first));
  const size_t width = size_t{1} << (head.info - kOneByteSimple);
  if (remaining() - 1 < width) return error_here("the data ends inside a number");
  head.value = load_be(bytes_.data() + position_ + 1, width);
  if (head.major != kSimpleMajor && head.value < least_of_width(width))
    note_oddity(start, "a number longer than needed");
  if (head.major == kSimpleMajor && width == 1 && head.value < 32) return error_here("a malformed simple value");
  position_ += 1 + width;
  return head;
}

// The way of nearly every item: no tag before it, the kind that is wanted, as short as can be. False, and nothing is
// consumed, for anything else, be it odd or wrong.
bool CborReader::take_plain_head(uint8_t major, Head& head) {
  if (remaining() == 0) return false;
  const auto first = std::to_integer<uint8_t>(bytes_[position_]);
  head = {major, static_cast<uint8_t>(first & 31), static_cast<uint64_t>(first & 31), false};
  if (first >> 5 != major || head.info > kDouble) return false;
  size_t width = 0;
  if (head.info >= kOneByteSimple) {
    width = size_t{1} << (head.info - kOneByteSimple);
    if (remaining() - 1 < width) return false;
    head.value = load_be(bytes_.data() + position_ + 1, width);
    if (head.value < least_of_width(width)) return false;
  }
  if (!frames_.empty()) {
    Frame& top = frames_.back();
    if (!top.indefinite && top.left == 0) return false;
    if (!top.indefinite) --top.left;
    top.odd = !top.odd;
  }
  position_ += 1 + width;
  return true;
}

Status CborReader::skip_tags() {
  while (remaining() > 0 && std::to_integer<uint8_t>(bytes_[position_]) >> 5 == kTagMajor) {
    note_oddity(position_, "a tag");
    BALLAST_CHECK(parse_head());
  }
  return {};
}

Result<CborReader::Head> CborReader::take_head() {
  BALLAST_CHECK(skip_tags());
  BALLAST_TRY(const Head head, parse_head());
  if (!frames_.empty()) {
    Frame& top = frames_.back();
    if (!top.indefinite && top.left == 0) return error_here("the container has no further item");
    if (!top.indefinite) --top.left;
    top.odd = !top.odd;
  }
  return head;
}

Result<CborReader::Head> CborReader::take_head_of(uint8_t major, std::string_view what) {
  BALLAST_CHECK(skip_tags());
  if (remaining() > 0) {
    const auto found = static_cast<uint8_t>(std::to_integer<uint8_t>(bytes_[position_]) >> 5);
    if (found != major) return error_here(fmt::format("{} where {} should stand", type_name(found), what));
  }
  return take_head();
}

Result<CborType> CborReader::peek() {
  if (remaining() > 0) {
    const auto first = std::to_integer<uint8_t>(bytes_[position_]);
    if (first >> 5 < kTagMajor && (first & 31) < kOneByteSimple) return static_cast<CborType>(first >> 5);
  }
  BALLAST_CHECK(skip_tags());
  const size_t start = position_;
  BALLAST_TRY(const Head head, parse_head());
  position_ = start;
  if (head.major < kTagMajor) return static_cast<CborType>(head.major);
  if (head.info == kFalse || head.info == kTrue) return CborType::kBool;
  if (head.info == kNull) return CborType::kNull;
  return head.info >= kHalf ? CborType::kFloat : CborType::kOther;
}

Status CborReader::push(const Head& head) {
  if (frames_.size() == kMaxDepth) {
    return error_here(fmt::format("containers stand inside each other more than {} deep", kMaxDepth));
  }
  const bool map = head.major == kMapMajor;
  // Every item takes a byte at least, so a count beyond that is a lie, and twice a count cannot overflow.
  if (!head.indefinite && head.value > remaining() / (map ? 2 : 1)) {
    return error_here(fmt::format("{} claims {} {}, but only {} bytes follow", type_name(head.major), head.value,
                                  map ? "entries" : "items", remaining()));
  }
  frames_.push_back({map ? head.value * 2 : head.value, head.indefinite, map, false});
  return {};
}

Status CborReader::enter(uint8_t major) {
  if (Head plain; take_plain_head(major, plain)) return push(plain);
  BALLAST_TRY(const Head head, take_head_of(major, type_name(major)));
  return push(head);
}

Result<bool> CborReader::next_or_end() {
  const Frame& top = frames_.back();
  if (top.indefinite) {
    if (!at_break()) return true;
    if (top.map && top.odd) return error_here("a map ends between a key and its value");
    ++position_;
  }
  frames_.pop_back();
  return false;
}

Status CborReader::enter_variant() {
  BALLAST_CHECK(enter_map());
  BALLAST_TRY(const bool more, next());
  if (!more) return error_here("an empty map where a variant should stand");
  return {};
}

Status CborReader::leave_variant() {
  BALLAST_TRY(const bool more, next());
  if (more) return error_here("a variant with more than one entry");
  return {};
}

std::optional<uint64_t> CborReader::claimed_entries() const {
  const Frame& top = frames_.back();
  if (top.indefinite) return std::nullopt;
  return top.map ? top.left / 2 : top.left;
}

Result<uint64_t> CborReader::count_ahead() const {
  CborReader ahead(*this);
  const bool map = frames_.back().map;
  uint64_t count = 0;
  for (;; ++count) {
    BALLAST_TRY(const bool more, ahead.next());
    if (!more) return count;
    BALLAST_CHECK(ahead.skip_value());
    if (map) BALLAST_CHECK(ahead.skip_value());
  }
}

Result<uint64_t> CborReader::read_u64() {
  if (Head head; take_plain_head(kUnsignedMajor, head)) return head.value;
  BALLAST_TRY(const Head head, take_head_of(kUnsignedMajor, "a number of 0 or more"));
  return head.value;
}

Result<int64_t> CborReader::read_i64() {
  BALLAST_TRY(const CborType type, peek());
  const bool negative = type == CborType::kNegative;
  BALLAST_TRY(const Head head, take_head_of(negative ? kNegativeMajor : kUnsignedMajor, "a whole number"));
  if (head.value > static_cast<uint64_t>(INT64_MAX))
    return error_here("a number that does not fit 64 bits with a sign");
  const auto value = static_cast<int64_t>(head.value);
  return negative ? -1 - value : value;
}

Result<double> CborReader::read_double() {
  BALLAST_TRY(const CborType type, peek());
  if (type != CborType::kFloat) return error_here("something else where a floating-point number should stand");
  BALLAST_TRY(const Head head, take_head());
  if (head.info == kHalf) return F16::decode(static_cast<uint16_t>(head.value));
  if (head.info == kSingle) return std::bit_cast<float>(static_cast<uint32_t>(head.value));
  return std::bit_cast<double>(head.value);
}

Result<bool> CborReader::read_bool() {
  BALLAST_TRY(const CborType type, peek());
  if (type != CborType::kBool) return error_here("something else where true or false should stand");
  BALLAST_TRY(const Head head, take_head());
  return head.info == kTrue;
}

Status CborReader::read_null() {
  BALLAST_TRY(const CborType type, peek());
  if (type != CborType::kNull) return error_here("something else where null should stand");
  BALLAST_CHECK(take_head());
  return {};
}

Result<ByteSpan> CborReader::take_piece(const Head& head) {
  if (head.value > remaining()) {
    return error_here(
        fmt::format("{} claims {} bytes, but only {} follow", type_name(head.major), head.value, remaining()));
  }
  const ByteSpan piece = bytes_.subspan(position_, static_cast<size_t>(head.value));
  if (head.major == kTextMajor && !is_valid_utf8(as_text(piece))) return error_here("text that is not UTF-8");
  position_ += piece.size();
  return piece;
}

Result<ByteSpan> CborReader::take_string(const Head& head) {
  if (!head.indefinite) return take_piece(head);
  joined_.clear();
  while (!at_break()) {
    BALLAST_TRY(const Head piece_head, parse_head());
    if (piece_head.major != head.major || piece_head.indefinite) return error_here("a piece of another kind");
    BALLAST_TRY(const ByteSpan piece, take_piece(piece_head));
    joined_ += as_text(piece);
  }
  ++position_;
  return as_bytes(joined_);
}

Result<std::string_view> CborReader::read_text() {
  if (Head plain; take_plain_head(kTextMajor, plain)) {
    BALLAST_TRY(const ByteSpan bytes, take_piece(plain));
    return as_text(bytes);
  }
  BALLAST_TRY(const Head head, take_head_of(kTextMajor, type_name(kTextMajor)));
  BALLAST_TRY(const ByteSpan bytes, take_string(head));
  return as_text(bytes);
}

Result<ByteSpan> CborReader::read_bytes() {
  BALLAST_TRY(const Head head, take_head_of(kBytesMajor, type_name(kBytesMajor)));
  return take_string(head);
}

Status CborReader::skip_item() {
  BALLAST_TRY(const Head head, take_head());
  if (head.major == kArrayMajor || head.major == kMapMajor) return push(head);
  if (head.major == kBytesMajor || head.major == kTextMajor) BALLAST_CHECK(take_string(head));
  return {};
}

Status CborReader::skip_value() {
  const size_t depth = frames_.size();
  BALLAST_CHECK(skip_item());
  while (frames_.size() > depth) {
    BALLAST_TRY(const bool more, next());
    if (more) BALLAST_CHECK(skip_item());
  }
  return {};
}

// ---------------------------------------------------------------- writing

void CborWriter::append(uint8_t first, uint64_t value, size_t width) {
  out_ += static_cast<char>(first);
  while (width-- > 0) out_ += static_cast<char>(value >> (8 * width) & 0xff);
}

CborWriter& CborWriter::head(uint8_t major, uint64_t value) {
  const auto first = static_cast<uint8_t>(major << 5);
  if (value < kOneByteSimple) {
    append(static_cast<uint8_t>(first | value), 0, 0);
    return *this;
  }
  uint8_t info = kDouble;
  while (info > kOneByteSimple && value < least_of_width(size_t{1} << (info - kOneByteSimple))) --info;
  append(static_cast<uint8_t>(first | info), value, size_t{1} << (info - kOneByteSimple));
  return *this;
}

CborWriter& CborWriter::signed_number(int64_t value) {
  return value < 0 ? head(1, static_cast<uint64_t>(-1 - value)) : head(0, static_cast<uint64_t>(value));
}

CborWriter& CborWriter::text(std::string_view text) {
  head(3, text.size());
  out_ += text;
  return *this;
}

CborWriter& CborWriter::real(double value) {
  constexpr uint8_t kFirst = 7 << 5;
  const uint16_t half = F16::encode(value);
  const auto single = static_cast<float>(value);
  // Compared by bits, so that -0 and the payloads of NaNs count.
  if (bits_of(F16::decode(half)) == bits_of(value)) append(kFirst | kHalf, half, 2);
  else if (bits_of(single) == bits_of(value)) append(kFirst | kSingle, std::bit_cast<uint32_t>(single), 4);
  else append(kFirst | kDouble, bits_of(value), 8);
  return *this;
}

CborWriter& CborWriter::boolean(bool value) {
  append(static_cast<uint8_t>(7 << 5 | (value ? kTrue : kFalse)), 0, 0);
  return *this;
}

CborWriter& CborWriter::null() {
  append(7 << 5 | kNull, 0, 0);
  return *this;
}

}  // namespace ballast
