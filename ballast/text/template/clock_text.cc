#include "ballast/text/template/clock_text.h"

#include <fmt/format.h>

#include <array>

namespace ballast {

namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

bool is_leap_year(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in_month(int year, int month) {
  static constexpr int kLengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap_year(year) ? 29 : kLengths[month - 1];
}

int day_of_year(const ClockTime& time) {
  int day = time.day;
  for (int month = 1; month < time.month; ++month) day += days_in_month(time.year, month);
  return day;
}

// 0 is Sunday.
int day_of_week(const ClockTime& time) {
  const int before = time.year - 1;
  return (before + before / 4 - before / 100 + before / 400 + day_of_year(time)) % 7;
}

bool is_moment(const ClockTime& time) {
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  return within(time.year, 1, 9999) && within(time.month, 1, 12) &&
         within(time.day, 1, days_in_month(time.year, time.month)) && within(time.hour, 0, 23) &&
         within(time.minute, 0, 59) && within(time.second, 0, 60);
}

std::string number_text(int value, int width, bool padded) {
  return padded ? fmt::format("{:0{}}", value, width) : std::to_string(value);
}

// What a conversion that is short for others stands for; "" for the rest.
std::string_view expansion(char conversion) {
  switch (conversion) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'T':
    case 'X': return "%H:%M:%S";
    default: return "";
  }
}

Result<std::string> converted(char conversion, bool padded, const ClockTime& time) {
  const std::string_view day = kDays[static_cast<size_t>(day_of_week(time))];
  const std::string_view month = kMonths[static_cast<size_t>(time.month - 1)];
  switch (conversion) {
    case 'a': return std::string(day.substr(0, 3));
    case 'A': return std::string(day);
    case 'b': return std::string(month.substr(0, 3));
    case 'B': return std::string(month);
    case 'd': return number_text(time.day, 2, padded);
    case 'e': return padded ? fmt::format("{:2}", time.day) : std::to_string(time.day);
    case 'H': return number_text(time.hour, 2, padded);
    case 'I': return number_text((time.hour + 11) % 12 + 1, 2, padded);
    case 'j': return number_text(day_of_year(time), 3, padded);
    case 'm': return number_text(time.month, 2, padded);
    case 'M': return number_text(time.minute, 2, padded);
    case 'p': return std::string(time.hour < 12 ? "AM" : "PM");
    case 'S': return number_text(time.second, 2, padded);
    case 'u': return std::to_string((day_of_week(time) + 6) % 7 + 1);
    case 'w': return std::to_string(day_of_week(time));
    case 'y': return number_text(time.year % 100, 2, padded);
    case 'Y': return std::to_string(time.year);
    case '%': return std::string("%");
    default: break;
  }
  return make_error(ErrorCode::kUnsupported, fmt::format("strftime_now: %{} is not supported", conversion));
}

}  // namespace

Result<std::string> format_clock_time(std::string_view pattern, const ClockTime& time) {
  if (!is_moment(time)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} is no date and time", time.year, time.month,
                                  time.day, time.hour, time.minute, time.second));
  }
  std::string out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%' || at + 1 >= pattern.size()) {
      out.push_back(pattern[at]);
      continue;
    }
    const bool padded = pattern[at + 1] != '-' || at + 2 >= pattern.size();
    at += padded ? 1 : 2;
    // Expansions hold no expansions, so this goes one level deep.
    const std::string_view longer = expansion(pattern[at]);
    BALLAST_TRY(const std::string text,
                longer.empty() ? converted(pattern[at], padded, time) : format_clock_time(longer, time));
    out += text;
  }
  return out;
}

}  // namespace ballast
