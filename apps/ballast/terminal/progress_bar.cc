#include "apps/ballast/terminal/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{300};  // shorter work needs no bar
constexpr milliseconds kRedraw{100};
constexpr size_t kAssumedWidth = 80;
constexpr std::string_view kEraseLine = "\r\x1b[K";

void write_to_terminal(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string bar(double fraction, size_t width) {
  const auto filled = static_cast<size_t>(fraction * static_cast<double>(width));
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(width - filled, '.'));
}

}  // namespace

// Prompts come in few large pieces, so the first of them is shown at once.
ProgressBar::ProgressBar(const Terminal& terminal, ProgressUnit unit)
    : terminal_(terminal),
      unit_(unit),
      activity_start_(Clock::now()),
      next_draw_(activity_start_ + (unit == ProgressUnit::kTokens ? milliseconds{0} : kPatience)) {}

std::string ProgressBar::amount(uint64_t count) const {
  if (unit_ == ProgressUnit::kBytes) return human_size(count);
  return counted(count, unit_ == ProgressUnit::kTokens ? "token" : "prompt");
}

std::string ProgressBar::part_of(uint64_t done, uint64_t total) const {
  return fmt::format("{} of {}", unit_ == ProgressUnit::kBytes ? human_size(done) : grouped(done), amount(total));
}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::clear() {
  if (drawn_) write_to_terminal(kEraseLine);
  drawn_ = false;
}

bool ProgressBar::on_update(const ProgressUpdate& update) {
  if (interrupted()) return false;
  if (!terminal_.interactive) return true;
  const Clock::time_point now = Clock::now();
  if (update.activity != activity_) {
    activity_ = update.activity;
    activity_start_ = now;
    done_at_start_ = update.done;
  }
  if (now >= next_draw_) draw(update, now);
  return true;
}

void ProgressBar::draw(const ProgressUpdate& update, Clock::time_point now) {
  next_draw_ = now + kRedraw;
  const double seconds = std::chrono::duration<double>(now - activity_start_).count();
  const auto fresh = static_cast<double>(update.done - std::min(done_at_start_, update.done));
  const double rate = seconds > 0 ? fresh / seconds : 0;
  const std::string speed = rate >= 1 ? amount(static_cast<uint64_t>(rate)) + "/s" : "";
  std::string line;
  if (update.total == 0) {
    line = fmt::format("{} {}  {}", activity_, amount(update.done), speed);
  } else {
    const uint64_t done = std::min(update.done, update.total);
    const double fraction = static_cast<double>(done) / static_cast<double>(update.total);
    const std::string left = rate > 0 ? clock_time(static_cast<double>(update.total - done) / rate) + " left" : "";
    line = fmt::format("{:3.0f}%  {}  {}  {}", fraction * 100, part_of(done, update.total), speed, left);
    const size_t width = terminal_.width == 0 ? kAssumedWidth : terminal_.width;
    const size_t taken = activity_.size() + line.size() + 5;  // brackets, blanks, and the last column stays free
    constexpr size_t kShortest = 8, kLongest = 40;
    if (width >= taken + kShortest) line = fmt::format("{} {}", bar(fraction, std::min(width - taken, kLongest)), line);
    line = shorten(fmt::format("{} {}", activity_, line), width - 1);
  }
  write_to_terminal(fmt::format("{}{}", kEraseLine, line));
  drawn_ = true;
}

}  // namespace ballast::cli
