#include "ballast/formats/meta_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr int kDeepestArray = 16;
constexpr uint64_t kTextHead = 8;    // the length
constexpr uint64_t kArrayHead = 12;  // type and count

struct MetaTypeRow {
  std::string_view name;
  size_t size;
};
constexpr std::array<MetaTypeRow, kMetaTypes> kMetaTypeRows = {{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"text", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

template <std::unsigned_integral T>
T load_in(ByteOrder order, const std::byte* from) {
  const T value = load_le<T>(from);
  return order == ByteOrder::kBig ? byte_swapped(value) : value;
}

Error cut_array(std::string_view what, uint64_t announced, uint64_t left) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{} {} are announced, but only {} bytes follow", announced, what, left));
}

// Goes once through the elements of an array, checks that they are there, and, where asked to, writes them down in the
// other byte order.
class ArrayWalk {
 public:
  ArrayWalk(ByteSpan bytes, ByteOrder order, ByteVector* swapped) : cursor_(bytes), order_(order), swapped_(swapped) {}

  uint64_t used() const { return cursor_.position(); }

  Status walk(MetaType element, uint64_t count, int depth = 0) {
    if (element == MetaType::kText) return walk_texts(count);
    if (element == MetaType::kArray) return walk_arrays(count, depth);
    const size_t size = meta_type_size(element);
    const auto bytes = checked_mul(count, size);
    const auto taken = bytes ? cursor_.take_bytes(*bytes) : std::nullopt;
    if (!taken)
      return cut_array(fmt::format("elements of type {}", meta_type_name(element)), count, cursor_.remaining());
    for (size_t at = 0; swapped_ != nullptr && at < taken->size(); at += size) {
      const ByteSpan one = taken->subspan(at, size);
      swapped_->insert(swapped_->end(), one.rbegin(), one.rend());
    }
    return {};
  }

 private:
  template <std::unsigned_integral T>
  std::optional<T> take() {
    const auto bytes = cursor_.take_bytes(sizeof(T));
    if (!bytes) return std::nullopt;
    if (swapped_ != nullptr) swapped_->insert(swapped_->end(), bytes->rbegin(), bytes->rend());
    return load_in<T>(order_, bytes->data());
  }

  Status walk_texts(uint64_t count) {
    if (count > cursor_.remaining() / kTextHead) return cut_array("texts", count, cursor_.remaining());
    for (uint64_t i = 0; i < count; ++i) {
      const auto length = take<uint64_t>();
      const auto text = length ? cursor_.take_bytes(*length) : std::nullopt;
      if (!text) {
        return make_error(ErrorCode::kCorrupt, fmt::format("text {} of {} claims {} bytes, but only {} follow", i,
                                                           count, length.value_or(0), cursor_.remaining()));
      }
      if (swapped_ != nullptr) swapped_->insert(swapped_->end(), text->begin(), text->end());
    }
    return {};
  }

  Status walk_arrays(uint64_t count, int depth) {
    if (depth == kDeepestArray) {
      return make_error(ErrorCode::kCorrupt, fmt::format("arrays stand in arrays more than {} deep", kDeepestArray));
    }
    if (count > cursor_.remaining() / kArrayHead) return cut_array("arrays", count, cursor_.remaining());
    for (uint64_t i = 0; i < count; ++i) {
      const auto type = take<uint32_t>();
      const auto length = take<uint64_t>();
      if (!type || !length) return cut_array("arrays", count, cursor_.remaining());
      if (*type >= kMetaTypes) {
        return make_error(ErrorCode::kCorrupt,
                          fmt::format("an array of values of type {}, which does not exist", *type));
      }
      BALLAST_CHECK(walk(static_cast<MetaType>(*type), *length, depth + 1));
    }
    return {};
  }

  ByteCursor cursor_;
  ByteOrder order_;
  ByteVector* swapped_;
};

template <typename T>
ByteVector encode_values(std::span<const T> values) {
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint32_t>;
  ByteVector bytes(values.size_bytes());
  for (size_t i = 0; i < values.size(); ++i) store_le(bytes.data() + i * sizeof(T), std::bit_cast<Bits>(values[i]));
  return bytes;
}

template <std::unsigned_integral T>
void append_number(ByteVector& out, T value) {
  out.resize(out.size() + sizeof(T));
  store_le(out.data() + out.size() - sizeof(T), value);
}

bool is_integer(MetaType type) { return meta_type_size(type) != 0 && type != MetaType::kF32 && type != MetaType::kF64; }

int64_t load_integer(MetaType type, const std::byte* at) {
  switch (type) {
    case MetaType::kU8: return load_le<uint8_t>(at);
    case MetaType::kI8: return static_cast<int8_t>(load_le<uint8_t>(at));
    case MetaType::kU16: return load_le<uint16_t>(at);
    case MetaType::kI16: return static_cast<int16_t>(load_le<uint16_t>(at));
    case MetaType::kU32: return load_le<uint32_t>(at);
    case MetaType::kI32: return static_cast<int32_t>(load_le<uint32_t>(at));
    case MetaType::kBool: return load_le<uint8_t>(at) != 0 ? 1 : 0;
    default: return static_cast<int64_t>(load_le<uint64_t>(at));
  }
}

double load_number(MetaType type, const std::byte* at) {
  if (type == MetaType::kF32) return std::bit_cast<float>(load_le<uint32_t>(at));
  if (type == MetaType::kF64) return std::bit_cast<double>(load_le<uint64_t>(at));
  if (type == MetaType::kU64) return static_cast<double>(load_le<uint64_t>(at));
  return static_cast<double>(load_integer(type, at));
}

std::string number_text(MetaType type, const std::byte* at) {
  if (type == MetaType::kF32) return fmt::format("{}", std::bit_cast<float>(load_le<uint32_t>(at)));
  if (type == MetaType::kF64) return fmt::format("{}", std::bit_cast<double>(load_le<uint64_t>(at)));
  if (type == MetaType::kU64) return fmt::format("{}", load_le<uint64_t>(at));
  if (type == MetaType::kBool) return load_integer(type, at) != 0 ? "true" : "false";
  return fmt::format("{}", load_integer(type, at));
}

// Of a valid array, the text or array at the front of `cursor`.
std::string_view next_text(ByteCursor& cursor) { return as_text(*cursor.take_bytes(*cursor.take_le<uint64_t>())); }

}  // namespace

