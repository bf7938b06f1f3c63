#include "ballast/archive/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ballast/archive/block_slice.h"
#include "ballast/base/checked.h"
#include "ballast/io/guard.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

// Bytes read and written at a time: whole elements of every type of less than 8 bits.
constexpr uint64_t kWindow = uint64_t{255} << 10;
constexpr uint64_t kGap = uint64_t{4} << 10;  // what is cheaper read than jumped over

// ---------------------------------------------------------------- positions

Result<AxisSelection> select_index(const TensorInfo& tensor, size_t axis, int64_t index) {
  const uint64_t length = tensor.shape[axis];
  const uint64_t back = uint64_t{0} - static_cast<uint64_t>(index);
  const bool inside = index >= 0 ? static_cast<uint64_t>(index) < length : back <= length;
  if (!inside) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("tensor \"{}\": index {} is outside axis {}, which has the length {}; the shape is {}", tensor.name,
                    index, axis, length, tensor.shape.to_string()));
  }
  return AxisSelection{{{index >= 0 ? static_cast<uint64_t>(index) : length - back, 1, 1}}, false};
}

// Python's rule: a negative bound counts from the end, and what is outside is cut off.
uint64_t clamp_bound(int64_t bound, uint64_t length) {
  if (bound >= 0) return std::min(static_cast<uint64_t>(bound), length);
  const uint64_t back = uint64_t{0} - static_cast<uint64_t>(bound);
  return back > length ? 0 : length - back;
}

AxisSelection select_range(const SliceItem& item, uint64_t length) {
  const uint64_t begin = clamp_bound(item.begin.value_or(0), length);
  const uint64_t end = item.end ? clamp_bound(*item.end, length) : length;
  const auto step = static_cast<uint64_t>(item.step);
  const uint64_t count = begin < end ? (end - begin - 1) / step + 1 : 0;
  return {{{begin, step, count}}, true};
}

Error too_many(const TensorInfo& tensor, size_t items) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("tensor \"{}\" has {} axes, the slice {}; the shape is {}", tensor.name,
                                tensor.shape.rank(), items, tensor.shape.to_string()));
}

void settle_shape(Selection& selection) {
  std::vector<uint64_t> dims;
  selection.elements = 1;
  for (const AxisSelection& axis : selection.axes) {
    selection.elements *= axis.count();  // at most the tensor's elements, or a 0 among the factors
    if (axis.kept) dims.push_back(axis.count());
  }
  selection.shape = Shape(dims);
}

AxisSelection without_middle(const AxisSelection& axis, uint64_t edge) {
  const AxisRun& run = axis.runs.front();
  if (!axis.kept || axis.runs.size() != 1 || run.count <= 2 * edge) return axis;
  return {{{run.begin, run.step, edge}, {run.begin + (run.count - edge) * run.step, run.step, edge}}, true};
}

// ---------------------------------------------------------------- reading

uint64_t read_bit_group(const std::byte* from, uint64_t bit, uint64_t bits) {
  uint64_t value = 0;
  for (uint64_t i = 0; i < bits; ++i) {
    const uint64_t at = bit + i;
    value |= static_cast<uint64_t>(std::to_integer<unsigned>(from[at / 8]) >> (at % 8) & 1U) << i;
  }
  return value;
}

// Gathers elements into whole bytes and hands them on in pieces.
class Packer {
 public:
  Packer(uint64_t bits, ByteSink& sink) : bits_(bits), sink_(sink) { buffer_.reserve(kWindow); }

  // `count` neighbouring elements; `bit` is where the first begins in `from`.
  Status add(ByteSpan from, uint64_t bit, uint64_t count) {
    if (bits_ % 8 == 0)
      return add_bytes(from.subspan(static_cast<size_t>(bit / 8), static_cast<size_t>(count * bits_ / 8)));
    for (uint64_t i = 0; i < count; ++i) {
      pending_ |= read_bit_group(from.data(), bit + i * bits_, bits_) << pending_bits_;
      pending_bits_ += bits_;
      if (pending_bits_ >= 8) BALLAST_CHECK(add_pending_byte());
    }
    return {};
  }

