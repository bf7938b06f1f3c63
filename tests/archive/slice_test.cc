#include "ballast/archive/slice.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/memory_archive.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

// Remembers which bytes were asked for.
class CountingSource final : public ByteSource {
 public:
  CountingSource(ByteVector content, bool viewable)
      : memory_(MemorySource::owning(std::move(content))), viewable_(viewable) {}

  uint64_t size() const override { return memory_->size(); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    note(offset, out.size());
    return memory_->read_at(offset, out);
  }
  std::optional<ByteSpan> view(uint64_t offset, uint64_t length) const override {
    if (!viewable_) return std::nullopt;
    note(offset, length);
    return memory_->view(offset, length);
  }
  const std::string& name() const override { return memory_->name(); }

  mutable uint64_t bytes = 0;
  mutable uint64_t first = UINT64_MAX;
  mutable uint64_t end = 0;
  mutable size_t reads = 0;

 private:
  void note(uint64_t offset, uint64_t length) const {
    ++reads;
    bytes += length;
    first = std::min(first, offset);
    end = std::max(end, offset + length);
  }

  std::shared_ptr<MemorySource> memory_;
  bool viewable_;
};

struct Counted {
  std::shared_ptr<CountingSource> source;
  Archive archive;
};

// One u8 tensor "w" of counting bytes, 100 bytes into the file.
Counted counted(const Shape& shape, bool viewable = false) {
  constexpr uint64_t kStart = 100;
  Description description;
  description.tensors = {make_info("w", DType::kU8, shape)};
  const uint64_t size = description.tensors[0].byte_size;
  auto source = std::make_shared<CountingSource>(counting_bytes(static_cast<size_t>(kStart + size)), viewable);
  return {source, Archive(description, {{.offset = kStart, .length = size}}, {source})};
}

SliceResult read(const Archive& archive, std::string_view slice) {
  const auto parsed = parse_slice(slice);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  auto result = read_slice(archive, 0, parsed ? *parsed : Slice{});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? std::move(*result) : SliceResult{};
}

// The values of a slice of a [4, 6] tensor that holds 0 ... 23.
U8 values_of(std::string_view slice, const Shape& expected_shape) {
  U8 values(24);
  std::iota(values.begin(), values.end(), uint8_t{0});
  const SliceResult result = read(MemoryArchive().add("w", DType::kU8, {4, 6}, values).build(), slice);
  EXPECT_EQ(result.info.shape, expected_shape) << slice << result.info.shape.to_string();
  U8 found;
  for (const std::byte byte : result.payload) found.push_back(std::to_integer<uint8_t>(byte));
  return found;
}

std::string parse_fault(std::string_view text) {
  const auto slice = parse_slice(text);
  EXPECT_FALSE(slice) << text;
  if (slice) return "";
  EXPECT_EQ(slice.error().code, ErrorCode::kInvalidArgument);
  return slice.error().message;
}

Error select_fault(const Shape& shape, std::string_view text) {
  const auto selection = select(make_info("w", DType::kU8, shape), *parse_slice(text));
  EXPECT_FALSE(selection) << text;
  return selection ? Error{} : selection.error();
}

