// Slices of tensors whose type is a block type: which blocks they touch, and which values of those.
#pragma once

#include "ballast/archive/slice.h"

namespace ballast {

// Whether nothing but whole blocks is selected, so that the result can keep the type.
bool selects_whole_blocks(const TensorInfo& tensor, const Selection& selection);

// The shape and the selection with the last axis counted in blocks: all that hold selected elements, and those between.
Shape shape_in_blocks(const TensorInfo& tensor);
Selection selection_in_blocks(const TensorInfo& tensor, const Selection& selection);

// Takes the blocks that selection_in_blocks names, whole ones in every write, and hands on the selected values as f32.
class BlockValueSink final : public ByteSink {
 public:
  BlockValueSink(DType dtype, const AxisSelection& elements, const AxisSelection& blocks, ByteSink& out)
      : dtype_(dtype), elements_(elements.runs), blocks_(blocks.runs), out_(out) {}

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t, ByteSpan) override;
  uint64_t position() const override { return taken_; }

 private:
  struct Cursor {
    size_t run = 0;
    uint64_t step = 0;

    uint64_t place(std::span<const AxisRun> runs) const { return runs[run].begin + step * runs[run].step; }
    bool at_end(std::span<const AxisRun> runs) const { return run == runs.size(); }
    void advance(std::span<const AxisRun> runs);
  };

  void pick(std::span<const float> values);

  DType dtype_;
  std::span<const AxisRun> elements_;  // of a row
  std::span<const AxisRun> blocks_;
  ByteSink& out_;
  Cursor element_;
  Cursor block_;
  ByteVector picked_;
  uint64_t taken_ = 0;
};

}  // namespace ballast
