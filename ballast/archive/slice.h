// Part of a tensor, chosen as NumPy does ("[0:4, ..., -1]"), reading only the bytes it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/archive.h"

namespace ballast {

// One item between the brackets.
struct SliceItem {
  enum class Kind : uint8_t { kIndex, kRange, kEllipsis };
  Kind kind = Kind::kRange;
  int64_t index = 0;             // kIndex; negative counts from the end
  std::optional<int64_t> begin;  // kRange
  std::optional<int64_t> end;
  int64_t step = 1;
};
using Slice = std::vector<SliceItem>;

// "[0:4, :]", "[-1]", "[..., ::2]" or "[]"; steps are positive.
Result<Slice> parse_slice(std::string_view text);

struct TensorSlice {
  size_t tensor;
  Slice slice;
  std::string text;  // what followed the name: "[0:4, :]", or empty
};

// "NAME" or "NAME[...]". Names may hold brackets themselves: the longest name that the archive has wins. Where no name
// fits, 32 hexadecimal digits are the id of one (Archive::find). kNotFound when there is none.
Result<TensorSlice> find_tensor_slice(const Archive& archive, std::string_view text);

// kNotFound: no tensor of the archive has this name. The text names the nearest that one has.
Error no_such_tensor(const Archive& archive, std::string_view name);

// Positions along one axis.
struct AxisRun {
  uint64_t begin;
  uint64_t step;
  uint64_t count;
};
struct AxisSelection {
  std::vector<AxisRun> runs;  // ascending
  bool kept = true;           // false: one index, which takes the axis away

  uint64_t count() const;
};

// A slice applied to the shape of a tensor.
struct Selection {
  std::vector<AxisSelection> axes;  // one per axis of the tensor
  Shape shape;                      // of the result
  uint64_t elements = 0;

  // The same without the middle of every kept axis that is longer than 2 * edge: what a summary shows.
  Selection edges(uint64_t edge) const;
};

// kInvalidArgument, with the axis and its length, for an index that is not there; ranges are cut to the axis instead.
Result<Selection> select(const TensorInfo& tensor, const Slice& slice);

// Bits of one element; 0 where elements have no places of their own (quantized values).
uint64_t element_bits(const TensorInfo& tensor);

// The type of what stream_slice gives: the tensor's, but for block types f32 where the slice cuts a block.
DType slice_dtype(const TensorInfo& tensor, const Selection& selection);

// Draws the selected elements in row-major order, packed, into `sink`, whole elements in every write; those of 4 and 6
// bits end with zero bits where they do not fill the last byte. Only the ranges that hold selected elements are read,
// together with gaps of less than 4 KiB between them; payloads that are compressed, big-endian or in Fortran order are
// read whole. Memory: a few MiB, or the whole payload for those. kUnsupported where elements have no places of their
// own, and where a block is cut whose values cannot be computed.
Status stream_slice(const Archive& archive, size_t tensor, const Selection& selection, ByteSink& sink);
// The same as numbers: of block types always f32.
Status stream_slice_values(const Archive& archive, size_t tensor, const Selection& selection, ByteSink& sink);

struct SliceResult {
  TensorInfo info;  // name and scheme of the tensor; dtype, shape and size of the slice
  ByteVector payload;
};
Result<SliceResult> read_slice(const Archive& archive, size_t tensor, const Selection& selection);
Result<SliceResult> read_slice(const Archive& archive, size_t tensor, const Slice& slice);

}  // namespace ballast
