#include <numeric>

#include "ballast/archive/stats.h"
#include "bindings/c/archive_object.h"
#include "bindings/c/reports.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_statistics> {
  using Object = ArchiveStatistics;
  static constexpr HandleKind kKind = HandleKind::kStatistics;
  static constexpr const char* kName = "list of statistics";
};

namespace {

// A histogram of more would not fit a screen of any size, nor what was counted.
constexpr size_t kMostBins = 4096;

// All where none are named.
Result<std::vector<size_t>> given_tensors(const Archive& archive, const size_t* tensors, size_t count) {
  const size_t known = archive.tensors().size();
  if (tensors == nullptr && count == 0) {
    std::vector<size_t> all(known);
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  BALLAST_CHECK(need(tensors, "the pointer to the tensors"));
  std::vector<size_t> chosen(tensors, tensors + count);
  for (const size_t index : chosen) {
    if (index >= known) {
      return make_error(ErrorCode::kInvalidArgument, "there is no tensor " + std::to_string(index) + ": there are " +
                                                         std::to_string(known) + ", and they number from 0");
    }
  }
  return chosen;
}

ballast_tensor_statistics statistics_of(const TensorStatistics& measured) {
  ballast_tensor_statistics told = {};
  if (!measured.measured) return told;
  const Statistics& numbers = measured.statistics;
  told.measured = true;
  told.count = numbers.count;
  told.zeros = numbers.zeros;
  told.denormals = numbers.denormals;
  told.nan = numbers.nan;
  told.positive_infinity = numbers.positive_infinity;
  told.negative_infinity = numbers.negative_infinity;
  told.min = numbers.min;
  told.max = numbers.max;
  told.mean = numbers.mean;
  told.std = numbers.std();
  told.histogram_low = measured.histogram.low;
  told.histogram_high = measured.histogram.high;
  told.below = measured.histogram.below;
  told.above = measured.histogram.above;
  told.histogram = measured.histogram.counts.data();
  told.bins = measured.histogram.counts.size();
  return told;
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_archive_statistics(const ballast_archive* archive, const size_t* tensors, size_t count,
                                          size_t bins, const ballast_work_options* options, ballast_statistics** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_TRY(const std::vector<size_t> chosen, given_tensors(object->archive, tensors, count));
    BALLAST_TRY(StatsOptions stats, work_options<StatsOptions>(options));
    if (bins > kMostBins) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a histogram of " + std::to_string(bins) + " bins; it can have " + std::to_string(kMostBins));
    }
    if (bins != 0) stats.bins = stats.total_bins = bins;
    BALLAST_TRY(ArchiveStatistics measured, measure_archive(object->archive, chosen, stats));
    *out = hand_out<ballast_statistics>(std::make_shared<ArchiveStatistics>(std::move(measured)));
    return {};
  });
}
size_t ballast_statistics_count(const ballast_statistics* statistics) {
  return ask(statistics, size_t{0}, [](const ArchiveStatistics& measured) { return measured.tensors.size(); });
}
ballast_error* ballast_statistics_get(const ballast_statistics* statistics, size_t index,
                                      ballast_tensor_statistics* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto measured, use(statistics));
    BALLAST_TRY(const TensorStatistics* tensor, item_at(measured->tensors, index));
    return give(statistics_of(*tensor), out);
  });
}
ballast_error* ballast_statistics_total(const ballast_statistics* statistics, ballast_tensor_statistics* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto measured, use(statistics));
    return give(statistics_of(measured->total), out);
  });
}
void ballast_statistics_close(ballast_statistics* statistics) { drop(statistics); }

}  // extern "C"
