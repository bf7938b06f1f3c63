#include "apps/ballast/output/numpy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>

#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

constexpr uint32_t kReplacement = 0xFFFD;

uint64_t load(ByteSpan bytes, bool big_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = big_endian ? i : bytes.size() - 1 - i;
    value = value << 8 | std::to_integer<uint64_t>(bytes[at]);
  }
  return value;
}

std::string bytes_text(ByteSpan element) {
  std::string text(as_text(element));
  while (!text.empty() && text.back() == '\0') text.pop_back();  // NumPy pads with them
  return text;
}

std::string characters_text(ByteSpan element, bool big_endian) {
  std::string text;
  size_t end = element.size() / 4;
  const auto at = [&](size_t i) { return static_cast<uint32_t>(load(element.subspan(4 * i, 4), big_endian)); };
  while (end > 0 && at(end - 1) == 0) --end;
  for (size_t i = 0; i < end; ++i) {
    const uint32_t code_point = at(i);
    const bool valid = code_point <= 0x10FFFF && !(code_point >= 0xD800 && code_point <= 0xDFFF);
    append_utf8(text, valid ? code_point : kReplacement);
  }
  return text;
}

// ---------------------------------------------------------------- dates

struct TimeUnit {
  std::string_view name;
  int64_t per_second;  // 0: longer than a second
  int64_t seconds;     // of one, where it is longer
};
constexpr std::array kTimeUnits = {
    TimeUnit{"W", 0, 604800}, TimeUnit{"D", 0, 86400},  TimeUnit{"h", 0, 3600},       TimeUnit{"m", 0, 60},
    TimeUnit{"s", 1, 1},      TimeUnit{"ms", 1'000, 0}, TimeUnit{"us", 1'000'000, 0}, TimeUnit{"ns", 1'000'000'000, 0},
};

struct DayAndTime {
  int64_t day;     // since 1970-01-01
  int64_t second;  // of the day
};

DayAndTime split_seconds(int64_t seconds) {
  const int64_t day = seconds / 86400 - (seconds % 86400 < 0 ? 1 : 0);
  return {day, seconds - day * 86400};
}

constexpr int64_t kLastDay = 2'900'000;  // in the year 9909; beyond lies what the calendar here cannot count

std::string day_text(int64_t day) {
  using namespace std::chrono;
  const year_month_day date{sys_days{days{day}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string clock_text(int64_t second, std::string_view unit) {
  if (unit == "D" || unit == "W") return "";
  if (unit == "h") return fmt::format("T{:02}", second / 3600);
  const std::string minutes = fmt::format("T{:02}:{:02}", second / 3600, second / 60 % 60);
  return unit == "m" ? minutes : fmt::format("{}:{:02}", minutes, second % 60);
}

std::optional<std::string> date_text(int64_t value, std::string_view unit) {
  if (unit == "Y" && value > -kLastDay / 366 && value < kLastDay / 366) return fmt::format("{:04}", 1970 + value);
  if (unit == "M" && value > -kLastDay / 31 && value < kLastDay / 31) {
    const int64_t year = value / 12 - (value % 12 < 0 ? 1 : 0);
    return fmt::format("{:04}-{:02}", 1970 + year, value - year * 12 + 1);
  }
  const auto* row = std::ranges::find(kTimeUnits, unit, &TimeUnit::name);
  if (row == kTimeUnits.end()) return std::nullopt;
  int64_t seconds = 0, fraction = 0;
  if (row->per_second == 0) {
    if (value > kLastDay * 86400 / row->seconds || value < -kLastDay * 86400 / row->seconds) return std::nullopt;
    seconds = value * row->seconds;
  } else {
    seconds = value / row->per_second - (value % row->per_second < 0 ? 1 : 0);
    fraction = value - seconds * row->per_second;
  }
  const DayAndTime time = split_seconds(seconds);
  if (time.day > kLastDay || time.day < -kLastDay / 4) return std::nullopt;
  std::string text = day_text(time.day) + clock_text(time.second, unit);
  if (row->per_second > 1) text += fmt::format(".{:0{}}", fraction, unit == "ms" ? 3 : unit == "us" ? 6 : 9);
  return text;
}

std::string moment_text(const NumpyType& type, int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "NaT";
  const std::string step = fmt::format("{}{}", type.multiple == 1 ? "" : std::to_string(type.multiple), type.unit);
  const std::string number = step.empty() ? std::to_string(value) : fmt::format("{} {}", value, step);
  if (type.kind == NumpyType::Kind::kDuration || type.multiple != 1) return number;
  return date_text(value, type.unit).value_or(number);
}

}  // namespace

std::string NumpyType::name() const {
  const std::string step =
      unit.empty() ? "" : fmt::format("[{}{}]", multiple == 1 ? "" : std::to_string(multiple), unit);
  switch (kind) {
    case Kind::kBytes: return fmt::format("bytes{}", count);
    case Kind::kText: return fmt::format("str{}", count);
    case Kind::kDate: return "datetime64" + step;
    case Kind::kDuration: return "timedelta64" + step;
  }
  return "";
}

std::string NumpyType::text(ByteSpan element) const {
  switch (kind) {
    case Kind::kBytes: return bytes_text(element);
    case Kind::kText: return characters_text(element, big_endian);
    case Kind::kDate:
    case Kind::kDuration: return moment_text(*this, static_cast<int64_t>(load(element, big_endian)));
  }
  return "";
}

std::optional<NumpyType> numpy_type(const TensorInfo& tensor) {
  if (tensor.dtype != DType::kOpaque) return std::nullopt;
  std::string_view rest = tensor.scheme();
  NumpyType type;
  if (rest.size() < 3 || std::string_view("<>|").find(rest.front()) == std::string_view::npos) return std::nullopt;
  type.big_endian = rest.front() == '>';
  switch (rest[1]) {
    case 'S': type.kind = NumpyType::Kind::kBytes; break;
    case 'U': type.kind = NumpyType::Kind::kText; break;
    case 'M': type.kind = NumpyType::Kind::kDate; break;
    case 'm': type.kind = NumpyType::Kind::kDuration; break;
    default: return std::nullopt;
  }
  rest.remove_prefix(2);
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), type.count);
  if (failure != std::errc() || type.count == 0 || type.count > UINT64_MAX / 4) return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  const auto elements = tensor.shape.element_count();
  if (!elements || (*elements != 0 && tensor.byte_size / *elements != type.item_size())) return std::nullopt;
  if (rest.empty()) return type;
  if (rest.size() < 3 || rest.front() != '[' || rest.back() != ']') return std::nullopt;
  rest = rest.substr(1, rest.size() - 2);
  const auto [unit, none] = std::from_chars(rest.data(), rest.data() + rest.size(), type.multiple);
  if (none != std::errc()) type.multiple = 1;
  type.unit = std::string(unit, rest.data() + rest.size());
  return type;
}

std::string shown_type(const TensorInfo& tensor) {
  const auto type = numpy_type(tensor);
  return type ? type->name() : std::string(dtype_name(tensor.dtype));
}

}  // namespace ballast::cli
