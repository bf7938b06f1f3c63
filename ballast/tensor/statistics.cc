#include "ballast/tensor/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ballast/tensor/blocks.h"
#include "ballast/tensor/element.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

constexpr size_t kStatisticsBlock =
    2048;  // numbers looked at twice (moments, then counts) while they are in the nearest cache

// Vectors of 16 bytes, which every machine has or the compiler takes apart; the order of additions is then part of the
// code and not of the machine.
using Doubles = double __attribute__((vector_size(16)));
template <typename Number>
struct Vector;
template <>
struct Vector<float> {
  using Numbers = float __attribute__((vector_size(16)));
  using Half = float __attribute__((vector_size(8)));
  using Integers = int32_t __attribute__((vector_size(16)));
};
template <>
struct Vector<double> {
  using Numbers = Doubles;
  using Integers = int64_t __attribute__((vector_size(16)));
};

template <typename Loaded>
Loaded load(const void* from) {
  Loaded loaded;
  std::memcpy(&loaded, from, sizeof(loaded));
  return loaded;
}

double sum_of(const Doubles& a, const Doubles& b) { return (a[0] + a[1]) + (b[0] + b[1]); }

// Moments of finite numbers, around a value near their mean, so that one pass is enough and nothing cancels.
template <typename Number>
class Block {
 public:
  using Numbers = typename Vector<Number>::Numbers;
  using Integers = typename Vector<Number>::Integers;
  using Layout = IeeeLayout<Number>;
  using Signed = std::make_signed_t<typename Layout::Bits>;
  static constexpr size_t kWidth = sizeof(Numbers) / sizeof(Number);

  Block(const Number* numbers, size_t count, double center, Number min_normal)
      : numbers_(numbers), count_(count), center_(center), min_normal_(std::bit_cast<Signed>(min_normal)) {}

  Statistics measure() {
    // All of it in local variables, which the compiler can keep in registers.
    Sums sums;
    Numbers low = Numbers{} + numbers_[0];
    Numbers high = low;
    Integers zeros{};
    Integers small{};
    const size_t whole = count_ / kWidth * kWidth;
    for (size_t i = 0; i < whole; i += kWidth) {
      const Numbers now = load<Numbers>(numbers_ + i);
      sums.add(numbers_ + i, center_);
      low = now < low ? now : low;
      high = now > high ? now : high;
      const Integers magnitude = magnitudes(numbers_ + i);
      zeros -= magnitude == 0;  // a true comparison is -1
      small -= magnitude < min_normal_;
    }
    low_ = high_ = numbers_[0];
    for (size_t k = 0; k < kWidth; ++k) {
      low_ = std::min(low_, low[k]);
      high_ = std::max(high_, high[k]);
      zeros_ += static_cast<uint64_t>(zeros[k]);
      small_ += static_cast<uint64_t>(small[k]);
    }
    for (size_t i = whole; i < count_; ++i) add_one(numbers_[i], sums);
    return finish(sums);
  }

  static bool all_finite(const Number* numbers, size_t count) {
    constexpr auto kInfinity = static_cast<Signed>(Layout::kInfinity);
    Integers bad{};
    const size_t whole = count / kWidth * kWidth;
    for (size_t i = 0; i < whole; i += kWidth) bad |= magnitudes(numbers + i) >= kInfinity;
    bool finite = true;
    for (size_t k = 0; k < kWidth; ++k) finite = finite && bad[k] == 0;
    for (size_t i = whole; i < count; ++i) finite = finite && std::isfinite(numbers[i]);
    return finite;
  }

 private:
  struct Sums {
    Doubles sums{};
    Doubles more_sums{};
    Doubles squares{};
    Doubles more_squares{};

    void add(const Number* from, double center) {
      if constexpr (std::is_same_v<Number, float>) {
        using Half = typename Vector<float>::Half;
        const Doubles first = __builtin_convertvector(load<Half>(from), Doubles) - center;
        const Doubles second = __builtin_convertvector(load<Half>(from + 2), Doubles) - center;
        sums += first;
        more_sums += second;
        squares += first * first;
        more_squares += second * second;
      } else {
        const Doubles deviations = load<Doubles>(from) - center;
        sums += deviations;
        squares += deviations * deviations;
      }
    }
  };

