#include "ballast/archive/stats.h"

#include <algorithm>
#include <mutex>

#include "ballast/archive/memory_gate.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

constexpr uint64_t kStatsChunk = uint64_t{2} << 20;

// Part of a tensor. Which part does not depend on the number of threads, and so neither do the sums.
struct Chunk {
  size_t position;  // among the tensors asked for
  uint64_t begin;
  uint64_t size;
};

class ArchiveMeasurement {
 public:
  ArchiveMeasurement(const Archive& archive, std::span<const size_t> tensors, const StatsOptions& options)
      : archive_(archive), tensors_(tensors), options_(options), work_(tensors.size()) {}

  Result<ArchiveStatistics> run() {
    result_.tensors.resize(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) cut(i);
    moments_.resize(chunks_.size());
    uint64_t total = 0;
    for (const Chunk& chunk : chunks_) total += chunk.size;
    SharedProgress progress(options_.progress, "measuring", total);
    BALLAST_CHECK(progress.add(0));
    BALLAST_CHECK(
        parallel_for(chunks_.size(), options_.threads, [&](size_t i) -> Status { return measure_chunk(i, progress); }));
    BALLAST_CHECK(progress.add(0));
    for (const TensorStatistics& tensor : result_.tensors) result_.total.statistics.merge(tensor.statistics);
    result_.total.measured = true;
    result_.total.histogram = all_values_.to_histogram(result_.total.statistics, options_.total_bins);
    return std::move(result_);
  }

 private:
  // A tensor while its chunks are being measured. Only a few are at any time, as chunks start in order.
  struct Work {
    size_t first_chunk = 0;
    size_t chunks = 0;
    size_t done = 0;
    ValueCounts values;
  };

  const TensorInfo& info(size_t position) const { return archive_.tensors()[tensors_[position]]; }
  const StoredExtent& extent(size_t position) const { return archive_.extent(tensors_[position]); }

  static uint64_t piece_size(DType dtype) {
    const uint64_t unit = element_unit(dtype).bytes;
    return kStatsChunk / unit * unit;
  }

  void cut(size_t position) {
    const TensorInfo& tensor = info(position);
    result_.tensors[position].measured = is_arithmetic(tensor.dtype);
    if (!result_.tensors[position].measured || tensor.byte_size == 0) return;
    Work& work = work_[position];
    work.first_chunk = chunks_.size();
    const uint64_t size = extent(position).is_canonical() ? piece_size(tensor.dtype) : tensor.byte_size;
    for (uint64_t begin = 0; begin < tensor.byte_size; begin += size) {
      chunks_.push_back({position, begin, std::min(size, tensor.byte_size - begin)});
    }
    work.chunks = chunks_.size() - work.first_chunk;
  }

  Status measure_chunk(size_t index, SharedProgress& progress) {
    const Chunk& chunk = chunks_[index];
    Measured measured;
    if (extent(chunk.position).is_canonical()) {
      const StoredExtent& stored = extent(chunk.position);
      BALLAST_TRY(const Payload bytes,
                  Payload::of(*archive_.sources()[stored.source], stored.offset + chunk.begin, chunk.size));
      measured = measure(info(chunk.position).dtype, bytes.bytes());
    } else {
      const MemoryGate::Pass pass(gate_, chunk.size);
      BALLAST_TRY(const Payload bytes, archive_.payload(tensors_[chunk.position]));
      measured = measure_in_pieces(info(chunk.position).dtype, bytes.bytes());
    }
    moments_[index] = measured.statistics;
    add_values(chunk.position, measured.values);
    return progress.add(chunk.size);
  }

  static Measured measure_in_pieces(DType dtype, ByteSpan bytes) {
    const auto piece = static_cast<size_t>(piece_size(dtype));
    Measured measured;
    for (size_t begin = 0; begin < bytes.size(); begin += piece) {
      measured.merge(measure(dtype, bytes.subspan(begin, std::min(piece, bytes.size() - begin))));
    }
    return measured;
  }

  // Counts are whole numbers, so they may be added in any order; moments wait until all are there.
  void add_values(size_t position, const ValueCounts& values) {
    const std::lock_guard lock(mutex_);
    Work& work = work_[position];
    work.values.merge(values);
    if (++work.done != work.chunks) return;
    TensorStatistics& tensor = result_.tensors[position];
    for (size_t i = 0; i < work.chunks; ++i) tensor.statistics.merge(moments_[work.first_chunk + i]);
    tensor.histogram = work.values.to_histogram(tensor.statistics, options_.bins);
    all_values_.merge(work.values);
    work.values = ValueCounts();
  }

  const Archive& archive_;
  std::span<const size_t> tensors_;
  const StatsOptions& options_;
  std::vector<Chunk> chunks_;
  std::vector<Statistics> moments_;  // per chunk
  MemoryGate gate_;
  std::mutex mutex_;  // guards work_, result_ and all_values_ while threads run
  std::vector<Work> work_;
  ArchiveStatistics result_;
  ValueCounts all_values_;
};

}  // namespace

Result<ArchiveStatistics> measure_archive(const Archive& archive, std::span<const size_t> tensors,
                                          const StatsOptions& options) {
  return guarded([&] { return ArchiveMeasurement(archive, tensors, options).run(); });
}

}  // namespace ballast
