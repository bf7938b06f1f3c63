#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/archive.h"
#include "ballast/io/parallel.h"
#include "ballast/training/checkpoints/checkpoint_write.h"

namespace ballast {

namespace {

// Each tensor begins on a line of the cache of its own.
constexpr uint64_t kAlignment = 64;
// Large enough that threads do not fight over work, small enough that one large tensor is shared out.
constexpr size_t kCopyPiece = size_t{4} << 20;

Error bad_snapshot(const TrainingSnapshot& snapshot, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("checkpoint of step {}: {}", snapshot.step, what));
}

Status check_tensors(const TrainingSnapshot& snapshot, const std::vector<SnapshotTensor>& tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const SnapshotTensor& tensor : tensors) {
    const TensorInfo& info = tensor.info;
    if (!is_valid_utf8(info.name)) return bad_snapshot(snapshot, "the name of a tensor is not UTF-8");
    if (tensor.bytes.size() != info.byte_size) {
      return bad_snapshot(snapshot, fmt::format("tensor \"{}\" has {} bytes, its description says {}", info.name,
                                                tensor.bytes.size(), info.byte_size));
    }
    if (has_fixed_size(info.dtype) && packed_size(info.shape, info.dtype) != info.byte_size) {
      return bad_snapshot(snapshot, fmt::format("tensor \"{}\" has {} bytes, which does not fit {} {}", info.name,
                                                info.byte_size, dtype_name(info.dtype), info.shape.to_string()));
    }
    infos.push_back(info);
  }
  const auto duplicates = find_duplicate_names(infos);
  if (duplicates.empty()) return {};
  return bad_snapshot(snapshot, fmt::format("two tensors are called \"{}\"", infos[duplicates.front()].name));
}

Status check_state(const TrainingSnapshot& snapshot) {
  JsonReader json(snapshot.state_json, "its state");
  const auto check = [&]() -> Status {
    BALLAST_TRY(const JsonType type, json.peek());
    if (type != JsonType::kObject) return json.error_here("is no object");
    BALLAST_CHECK(json.skip_value());
    return json.finish();
  };
  if (const Status status = check(); !status) return bad_snapshot(snapshot, status.error().message);
  // What is read back is the value alone.
  if (snapshot.state_json.front() == '{' && snapshot.state_json.back() == '}') return {};
  return bad_snapshot(snapshot, "its state has space around the object, which would not come back");
}

Status check_texts(const TrainingSnapshot& snapshot) {
  if (!is_valid_utf8(snapshot.config_json)) return bad_snapshot(snapshot, "its configuration is not UTF-8");
  if (snapshot.model_config && !is_valid_utf8(snapshot.model_config->text)) {
    return bad_snapshot(snapshot, "its model configuration is not UTF-8");
  }
  std::vector<std::string_view> names;
  for (const auto& [name, value] : snapshot.metrics) {
    if (!is_valid_utf8(name)) return bad_snapshot(snapshot, "the name of a metric is not UTF-8");
    if (std::ranges::find(names, name) != names.end()) {
      return bad_snapshot(snapshot, fmt::format("two metrics are called \"{}\"", name));
    }
    names.push_back(name);
  }
  return {};
}

struct CopyPiece {
  std::byte* to;
  const std::byte* from;
  size_t length;
};

// Assigning into what is there keeps the memory of names and lists.
void describe_copy(const std::vector<SnapshotTensor>& from, std::span<std::byte* const> places,
                   std::vector<SnapshotTensor>& to, std::vector<CopyPiece>& pieces) {
  to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const ByteSpan bytes = from[i].bytes;
    to[i].info = from[i].info;
    to[i].bytes = ByteSpan(places[i], bytes.size());
    for (size_t at = 0; at < bytes.size(); at += kCopyPiece) {
      pieces.push_back({places[i] + at, bytes.data() + at, std::min(kCopyPiece, bytes.size() - at)});
    }
  }
}

}  // namespace

Status check_snapshot(const TrainingSnapshot& snapshot) {
  BALLAST_CHECK(check_tensors(snapshot, snapshot.weights));
  BALLAST_CHECK(check_tensors(snapshot, snapshot.state));
  BALLAST_CHECK(check_state(snapshot));
  return check_texts(snapshot);
}

bool SnapshotCopy::add_block(size_t size) {
  LargeMemory memory = make_large_memory(size);
  if (memory == nullptr) return false;
  blocks_.push_back({std::move(memory), size});
  return true;
}

void SnapshotCopy::reserve(size_t bytes, const std::atomic<bool>& stop) {
  if (!blocks_.empty() || stop || !add_block(bytes)) return;
  const MutableByteSpan memory(blocks_.front().memory.get(), bytes);
  for (size_t at = 0; at < bytes && !stop; at += kCopyPiece) {
    touch_pages(memory.subspan(at, std::min(kCopyPiece, bytes - at)));
  }
}

// One tensor after the other; what a block has no room for goes on in the next.
SnapshotCopy::Layout SnapshotCopy::lay_out(const TrainingSnapshot& snapshot) const {
  Layout layout;
  size_t block = 0;
  size_t offset = 0;
  for (const auto* tensors : {&snapshot.weights, &snapshot.state}) {
    for (const SnapshotTensor& tensor : *tensors) {
      const auto size = static_cast<size_t>(*checked_align_up(tensor.bytes.size(), kAlignment));
      for (; block < blocks_.size() && size > blocks_[block].size - offset; ++block) offset = 0;
      const bool fits = block < blocks_.size();
      layout.places.push_back(fits ? blocks_[block].memory.get() + offset : nullptr);
      if (fits) offset += size;
      else layout.missing += size;
    }
  }
  return layout;
}

Result<SnapshotCopy::Layout> SnapshotCopy::make_room(const TrainingSnapshot& snapshot) {
  Layout layout = lay_out(snapshot);
  if (layout.missing == 0) return layout;
  // A second block spares the first, whose pages are there already. A third would begin to waste memory: instead of it
  // one for everything, once the others are gone, since there may not be room for both. Nor may there be for a second.
  if (blocks_.size() < 2 && add_block(layout.missing)) return lay_out(snapshot);
  blocks_.clear();
  layout = lay_out(snapshot);
  if (add_block(layout.missing)) return lay_out(snapshot);
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("no memory for a copy of {} bytes of a checkpoint", layout.missing));
}

Status SnapshotCopy::take(const TrainingSnapshot& snapshot, unsigned threads) {
  BALLAST_TRY(const Layout layout, make_room(snapshot));
  copy_.step = snapshot.step;
  copy_.state_json = snapshot.state_json;
  copy_.config_json = snapshot.config_json;
  copy_.model_config = snapshot.model_config;
  copy_.metrics = snapshot.metrics;
  const std::span places(layout.places);
  std::vector<CopyPiece> pieces;
  describe_copy(snapshot.weights, places.first(snapshot.weights.size()), copy_.weights, pieces);
  describe_copy(snapshot.state, places.last(snapshot.state.size()), copy_.state, pieces);
  bytes_ = 0;
  for (const CopyPiece& piece : pieces) bytes_ += piece.length;
  return parallel_for(pieces.size(), threads, [&](size_t i) -> Status {
    std::memcpy(pieces[i].to, pieces[i].from, pieces[i].length);
    return {};
  });
}

}  // namespace ballast