  static Integers magnitudes(const Number* from) { return load<Integers>(from) & static_cast<Signed>(~Layout::kSign); }

  void add_one(Number number, Sums& sums) {
    const double deviation = static_cast<double>(number) - center_;
    sums.sums[0] += deviation;
    sums.squares[0] += deviation * deviation;
    low_ = std::min(low_, number);
    high_ = std::max(high_, number);
    const auto magnitude = std::bit_cast<Signed>(number) & static_cast<Signed>(~Layout::kSign);
    zeros_ += magnitude == 0 ? 1 : 0;
    small_ += magnitude < min_normal_ ? 1 : 0;
  }

  Statistics finish(const Sums& sums) const {
    const auto count = static_cast<double>(count_);
    const double sum = sum_of(sums.sums, sums.more_sums);
    const double squares = sum_of(sums.squares, sums.more_squares);
    Statistics result;
    result.count = count_;
    result.zeros = zeros_;
    result.denormals = small_ > zeros_ ? small_ - zeros_ : 0;
    result.min = static_cast<double>(low_);
    result.max = static_cast<double>(high_);
    result.mean = low_ == high_ ? static_cast<double>(low_) : center_ + sum / count;
    result.squared_deviations = low_ == high_ ? 0 : std::max(0.0, squares - sum * sum / count);
    return result;
  }

  const Number* numbers_;
  size_t count_;
  double center_;
  Signed min_normal_;
  Number low_{};
  Number high_{};
  uint64_t zeros_ = 0;
  uint64_t small_ = 0;
};

template <typename Number>
double mean_of(const Number* numbers, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(numbers[i]) / static_cast<double>(count);
  return sum;
}

}  // namespace

// ---------------------------------------------------------------- statistics

double Statistics::std() const {
  return finite() == 0 ? std::numeric_limits<double>::quiet_NaN()
                       : std::sqrt(squared_deviations / static_cast<double>(finite()));
}

double Statistics::abs_max() const { return std::max(std::abs(min), std::abs(max)); }

// Chan, Golub and LeVeque's way to join the moments of two sets.
void Statistics::merge(const Statistics& other) {
  const auto ours = static_cast<double>(finite());
  const auto theirs = static_cast<double>(other.finite());
  if (other.finite() != 0) {
    if (finite() == 0) {
      min = other.min;
      max = other.max;
      mean = other.mean;
      squared_deviations = other.squared_deviations;
    } else {
      const double apart = other.mean - mean;
      const double share = theirs / (ours + theirs);
      min = std::min(min, other.min);
      max = std::max(max, other.max);
      mean = min == max ? min : mean + apart * share;
      squared_deviations += other.squared_deviations + apart * apart * ours * share;
    }
  }
  count += other.count;
  zeros += other.zeros;
  denormals += other.denormals;
  nan += other.nan;
  positive_infinity += other.positive_infinity;
  negative_infinity += other.negative_infinity;
}

// ---------------------------------------------------------------- values

namespace {

// A step is a float without its lowest bits: sign, exponent and five bits of the mantissa.
constexpr unsigned kDropped = 18;
constexpr uint32_t kSteps = 1U << (32 - kDropped);
constexpr uint32_t kMiddle = kSteps / 2;

uint32_t step_of(float value) { return std::bit_cast<uint32_t>(value) >> kDropped; }
uint32_t step_of(double value) { return step_of(static_cast<float>(value)); }

// Steps of negative numbers stand after those of positive ones and descend; places ascend throughout.
uint32_t place_of_step(uint32_t step) { return step < kMiddle ? kMiddle + step : kSteps - 1 - step; }

// The magnitude with which a step begins, counted from zero outwards.
double edge_of(uint32_t step) {
  const uint32_t last = IeeeLayout<float>::kInfinity >> kDropped;
  return step >= last ? static_cast<double>(std::numeric_limits<float>::max())
                      : static_cast<double>(std::bit_cast<float>(step << kDropped));
}

double low_edge(uint32_t place) { return place >= kMiddle ? edge_of(place - kMiddle) : -edge_of(kMiddle - place); }
double high_edge(uint32_t place) {
  return place >= kMiddle ? edge_of(place - kMiddle + 1) : -edge_of(kMiddle - 1 - place);
}

}  // namespace

