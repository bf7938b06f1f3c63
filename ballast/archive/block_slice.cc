#include "ballast/archive/block_slice.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ballast/tensor/blocks.h"

namespace ballast {

bool selects_whole_blocks(const TensorInfo& tensor, const Selection& selection) {
  const uint64_t size = dtype_info(tensor.dtype).block_elements;
  const AxisSelection& last = selection.axes.back();
  return last.kept && std::ranges::all_of(last.runs, [size](const AxisRun& run) {
           return run.step == 1 && run.begin % size == 0 && run.count % size == 0;
         });
}

Shape shape_in_blocks(const TensorInfo& tensor) {
  std::vector<uint64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  dims.back() /= dtype_info(tensor.dtype).block_elements;
  return Shape(dims);
}

Selection selection_in_blocks(const TensorInfo& tensor, const Selection& selection) {
  const uint64_t size = dtype_info(tensor.dtype).block_elements;
  Selection blocks = selection;
  AxisSelection& last = blocks.axes.back();
  last.runs.clear();
  uint64_t reached = 0;  // two runs may end and begin in the same block
  for (const AxisRun& run : selection.axes.back().runs) {
    if (run.count == 0) continue;
    const uint64_t begin = std::max(reached, run.begin / size);
    const uint64_t end = (run.begin + (run.count - 1) * run.step) / size + 1;
    if (begin >= end) continue;
    last.runs.push_back({begin, 1, end - begin});
    reached = end;
  }
  blocks.elements = 1;
  for (const AxisSelection& axis : blocks.axes) blocks.elements *= axis.count();
  return blocks;
}

void BlockValueSink::Cursor::advance(std::span<const AxisRun> runs) {
  if (++step < runs[run].count) return;
  step = 0;
  do ++run;
  while (run < runs.size() && runs[run].count == 0);
}

// The selected ones of the values of the block that the cursor stands at.
void BlockValueSink::pick(std::span<const float> values) {
  const uint64_t begin = block_.place(blocks_) * values.size();
  while (!element_.at_end(elements_) && element_.place(elements_) < begin + values.size()) {
    std::byte stored[sizeof(float)];
    store_le(stored, std::bit_cast<uint32_t>(values[static_cast<size_t>(element_.place(elements_) - begin)]));
    picked_.insert(picked_.end(), stored, stored + sizeof(float));
    element_.advance(elements_);
  }
  block_.advance(blocks_);
  if (!block_.at_end(blocks_)) return;
  block_ = {};
  element_ = {};
}

Status BlockValueSink::write(ByteSpan bytes) {
  const DTypeInfo& type = dtype_info(dtype_);
  taken_ += bytes.size();
  constexpr size_t kLargest = 256;
  std::array<float, kLargest> values;
  for (size_t at = 0; at < bytes.size(); at += type.block_bytes) {
    dequantize_blocks(dtype_, bytes.subspan(at, type.block_bytes), values);
    pick(std::span(values).first(type.block_elements));
  }
  BALLAST_CHECK(out_.write(picked_));
  picked_.clear();
  return {};
}

Status BlockValueSink::patch(uint64_t, ByteSpan) {
  return make_error(ErrorCode::kInvalidArgument, "values have no past");
}

}  // namespace ballast
