#include "ballast/edit/importance_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "ballast/archive/open.h"

namespace ballast {

namespace {

constexpr std::string_view kTypeKey = "general.type";
constexpr std::string_view kTypeValue = "imatrix";
constexpr std::string_view kDatasetsKey = "imatrix.datasets";
constexpr std::string_view kChunksKey = "imatrix.chunk_count";
constexpr std::string_view kChunkTokensKey = "imatrix.chunk_size";
constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

template <typename T>
void add_floats(WritePlan& plan, std::string name, const Shape& shape, const std::vector<T>& values) {
  ByteVector bytes(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    store_le<uint32_t>(&bytes[i * sizeof(float)], std::bit_cast<uint32_t>(static_cast<float>(values[i])));
  }
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = DType::kF32;
  info.shape = shape;
  info.byte_size = bytes.size();
  plan.add_tensor(std::move(info), [bytes = std::move(bytes)](ByteSink& sink) { return sink.write(bytes); });
}

Error no_importance(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} is no importance matrix: {}", path, why)};
}

// The values of a tensor of finite numbers that are not negative.
Result<std::vector<float>> read_floats(const Archive& archive, size_t index) {
  const TensorInfo& info = archive.description().tensors[index];
  if (info.dtype != DType::kF32) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\" is {}, not f32", info.name, dtype_name(info.dtype)));
  }
  BALLAST_TRY(const Payload payload, archive.payload(index));
  const ByteSpan bytes = payload.bytes();
  std::vector<float> values(bytes.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(load_le<uint32_t>(&bytes[i * sizeof(float)]));
    if (std::isfinite(values[i]) && values[i] >= 0) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": element {} is {}", info.name, i, values[i]));
  }
  return values;
}

Result<WeightImportance> read_entry(const Archive& archive, size_t sums, size_t counts) {
  const TensorInfo& info = archive.description().tensors[sums];
  if (info.shape.rank() < 1 || info.shape.rank() > 2) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\" {} is no row and no matrix", info.name, info.shape.to_string()));
  }
  WeightImportance entry;
  entry.inputs = info.shape[info.shape.rank() - 1];
  BALLAST_TRY(const std::vector<float> sum_values, read_floats(archive, sums));
  BALLAST_TRY(const std::vector<float> count_values, read_floats(archive, counts));
  entry.square_sums.assign(sum_values.begin(), sum_values.end());
  for (const float count : count_values) entry.rows.push_back(static_cast<uint64_t>(std::min(count, 1e18F)));
  if (!entry.rows.empty() && entry.square_sums.size() == entry.inputs * entry.rows.size()) return entry;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\" {} has {} counts", info.name,
                                                             info.shape.to_string(), entry.rows.size()));
}

}  // namespace

Status write_importance(const std::string& path, const ImportanceMatrix& matrix, const ImportanceFileInfo& info,
                        const WriteSettings& settings) {
  WritePlan plan;
  const std::vector<std::string_view> datasets(info.datasets.begin(), info.datasets.end());
  plan.description.metadata = {{std::string(kTypeKey), std::string(kTypeValue)},
                               {std::string(kDatasetsKey), MetaArray::of_texts(datasets)},
                               {std::string(kChunksKey), info.chunks},
                               {std::string(kChunkTokensKey), info.chunk_tokens}};
  for (const auto& [name, entry] : matrix) {
    add_floats(plan, name + std::string(kSums), {entry.matrices(), entry.inputs}, entry.square_sums);
    add_floats(plan, name + std::string(kCounts), {entry.matrices(), 1}, entry.rows);
  }
  BALLAST_TRY([[maybe_unused]] const WriteReport report, write_archive(path, *find_format("gguf"), plan, settings));
  return {};
}

Result<ImportanceMatrix> read_importance(const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(path, {FileAccess::kPositional}));
  const std::vector<TensorInfo>& tensors = archive.description().tensors;
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) places.emplace(tensors[i].name, i);
  ImportanceMatrix matrix;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string name = tensors[i].name;
    if (!name.ends_with(kSums)) continue;
    name.resize(name.size() - kSums.size());
    const std::string counts_name = name + std::string(kCounts);
    const auto counts = places.find(counts_name);
    if (counts == places.end()) return no_importance(path, fmt::format("it has no \"{}\"", counts_name));
    auto entry = read_entry(archive, i, counts->second);
    if (!entry) return std::move(entry).error().with_context(path);
    matrix.emplace(std::move(name), *std::move(entry));
  }
  if (matrix.empty()) return no_importance(path, "no tensor is called NAME.in_sum2 (llama.cpp's GGUF form is read)");
  return matrix;
}

}  // namespace ballast