class ValueCounter {
 public:
  explicit ValueCounter(uint64_t expected) {
    if (expected > kFew) table_.resize(kSteps);
  }

  template <typename Number>
  void add(const Number* numbers, size_t count) {
    if (table_.empty()) {
      for (size_t i = 0; i < count; ++i) places_.push_back(place_of_step(step_of(numbers[i])));
    } else {
      uint32_t* table = table_.data();
      for (size_t i = 0; i < count; ++i) ++table[step_of(numbers[i])];
    }
  }

  ValueCounts finish() {
    ValueCounts counts;
    if (table_.empty()) {
      std::ranges::sort(places_);
      for (const uint32_t place : places_) {
        if (counts.bins_.empty() || counts.bins_.back().place != place) counts.bins_.push_back({place, 0});
        ++counts.bins_.back().count;
      }
      return counts;
    }
    const auto take = [&](uint32_t step) {
      if (table_[step] != 0) counts.bins_.push_back({place_of_step(step), table_[step]});
    };
    for (uint32_t step = kSteps; step-- > kMiddle;) take(step);
    for (uint32_t step = 0; step < kMiddle; ++step) take(step);
    return counts;
  }

 private:
  // So few numbers are sorted: clearing and searching the table would cost more.
  static constexpr size_t kFew = 1024;

  std::vector<uint32_t> table_;
  std::vector<uint32_t> places_;
};

// Once a few parts were merged, nearly every step is known and only its count changes.
void ValueCounts::merge(const ValueCounts& other) {
  std::vector<Bin> fresh;
  auto at = bins_.begin();
  for (const Bin& bin : other.bins_) {
    at = std::ranges::lower_bound(at, bins_.end(), bin.place, {}, &Bin::place);
    if (at != bins_.end() && at->place == bin.place) at->count += bin.count;
    else fresh.push_back(bin);
  }
  if (fresh.empty()) return;
  const auto known = static_cast<std::ptrdiff_t>(bins_.size());
  bins_.insert(bins_.end(), fresh.begin(), fresh.end());
  std::ranges::inplace_merge(bins_.begin(), bins_.begin() + known, bins_.end(), {}, &Bin::place);
}

Histogram ValueCounts::to_histogram(const Statistics& statistics, double low, double high, size_t bins) const {
  Histogram histogram{low, high, 0, 0, {}};
  if (bins_.empty() || bins == 0) return histogram;
  if (!(low < high)) {
    histogram.counts = {statistics.finite()};
    return histogram;
  }
  // How many numbers lie below each edge: whole steps, and of the step that the edge cuts its share.
  const double width = (high - low) / static_cast<double>(bins);
  auto bin = bins_.begin();
  uint64_t passed = 0;
  uint64_t before = 0;
  for (size_t i = 0; i <= bins; ++i) {
    const double edge = i == bins ? high : low + width * static_cast<double>(i);
    const auto begin_of = [&] { return std::max(low_edge(bin->place), statistics.min); };
    const auto end_of = [&] { return std::min(high_edge(bin->place), statistics.max); };
    while (bin != bins_.end() && end_of() <= edge && begin_of() < edge) passed += (bin++)->count;
    uint64_t reached = passed;
    if (bin != bins_.end() && begin_of() < edge) {
      const double share = (edge - begin_of()) / (end_of() - begin_of());
      reached += static_cast<uint64_t>(std::llround(share * static_cast<double>(bin->count)));
    }
    if (i == bins && edge >= statistics.max) reached = statistics.finite();
    if (i == 0) histogram.below = reached;
    else histogram.counts.push_back(reached - before);
    before = reached;
  }
  histogram.above = statistics.finite() - before;
  return histogram;
}

Histogram ValueCounts::to_histogram(const Statistics& statistics, size_t bins) const {
  constexpr double kDeviations = 4;
  const double reach = kDeviations * statistics.std();
  return to_histogram(statistics, std::max(statistics.min, statistics.mean - reach),
                      std::min(statistics.max, statistics.mean + reach), bins);
}