  Status finish() {
    if (pending_bits_ != 0) BALLAST_CHECK(add_pending_byte());
    return sink_.write(buffer_);
  }

 private:
  Status add_pending_byte() {
    const auto byte = static_cast<std::byte>(pending_ & 0xFF);
    pending_ >>= 8;
    pending_bits_ = pending_bits_ > 8 ? pending_bits_ - 8 : 0;
    return add_bytes(ByteSpan(&byte, 1));
  }

  Status add_bytes(ByteSpan bytes) {
    if (buffer_.size() + bytes.size() > kWindow) {
      BALLAST_CHECK(sink_.write(buffer_));
      buffer_.clear();
    }
    if (bytes.size() >= kWindow) return sink_.write(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return {};
  }

  uint64_t bits_;
  ByteSink& sink_;
  ByteVector buffer_;
  uint64_t pending_ = 0;
  uint64_t pending_bits_ = 0;
};

// Elements that follow each other in the payload.
struct Run {
  uint64_t first;
  uint64_t count;
};

// Reads runs in ascending order, neighbours together.
class Reader {
 public:
  Reader(const Archive& archive, size_t tensor, uint64_t bits, Packer& packer)
      : archive_(archive), tensor_(tensor), bits_(bits), packer_(packer) {}

  Status begin() {
    if (archive_.extent(tensor_).is_canonical()) return {};
    BALLAST_TRY(Payload payload, archive_.payload(tensor_));
    whole_.emplace(std::move(payload));
    return {};
  }

  Status add(Run run) {
    if (whole_) return packer_.add(whole_->bytes(), run.first * bits_, run.count);
    const uint64_t most = std::max<uint64_t>(kWindow / 2 * 8 / bits_ / 8 * 8, 1);
    while (run.count > 0) {  // no single run larger than the window
      const Run now{run.first, std::min(run.count, most)};
      if (!fits(now)) BALLAST_CHECK(flush());
      waiting_.push_back(now);
      run.first += now.count;
      run.count -= now.count;
    }
    return {};
  }

  Status flush() {
    if (waiting_.empty()) return {};
    const uint64_t begin = first_byte(waiting_.front());
    const uint64_t end = end_byte(waiting_.back());
    const StoredExtent& extent = archive_.extent(tensor_);
    BALLAST_TRY(const BytesOrView bytes,
                BytesOrView::of(*archive_.sources()[extent.source], extent.offset + begin, end - begin));
    for (const Run& run : waiting_) BALLAST_CHECK(packer_.add(bytes.bytes(), run.first * bits_ - begin * 8, run.count));
    waiting_.clear();
    return {};
  }

 private:
  uint64_t first_byte(const Run& run) const { return run.first * bits_ / 8; }
  uint64_t end_byte(const Run& run) const { return ((run.first + run.count) * bits_ + 7) / 8; }

  bool fits(const Run& run) const {
    if (waiting_.empty()) return true;
    const uint64_t end = end_byte(waiting_.back());
    return first_byte(run) < end + kGap && end_byte(run) - first_byte(waiting_.front()) <= kWindow;
  }

  const Archive& archive_;
  size_t tensor_;
  uint64_t bits_;
  Packer& packer_;
  std::optional<Payload> whole_;
  std::vector<Run> waiting_;
};

// Visits the selected elements in order, as the longest runs that the inner axes allow.
class Walk {
 public:
  Walk(const Shape& shape, const Selection& selection) : selection_(selection) {
    strides_.resize(shape.rank());
    uint64_t stride = 1;
    for (size_t axis = shape.rank(); axis-- > 0;) {
      strides_[axis] = stride;
      stride *= shape[axis];
    }
    outer_ = shape.rank();
    while (outer_ > 0 && is_whole(outer_ - 1, shape[outer_ - 1])) inner_ *= shape[--outer_];
  }