std::string_view meta_type_name(MetaType type) { return kMetaTypeRows[static_cast<size_t>(type)].name; }

std::optional<MetaType> parse_meta_type(std::string_view name) {
  const auto found = std::ranges::find(kMetaTypeRows, name, &MetaTypeRow::name);
  if (found == kMetaTypeRows.end()) return std::nullopt;
  return static_cast<MetaType>(found - kMetaTypeRows.begin());
}

size_t meta_type_size(MetaType type) { return kMetaTypeRows[static_cast<size_t>(type)].size; }

MetaArray::MetaArray(MetaType element, uint64_t count, ByteVector bytes)
    : element_(element), count_(count), owner_(std::make_shared<const ByteVector>(std::move(bytes))), bytes_(*owner_) {}

Result<MetaArray> MetaArray::decode(MetaType element, uint64_t count, ByteSpan encoded) {
  uint64_t used = 0;
  BALLAST_TRY(MetaArray array, take(element, count, encoded, ByteOrder::kLittle, used));
  if (used == encoded.size()) return array;
  return make_error(ErrorCode::kCorrupt, fmt::format("{} bytes follow the last element", encoded.size() - used));
}

Result<MetaArray> MetaArray::take(MetaType element, uint64_t count, ByteSpan bytes, ByteOrder order, uint64_t& used) {
  ByteVector swapped;
  ArrayWalk walk(bytes, order, order == ByteOrder::kBig ? &swapped : nullptr);
  BALLAST_CHECK(walk.walk(element, count));
  used = walk.used();
  if (order == ByteOrder::kBig) return MetaArray(element, count, std::move(swapped));
  const ByteSpan taken = bytes.first(static_cast<size_t>(used));
  return MetaArray(element, count, ByteVector(taken.begin(), taken.end()));
}

MetaArray MetaArray::of_texts(std::span<const std::string_view> texts) {
  ByteVector bytes;
  for (const std::string_view text : texts) {
    append_number<uint64_t>(bytes, text.size());
    bytes.insert(bytes.end(), as_bytes(text).begin(), as_bytes(text).end());
  }
  return {MetaType::kText, texts.size(), std::move(bytes)};
}