// ---------------------------------------------------------------- measuring

namespace {

template <typename Number>
class Measurement {
 public:
  Measurement(uint64_t count, Number min_normal) : min_normal_(min_normal), counter_(count) {}

  void add(const Number* numbers, size_t count) {
    if (!Block<Number>::all_finite(numbers, count)) {
      std::array<Number, kStatisticsBlock> kept;
      add_finite(kept.data(), keep_finite(numbers, count, kept.data()));
    } else {
      add_finite(numbers, count);
    }
  }

  Measured finish() { return {statistics_, counter_.finish()}; }

 private:
  size_t keep_finite(const Number* numbers, size_t count, Number* kept) {
    size_t finite = 0;
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(numbers[i])) {
        kept[finite++] = numbers[i];
        continue;
      }
      ++statistics_.count;
      if (std::isnan(numbers[i])) ++statistics_.nan;
      else if (numbers[i] > 0) ++statistics_.positive_infinity;
      else ++statistics_.negative_infinity;
    }
    return finite;
  }

  void add_finite(const Number* numbers, size_t count) {
    if (count == 0) return;
    // Of everything but the first block the mean so far is a good center: where it is far off, the distance itself
    // outweighs what is lost.
    const double center = statistics_.finite() == 0 ? mean_of(numbers, count) : statistics_.mean;
    statistics_.merge(Block<Number>(numbers, count, center, min_normal_).measure());
    counter_.add(numbers, count);
  }

  Number min_normal_;
  Statistics statistics_;
  ValueCounter counter_;
};

template <typename E>
Measured measure_as(ByteSpan in) {
  constexpr bool kNarrow =
      std::is_same_v<typename E::Value, float> || (E::kKind != DTypeKind::kFloat && E::kBits <= 16);
  using Number = std::conditional_t<kNarrow, float, double>;
  Number min_normal = 0;
  if constexpr (E::kKind == DTypeKind::kFloat) min_normal = E::decode(static_cast<typename E::Bits>(E::kMinNormal));
  if constexpr (std::is_same_v<E, SmallFloatElement<F8E8M0>>) min_normal = 0;  // its smallest power is no denormal
  const uint64_t count = uint64_t{in.size()} * 8 / E::kBits;  // 512 MiB have more bits than 32 can count
  Measurement<Number> measurement(count, min_normal);
  std::array<Number, kStatisticsBlock> block;
  for (uint64_t begin = 0; begin < count; begin += kStatisticsBlock) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(kStatisticsBlock, count - begin));
    const std::byte* bytes = in.data() + static_cast<size_t>(begin * E::kBits / 8);
    if constexpr (std::is_same_v<E, NativeFloatElement<Number>> && std::endian::native == std::endian::little) {
      std::memcpy(block.data(), bytes, size * sizeof(Number));  // aligned now
    } else {
      for (size_t i = 0; i < size; ++i) block[i] = static_cast<Number>(E::decode(load_bits<E>(bytes, i)));
    }
    measurement.add(block.data(), size);
  }
  return measurement.finish();
}

Measured measure_blocks(DType dtype, ByteSpan in) {
  const DTypeInfo& type = dtype_info(dtype);
  Measurement<float> measurement(elements_in(dtype, in.size()), std::numeric_limits<float>::min());
  std::array<float, kStatisticsBlock> values;
  const size_t step = kStatisticsBlock / type.block_elements * type.block_bytes;
  for (size_t begin = 0; begin < in.size(); begin += step) {
    const ByteSpan blocks = in.subspan(begin, std::min(step, in.size() - begin));
    dequantize_blocks(dtype, blocks, values);
    measurement.add(values.data(), static_cast<size_t>(elements_in(dtype, blocks.size())));
  }
  return measurement.finish();
}

}  // namespace

Measured measure(DType dtype, ByteSpan in) {
  if (can_dequantize(dtype)) return measure_blocks(dtype, in);
  Measured measured;
  visit_element(dtype, [&]<typename E>() { measured = measure_as<E>(in); });
  return measured;
}

}  // namespace ballast