  // visit(Run) -> Status
  template <typename Visit>
  Status run(Visit&& visit) {
    if (selection_.elements == 0) return {};
    if (outer_ == 0) return visit(Run{0, inner_});
    places_.assign(outer_, {0, 0});
    while (true) {
      BALLAST_CHECK(visit_last_axis(visit));
      if (!advance()) return {};
    }
  }

 private:
  struct Place {
    size_t run;
    uint64_t step;
  };

  bool is_whole(size_t axis, uint64_t length) const {
    const std::vector<AxisRun>& runs = selection_.axes[axis].runs;
    return runs.size() == 1 && runs.front().step == 1 && runs.front().count == length;
  }

  uint64_t base() const {
    uint64_t first = 0;
    for (size_t axis = 0; axis + 1 < outer_; ++axis) {
      const AxisRun& run = selection_.axes[axis].runs[places_[axis].run];
      first += (run.begin + places_[axis].step * run.step) * strides_[axis];
    }
    return first;
  }

  template <typename Visit>
  Status visit_last_axis(Visit& visit) {
    const uint64_t first = base();
    for (const AxisRun& run : selection_.axes[outer_ - 1].runs) {
      if (run.step == 1) {
        BALLAST_CHECK(visit(Run{first + run.begin * inner_, run.count * inner_}));
        continue;
      }
      for (uint64_t i = 0; i < run.count; ++i) {
        BALLAST_CHECK(visit(Run{first + (run.begin + i * run.step) * inner_, inner_}));
      }
    }
    return {};
  }

  // To the next position of the axes before the last of the outer ones; false after the last.
  bool advance() {
    for (size_t axis = outer_ - 1; axis-- > 0;) {
      const std::vector<AxisRun>& runs = selection_.axes[axis].runs;
      Place& place = places_[axis];
      if (++place.step < runs[place.run].count) return true;
      place.step = 0;
      if (++place.run < runs.size()) return true;
      place.run = 0;
    }
    return false;
  }

  const Selection& selection_;
  std::vector<uint64_t> strides_;  // in elements
  size_t outer_;                   // axes that are walked; those after them are taken whole
  uint64_t inner_ = 1;             // elements of the axes that are taken whole
  std::vector<Place> places_;
};

Status stream_elements(const Archive& archive, size_t tensor, uint64_t bits, const Shape& shape,
                       const Selection& selection, ByteSink& sink) {
  Packer packer(bits, sink);
  Reader reader(archive, tensor, bits, packer);
  BALLAST_CHECK(reader.begin());
  BALLAST_CHECK(Walk(shape, selection).run([&](const Run& run) { return reader.add(run); }));
  BALLAST_CHECK(reader.flush());
  return packer.finish();
}

// Whole blocks are elements of many bits.
Status stream_blocks(const Archive& archive, size_t tensor, const Selection& blocks, ByteSink& sink) {
  const TensorInfo& info = archive.tensors()[tensor];
  const uint64_t bits = uint64_t{dtype_info(info.dtype).block_bytes} * 8;
  return stream_elements(archive, tensor, bits, shape_in_blocks(info), blocks, sink);
}

Status stream_block_values(const Archive& archive, size_t tensor, const Selection& selection, ByteSink& sink) {
  const TensorInfo& info = archive.tensors()[tensor];
  if (!can_dequantize(info.dtype)) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("tensor \"{}\" is {}, a type that can be carried but not computed: only its bytes can "
                    "be taken, in whole blocks of {} elements of the last axis",
                    info.name, dtype_name(info.dtype), dtype_info(info.dtype).block_elements));
  }
  const Selection blocks = selection_in_blocks(info, selection);
  BlockValueSink values(info.dtype, selection.axes.back(), blocks.axes.back(), sink);
  return stream_blocks(archive, tensor, blocks, values);
}

}  // namespace

uint64_t AxisSelection::count() const {
  uint64_t sum = 0;
  for (const AxisRun& run : runs) sum += run.count;
  return sum;
}

