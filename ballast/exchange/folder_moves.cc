// Carries out what folder_tensors.cc planned. Nothing is drawn before the plan is written; then a head's rows, a
// transposed matrix or a piece of a tensor is in memory at a time.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/edit/batch_norm.h"
#include "ballast/edit/tensor_stream.h"
#include "ballast/edit/transpose.h"
#include "ballast/exchange/folder_tensors.h"

namespace ballast {

namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Bytes [offset, offset + size) of a tensor.
TensorProvider part_of(const Archive& archive, size_t tensor, uint64_t offset, uint64_t size) {
  return [&archive, tensor, offset, size](ByteSink& sink) -> Status {
    ByteVector piece(static_cast<size_t>(std::min(size, kPieceBytes)));
    for (uint64_t at = 0; at < size; at += piece.size()) {
      const auto length = static_cast<size_t>(std::min<uint64_t>(piece.size(), size - at));
      BALLAST_CHECK(archive.read_range(tensor, offset + at, MutableByteSpan(piece).first(length)));
      BALLAST_CHECK(sink.write(ByteSpan(piece).first(length)));
    }
    return {};
  };
}

// Where a channel of each head comes from: GGUF has pairs of channels that turn together side by side.
std::vector<uint64_t> halves_from_pairs(uint64_t head_rows) {
  std::vector<uint64_t> order;
  for (uint64_t half = 0; half < 2; ++half) {
    for (uint64_t i = half; i < head_rows; i += 2) order.push_back(i);
  }
  return order;
}

class Moves {
 public:
  Moves(const Archive& archive, const FolderTensors& tensors, WritePlan& plan)
      : archive_(archive), tensors_(tensors), plan_(plan) {
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) by_name_[plan.description.tensors[i].name] = i;
  }

  Status run() {
    std::vector<PlannedTensor> made;
    for (const FolderMove& move : tensors_.moves) {
      BALLAST_TRY(PlannedTensor tensor, make(move));
      made.push_back(std::move(tensor));
    }
    std::ranges::sort(made, {}, [](const PlannedTensor& tensor) -> std::string_view { return tensor.info.name; });
    Description& description = plan_.description;
    description.tensors.clear();
    plan_.providers.clear();
    plan_.ties.clear();
    for (PlannedTensor& tensor : made) plan_.add_tensor(std::move(tensor.info), std::move(tensor.provider));
    // What the metadata says is in the companions; without this entry transformers 4 refuses a file with any.
    description.metadata = {{"format", std::string("pt")}};
    description.config.reset();
    description.stored_form.clear();
    return {};
  }

 private:
  Result<size_t> position(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return found->second;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\" was left out, but a Hugging Face folder needs it", name));
  }

  Result<PlannedTensor> make(const FolderMove& move) const {
    BALLAST_TRY(PlannedTensor tensor, take(move));
    const uint64_t rows = std::max<uint64_t>(move.shape[0], 1);
    if (move.head_rows != 0) {
      tensor.provider =
          reordered_rows(std::move(tensor.provider), tensor.info.byte_size / rows, halves_from_pairs(move.head_rows));
    }
    if (move.less_one) BALLAST_CHECK(take_one_off(tensor));
    if (move.transposed) return turn(std::move(tensor));
    return tensor;
  }

  // The rows that the move asks for.
  Result<PlannedTensor> take(const FolderMove& move) const {
    std::vector<TensorProvider> providers;
    uint64_t bytes = 0;
    PlannedTensor tensor;
    for (const std::string& name : move.from) {
      BALLAST_TRY(const size_t at, position(name));
      if (providers.empty()) tensor.info = plan_.description.tensors[at];
      bytes += plan_.description.tensors[at].byte_size;
      providers.push_back(plan_.providers[at]);
    }
    const auto size = packed_size(move.shape, tensor.info.dtype);
    if (!size || *size > bytes) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("tensor \"{}\" cannot become {} {} called \"{}\"", tensor.info.name,
                                    dtype_name(tensor.info.dtype), move.shape.to_string(), move.to));
    }
    tensor.provider = providers.size() == 1 ? providers.front() : joined(std::move(providers));
    if (*size < bytes) {
      const uint64_t offset = *size / std::max<uint64_t>(move.shape[0], 1) * move.first_row;
      tensor.provider = cut(move.from.front(), tensor, bytes, offset, *size);
    }
    tensor.info.name = move.to;
    tensor.info.shape = move.shape;
    tensor.info.byte_size = *size;
    tensor.info.twin = 0;
    tensor.info.set_stored_form({});
    return tensor;
  }

  // Straight from the archive where nothing happened to the tensor yet: a stack of experts is read once, not once for
  // each of them.
  TensorProvider cut(const std::string& name, const PlannedTensor& tensor, uint64_t bytes, uint64_t offset,
                     uint64_t size) const {
    const auto stored = archive_.find(name);
    const bool untouched = stored && archive_.tensors()[*stored].dtype == tensor.info.dtype &&
                           archive_.tensors()[*stored].byte_size == bytes;
    if (untouched) return part_of(archive_, *stored, offset, size);
    return row_ranges(tensor.provider, bytes, offset, offset + size);
  }

  static Status take_one_off(PlannedTensor& tensor) {
    if (tensor.info.dtype != DType::kF32) {
      return make_error(ErrorCode::kUnsupported, fmt::format("norm \"{}\" is {}, not f32: one cannot be taken off it",
                                                             tensor.info.name, dtype_name(tensor.info.dtype)));
    }
    tensor.provider = changed_values(std::move(tensor.provider), []() -> Result<ChangeValue> {
      return ChangeValue([](float value, uint64_t) { return value - 1.0F; });
    });
    return {};
  }

  Result<PlannedTensor> turn(PlannedTensor tensor) const {
    if (!can_transpose(tensor.info)) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("tensor \"{}\" is {}: it must be dequantised before it can be transposed",
                                    tensor.info.name, dtype_name(tensor.info.dtype)));
    }
    const uint64_t rows = tensor.info.shape[0], columns = tensor.info.shape[1];
    tensor.info.shape = Shape{columns, rows};
    tensor.provider =
        transposed(std::move(tensor.provider), rows, columns, dtype_info(tensor.info.dtype).bits / 8, gate_);
    return tensor;
  }

  const Archive& archive_;
  const FolderTensors& tensors_;
  WritePlan& plan_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::shared_ptr<MemoryGate> gate_ = std::make_shared<MemoryGate>();
};

}  // namespace

PlanEdit move_tensors(const Archive& archive, FolderTensors tensors) {
  return [&archive, tensors = std::move(tensors)](WritePlan& plan, std::vector<std::string>&) -> Status {
    return Moves(archive, tensors, plan).run();
  };
}

}  // namespace ballast