MetaArray MetaArray::of_arrays(std::span<const MetaArray> arrays) {
  ByteVector bytes;
  for (const MetaArray& array : arrays) {
    append_number(bytes, static_cast<uint32_t>(array.element()));
    append_number(bytes, array.size());
    bytes.insert(bytes.end(), array.bytes_.begin(), array.bytes_.end());
  }
  return {MetaType::kArray, arrays.size(), std::move(bytes)};
}

MetaArray MetaArray::of(std::span<const uint8_t> values) {
  return {MetaType::kU8, values.size(), encode_values(values)};
}

MetaArray MetaArray::of(std::span<const uint32_t> values) {
  return {MetaType::kU32, values.size(), encode_values(values)};
}

MetaArray MetaArray::of(std::span<const int32_t> values) {
  return {MetaType::kI32, values.size(), encode_values(values)};
}

MetaArray MetaArray::of(std::span<const float> values) {
  return {MetaType::kF32, values.size(), encode_values(values)};
}

std::string MetaArray::encoded_as(ByteOrder order) const {
  if (order == ByteOrder::kLittle) return std::string(as_text(bytes_));
  ByteVector swapped;
  // It was walked when it was made, so that this cannot fail.
  static_cast<void>(ArrayWalk(bytes_, ByteOrder::kLittle, &swapped).walk(element_, count_));
  return std::string(as_text(swapped));
}

std::vector<std::string_view> MetaArray::texts() const {
  std::vector<std::string_view> texts;
  if (element_ != MetaType::kText) return texts;
  texts.reserve(static_cast<size_t>(count_));
  ByteCursor cursor(bytes_);
  while (!cursor.at_end()) texts.push_back(next_text(cursor));
  return texts;
}

std::vector<int64_t> MetaArray::integers() const {
  std::vector<int64_t> integers;
  if (!is_integer(element_)) return integers;
  integers.reserve(static_cast<size_t>(count_));
  const size_t size = meta_type_size(element_);
  for (size_t at = 0; at < bytes_.size(); at += size) integers.push_back(load_integer(element_, &bytes_[at]));
  return integers;
}

std::vector<double> MetaArray::numbers() const {
  std::vector<double> numbers;
  const size_t size = meta_type_size(element_);
  if (size == 0) return numbers;
  numbers.reserve(static_cast<size_t>(count_));
  for (size_t at = 0; at < bytes_.size(); at += size) numbers.push_back(load_number(element_, &bytes_[at]));
  return numbers;
}

std::vector<MetaArray> MetaArray::arrays() const {
  std::vector<MetaArray> arrays;
  if (element_ != MetaType::kArray) return arrays;
  ByteCursor cursor(bytes_);
  while (!cursor.at_end()) {
    const auto type = static_cast<MetaType>(*cursor.take_le<uint32_t>());
    const uint64_t count = *cursor.take_le<uint64_t>();
    const ByteSpan rest = bytes_.subspan(cursor.position());
    ArrayWalk walk(rest, ByteOrder::kLittle, nullptr);
    static_cast<void>(walk.walk(type, count));
    const ByteSpan own = *cursor.take_bytes(walk.used());
    arrays.push_back(MetaArray(type, count, owner_, own));
  }
  return arrays;
}

std::string MetaArray::to_text(size_t most) const {
  std::string out = fmt::format("[{} {}{}]", count_, meta_type_name(element_), count_ == 1 ? "" : "s");
  const size_t shown = static_cast<size_t>(std::min<uint64_t>(count_, most));
  const std::vector<MetaArray> inner = shown != 0 ? arrays() : std::vector<MetaArray>();
  ByteCursor cursor(bytes_);
  for (size_t i = 0; i < shown; ++i) {
    out += i == 0 ? " " : ", ";
    if (element_ == MetaType::kText) out += fmt::format("\"{}\"", next_text(cursor));
    else if (element_ == MetaType::kArray) out += inner[i].to_text(most);
    else out += number_text(element_, cursor.take_bytes(meta_type_size(element_))->data());
  }
  if (shown < count_) out += shown == 0 ? " …" : ", …";
  return out;
}

bool operator==(const MetaArray& a, const MetaArray& b) {
  return a.element_ == b.element_ && a.count_ == b.count_ && std::ranges::equal(a.bytes_, b.bytes_);
}

}  // namespace ballast