Selection Selection::edges(uint64_t edge) const {
  Selection reduced;
  for (const AxisSelection& axis : axes) reduced.axes.push_back(without_middle(axis, edge));
  settle_shape(reduced);
  return reduced;
}

Result<Selection> select(const TensorInfo& tensor, const Slice& slice) {
  const size_t rank = tensor.shape.rank();
  const size_t named =
      slice.size() - static_cast<size_t>(std::ranges::count(slice, SliceItem::Kind::kEllipsis, &SliceItem::kind));
  if (named > rank) return too_many(tensor, named);
  Selection selection;
  const auto take_whole = [&](size_t axes) {
    for (size_t i = 0; i < axes; ++i) {
      selection.axes.push_back(select_range(SliceItem{}, tensor.shape[selection.axes.size()]));
    }
  };
  for (const SliceItem& item : slice) {
    const size_t axis = selection.axes.size();
    switch (item.kind) {
      case SliceItem::Kind::kEllipsis: take_whole(rank - named); break;
      case SliceItem::Kind::kRange: selection.axes.push_back(select_range(item, tensor.shape[axis])); break;
      case SliceItem::Kind::kIndex: {
        BALLAST_TRY(AxisSelection one, select_index(tensor, axis, item.index));
        selection.axes.push_back(std::move(one));
      }
    }
  }
  take_whole(rank - selection.axes.size());
  settle_shape(selection);
  return selection;
}

uint64_t element_bits(const TensorInfo& tensor) {
  if (tensor.dtype != DType::kOpaque) return dtype_info(tensor.dtype).bits;
  const uint64_t elements = tensor.shape.element_count().value_or(0);
  return elements != 0 && tensor.byte_size % elements == 0 ? tensor.byte_size / elements * 8 : 0;
}

DType slice_dtype(const TensorInfo& tensor, const Selection& selection) {
  return is_block(tensor.dtype) && !selects_whole_blocks(tensor, selection) ? DType::kF32 : tensor.dtype;
}

Status stream_slice(const Archive& archive, size_t tensor, const Selection& selection, ByteSink& sink) {
  return guarded([&]() -> Status {
    const TensorInfo& info = archive.tensors()[tensor];
    if (selection.elements == 0) return {};
    if (is_block(info.dtype)) {
      if (!selects_whole_blocks(info, selection)) return stream_block_values(archive, tensor, selection, sink);
      return stream_blocks(archive, tensor, selection_in_blocks(info, selection), sink);
    }
    const uint64_t bits = element_bits(info);
    if (bits == 0) {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("tensor \"{}\" is {}: its values are packed in blocks and cannot be taken one by one", info.name,
                      info.type_name()));
    }
    return stream_elements(archive, tensor, bits, info.shape, selection, sink);
  });
}

Status stream_slice_values(const Archive& archive, size_t tensor, const Selection& selection, ByteSink& sink) {
  if (!is_block(archive.tensors()[tensor].dtype)) return stream_slice(archive, tensor, selection, sink);
  return guarded([&]() -> Status {
    if (selection.elements == 0) return {};
    return stream_block_values(archive, tensor, selection, sink);
  });
}

Result<SliceResult> read_slice(const Archive& archive, size_t tensor, const Selection& selection) {
  return guarded([&]() -> Result<SliceResult> {
    MemorySink sink;
    BALLAST_CHECK(stream_slice(archive, tensor, selection, sink));
    SliceResult result{archive.tensors()[tensor], sink.take()};
    result.info.dtype = slice_dtype(result.info, selection);
    result.info.shape = selection.shape;
    result.info.byte_size = result.payload.size();
    return result;
  });
}

Result<SliceResult> read_slice(const Archive& archive, size_t tensor, const Slice& slice) {
  BALLAST_TRY(const Selection selection, select(archive.tensors()[tensor], slice));
  return read_slice(archive, tensor, selection);
}

}  // namespace ballast