TEST(Slice, TakesWhatNumPyTakes) {
  EXPECT_EQ(values_of("[0]", {6}), (U8{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values_of("[-1, -2]", {}), (U8{22}));
  EXPECT_EQ(values_of("[1:3, 2:4]", {2, 2}), (U8{8, 9, 14, 15}));
  EXPECT_EQ(values_of("[:, 0]", {4}), (U8{0, 6, 12, 18}));
  EXPECT_EQ(values_of("[::2, ::3]", {2, 2}), (U8{0, 3, 12, 15}));
  EXPECT_EQ(values_of("[..., 5]", {4}), (U8{5, 11, 17, 23}));
  EXPECT_EQ(values_of("[3, ...]", {6}), (U8{18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(values_of("[ -2 : , 1 : 2 ]", {2, 1}), (U8{13, 19}));
  EXPECT_EQ(values_of("[1:100, 5]", {3}), (U8{11, 17, 23}));
  EXPECT_EQ(values_of("[-100:1, 0,]", {1}), (U8{0}));
  EXPECT_EQ(values_of("[]", {4, 6}).size(), 24U);
  EXPECT_EQ(values_of("[...]", {4, 6}).size(), 24U);
  EXPECT_EQ(values_of("[2:2]", {0, 6}), U8{});
  EXPECT_EQ(values_of("[3:1, 0]", {0}), U8{});
  EXPECT_EQ(values_of("[1:, 0:6:5]", {3, 2}), (U8{6, 11, 12, 17, 18, 23}));
}

TEST(Slice, OfAScalarIsTheScalar) {
  const Archive archive = MemoryArchive().add("s", DType::kU8, {}, U8{7}).build();
  EXPECT_EQ(read(archive, "[]").payload.size(), 1U);
  EXPECT_EQ(read(archive, "[...]").payload.size(), 1U);
  EXPECT_EQ(select_fault({}, "[0]").code, ErrorCode::kInvalidArgument);
}

TEST(Slice, FaultsNameTheirPlace) {
  EXPECT_NE(parse_fault("[0:4, x]").find("character 7"), std::string::npos);
  EXPECT_NE(parse_fault("[0:4:0]").find("positive"), std::string::npos);
  EXPECT_NE(parse_fault("[::-1]").find("positive"), std::string::npos);
  EXPECT_NE(parse_fault("[..., ...]").find("twice"), std::string::npos);
  EXPECT_NE(parse_fault("[0][1]").find("[0, 1]"), std::string::npos);
  EXPECT_NE(parse_fault("[99999999999999999999]").find("64 bits"), std::string::npos);
  for (const char* text : {"", "[", "[0", "[,]", "0]", "[0 1]", "[0:1:2:3]", "[1.5]", "[a:b]"}) parse_fault(text);
}

TEST(Slice, RefusesAnIndexPastTheEnd) {
  const Error error = select_fault({4, 6}, "[0, 6]");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("index 6 is outside axis 1, which has the length 6"), std::string::npos);
  EXPECT_EQ(select_fault({4, 6}, "[-5]").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(select_fault({0}, "[0]").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(select_fault({4}, "[-9223372036854775808]").code, ErrorCode::kInvalidArgument);
}

TEST(Slice, RefusesMoreAxesThanThereAre) {
  EXPECT_NE(select_fault({4, 6}, "[0, 0, 0]").message.find("has 2 axes, the slice 3"), std::string::npos);
  EXPECT_EQ(select_fault({4}, "[..., 0, 0]").code, ErrorCode::kInvalidArgument);
}

TEST(Slice, OnlyTheRangeIsRead) {
  for (const bool viewable : {false, true}) {
    const Counted rows = counted({1000, 1000}, viewable);
    EXPECT_EQ(read(rows.archive, "[2:4]").payload.size(), 2000U);
    EXPECT_EQ(rows.source->bytes, 2000U);
    EXPECT_EQ(rows.source->first, 2100U);
    EXPECT_EQ(rows.source->end, 4100U);

    const Counted one = counted({1000, 1000}, viewable);
    EXPECT_EQ(read(one.archive, "[500, 7]").payload.size(), 1U);
    EXPECT_EQ(one.source->bytes, 1U);
    EXPECT_EQ(one.source->first, 500'107U);
  }
}

TEST(Slice, NearbyRunsAreReadTogetherAndDistantOnesApart) {
  const Counted near = counted({1000, 1000});
  EXPECT_EQ(read(near.archive, "[0:10, 5]").payload.size(), 10U);
  EXPECT_EQ(near.source->reads, 1U);
  EXPECT_EQ(near.source->bytes, 9001U);
  const Counted far = counted({10, 100'000});
  EXPECT_EQ(read(far.archive, "[:, 5]").payload.size(), 10U);
  EXPECT_EQ(far.source->reads, 10U);
  EXPECT_EQ(far.source->bytes, 10U);
}

TEST(Slice, TheEdgesOfALargeTensorCostLittle) {
  const Counted large = counted({100, 100'000});
  const Selection selection = select(large.archive.tensors()[0], {})->edges(3);
  EXPECT_EQ(selection.shape, (Shape{6, 6}));
  const auto result = read_slice(large.archive, 0, selection);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->payload.size(), 36U);
  EXPECT_LT(large.source->bytes, 100U);
  const ByteVector all = counting_bytes(100 + 100 * 100'000);
  EXPECT_EQ(result->payload[3], all[100 + 99'997]);
  EXPECT_EQ(result->payload[35], all.back());
}

TEST(Slice, AStridedSliceOfManyWindowsIsRight) {
  const Counted large = counted({3000, 1001});
  const SliceResult result = read(large.archive, "[::3, 1::500]");
  ASSERT_EQ(result.info.shape, (Shape{1000, 2}));
  size_t at = 0;
  for (size_t row = 0; row < 3000; row += 3) {
    for (const size_t column : {1U, 501U}) {
      ASSERT_EQ(std::to_integer<unsigned>(result.payload[at++]), (row * 1001 + column + 100 + 1) % 256);
    }
  }
  EXPECT_LT(large.source->reads, 30U);
}

TEST(Slice, ALargeSliceIsStreamedInBoundedMemory) {
  class Swallow final : public ByteSink {
   public:
    Status write(ByteSpan bytes) override {
      taken_ += bytes.size();
      return {};
    }
    Status patch(uint64_t, ByteSpan) override { return {}; }
    uint64_t position() const override { return taken_; }

   private:
    uint64_t taken_ = 0;
  };
  const Counted large = counted({4096, 4096});
  const auto selection = select(large.archive.tensors()[0], *parse_slice("[:, 1:]"));
  Swallow sink;
  const MemoryMeter meter;
  ASSERT_TRUE(stream_slice(large.archive, 0, *selection, sink));
  EXPECT_EQ(sink.position(), 4096U * 4095U);
  EXPECT_LT(meter.peak(), uint64_t{2} << 20);
}

TEST(Slice, TypesOfFourAndSixBitsAreRepacked) {
  // Codes 1 2 3 4 in nibbles, the first in the low bits.
  const Archive four = MemoryArchive().add("w", DType::kF4, {4}, U8{0x21, 0x43}).build();
  EXPECT_EQ(read(four, "[1:3]").payload, (ByteVector{std::byte{0x32}}));
  EXPECT_EQ(read(four, "[1]").payload, (ByteVector{std::byte{0x02}}));
  EXPECT_EQ(read(four, "[::2]").payload, (ByteVector{std::byte{0x31}}));
  // Codes 1, 2, 3, 63 of six bits: 000001 | 000010 << 6 | 000011 << 12 | 111111 << 18.
  const Archive six = MemoryArchive().add("w", DType::kF6E2M3, {4}, U8{0x81, 0x30, 0xFC}).build();
  EXPECT_EQ(read(six, "[1:]").payload, (ByteVector{std::byte{0xC2}, std::byte{0xF0}, std::byte{0x03}}));
}

TEST(Slice, OtherStoredFormsAreMadeCanonicalFirst) {
  const std::vector<uint16_t> values = {0x0102, 0x0304, 0x0506};
  const Archive archive = MemoryArchive().add("w", DType::kU16, {3}, values).make_big_endian().build();
  EXPECT_EQ(read(archive, "[1:]").payload, (ByteVector{std::byte{4}, std::byte{3}, std::byte{6}, std::byte{5}}));
}

TEST(Slice, ElementsWithoutPlacesCannotBeTaken) {
  TensorInfo packed = make_info("q", DType::kQFloat, {4});
  const Archive archive = MemoryArchive().add_bytes(packed, counting_bytes(9)).build();
  const auto result = read_slice(archive, 0, Slice{});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
}

TEST(Slice, OpaqueElementsOfOneSizeCanBeTaken) {
  TensorInfo text = make_info("t", DType::kOpaque, {3});
  const Archive archive = MemoryArchive().add_bytes(text, counting_bytes(6)).build();
  EXPECT_EQ(read(archive, "[1]").payload, (ByteVector{std::byte{3}, std::byte{4}}));
}

TEST(TensorSlice, TheLongestNameThatExistsWins) {
  const Archive archive = MemoryArchive()
                              .add("w", DType::kU8, {2}, U8{1, 2})
                              .add("w[0]", DType::kU8, {2}, U8{3, 4})
                              .add("w[0][1]", DType::kU8, {2}, U8{5, 6})
                              .build();
  const auto found = [&](std::string_view text) {
    const auto slice = find_tensor_slice(archive, text);
    EXPECT_TRUE(slice) << text;
    return slice ? archive.tensors()[slice->tensor].name + " " + slice->text : "";
  };
  EXPECT_EQ(found("w"), "w ");
  EXPECT_EQ(found("w[0]"), "w[0] ");
  EXPECT_EQ(found("w[1]"), "w [1]");
  EXPECT_EQ(found("w[0][1]"), "w[0][1] ");
  EXPECT_EQ(found("w[0][0]"), "w[0] [0]");
  EXPECT_EQ(find_tensor_slice(archive, "v[0]").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_tensor_slice(archive, "w[x]").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_tensor_slice(archive, "[0]").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_tensor_slice(archive, "").error().code, ErrorCode::kNotFound);
}

TEST(TensorSlice, AMistypedNameIsToldTheNearest) {
  const Archive archive = MemoryArchive().add("head.weight", DType::kU8, {2}, U8{1, 2}).build();
  EXPECT_EQ(no_such_tensor(archive, "haed.weight").message,
            "no tensor is called \"haed.weight\"; did you mean \"head.weight\"?");
  EXPECT_EQ(no_such_tensor(archive, "something else").message, "no tensor is called \"something else\"");
  EXPECT_EQ(find_tensor_slice(archive, "haed.weight[0]").error().message,
            no_such_tensor(archive, "haed.weight").message);
}

TEST(TensorSlice, DigitsAreAnIdWhereNoNameFits) {
  const std::string id = base_param_id("w").to_bytes_hex();
  const std::string id_as_name = base_param_id("v").to_bytes_hex();
  const Archive archive = MemoryArchive()
                              .add("w", DType::kU8, {2}, U8{1, 2})
                              .add("v", DType::kU8, {2}, U8{3, 4})
                              .add(id_as_name, DType::kU8, {2}, U8{5, 6})
                              .build();
  const auto whole = find_tensor_slice(archive, id);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->tensor, 0U);
  EXPECT_EQ(whole->text, "");
  const auto part = find_tensor_slice(archive, id + "[1]");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->tensor, 0U);
  EXPECT_EQ(part->text, "[1]");
  EXPECT_EQ(find_tensor_slice(archive, id_as_name)->tensor, 2U);
  EXPECT_EQ(find_tensor_slice(archive, id + "[x]").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_tensor_slice(archive, base_param_id("absent").to_bytes_hex()).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ballast::testing
