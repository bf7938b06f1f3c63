#include "apps/ballast/terminal/train_display.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"
#include "ballast/training/train_event.h"

namespace ballast::cli {

namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 5;
constexpr size_t kCurveHeight = 8;
constexpr size_t kAxisWidth = 11;
constexpr size_t kWidestCurve = 120;
constexpr size_t kNarrowestCurve = 16;
constexpr size_t kAssumedColumns = 80;
constexpr double kCurveLogarithmFrom = 20;

// ---------------------------------------------------------------- the curve

struct Scale {
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  double place(double value) const {
    if (logarithmic) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
  double value_at(double place) const {
    return logarithmic ? low * std::pow(high / low, place) : low + (high - low) * place;
  }
};

Scale find_scale(const Series& series) {
  Scale scale{series.buckets().front().mean(), series.buckets().front().mean()};
  for (const Series::Bucket& bucket : series.buckets()) {
    scale.low = std::min(scale.low, bucket.mean());
    scale.high = std::max(scale.high, bucket.mean());
  }
  scale.logarithmic = scale.low > 0 && scale.high / scale.low > kCurveLogarithmFrom;
  if (scale.high > scale.low) return scale;
  const double around = scale.low == 0 ? 1 : std::abs(scale.low) * 0.1;
  return {scale.low - around, scale.high + around};
}

// The mean of the series in each of `columns` equal parts of its steps; what has no step of its own takes its
// neighbour's.
std::vector<double> resample(const Series& series, size_t columns) {
  const auto& buckets = series.buckets();
  const double first = buckets.front().step();
  const double span = buckets.back().step() - first;
  std::vector<double> sums(columns), counts(columns);
  for (const Series::Bucket& bucket : buckets) {
    const double place = span > 0 ? (bucket.step() - first) / span : 0;
    const auto column = std::min(columns - 1, static_cast<size_t>(place * static_cast<double>(columns)));
    sums[column] += bucket.sum;
    counts[column] += static_cast<double>(bucket.count);
  }
  double value = buckets.front().mean();
  for (size_t i = 0; i < columns; ++i) {
    if (counts[i] > 0) value = sums[i] / counts[i];
    sums[i] = value;
  }
  return sums;
}

// Dots of a braille character, by column and row.
constexpr uint32_t kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
constexpr uint32_t kNoDots = 0x2800;

class DotField {
 public:
  DotField(size_t width, size_t height) : width_(width), height_(height), cells_(width * height) {}

  void set(size_t x, size_t y) { cells_[y / 4 * width_ + x / 2] |= kDots[x % 2][y % 4]; }
  void set_between(size_t x, size_t a, size_t b) {
    for (size_t y = std::min(a, b); y <= std::max(a, b); ++y) set(x, y);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out(height_);
    for (size_t row = 0; row < height_; ++row) {
      for (size_t x = 0; x < width_; ++x) append_utf8(out[row], kNoDots + cells_[row * width_ + x]);
    }
    return out;
  }

 private:
  size_t width_;
  size_t height_;
  std::vector<uint32_t> cells_;
};

// ---------------------------------------------------------------- words

std::string rate_text(const TrainTask& task, const TrainHistory& history) {
  const double rate = history.items_per_second();
  if (rate <= 0) return "";
  return rate < 10 ? fmt::format("{:.2f} {}/s", rate, task.item)
                   : fmt::format("{} {}/s", grouped(static_cast<uint64_t>(std::llround(rate))), task.item);
}

std::string left_text(const TrainTask& task, const TrainHistory& history) {
  const double rate = history.steps_per_second();
  const uint64_t step = history.last().step;
  if (rate <= 0 || step >= task.total_steps) return "";
  return clock_time(static_cast<double>(task.total_steps - step) / rate) + " left";
}

std::string progress_text(const TrainTask& task, const TrainHistory& history) {
  const uint64_t step = history.last().step;
  std::string text = fmt::format("step {}", grouped(step));
  if (task.total_steps != 0) {
    text += fmt::format(" of {}  {:.0f} %", grouped(task.total_steps),
                        100 * static_cast<double>(step) / static_cast<double>(task.total_steps));
  }
  if (task.steps_per_epoch != 0 && step != 0)
    text += fmt::format("  epoch {}", grouped((step - 1) / task.steps_per_epoch + 1));
  return text;
}

std::string eval_text(const EvalRecord& eval) {
  const std::string accuracy = eval.accuracy ? fmt::format("  accuracy {:.2f} %", 100 * *eval.accuracy) : "";
  return fmt::format("held out {}{}", shown_loss(eval.loss), accuracy);
}

// Cells with two blanks between them, as many as fit; empty ones are left out.
class Cells {
 public:
  Cells(const Terminal& terminal, size_t width) : terminal_(terminal), width_(width) {}

  Cells& add(std::string_view text, Paint paint = Paint::kPlain) {
    const size_t taken = display_width(text) + 2;
    if (text.empty() || used_ + taken > width_) return *this;
    used_ += taken;
    line_ += "  ";
    append_painted(line_, terminal_, paint, text);
    return *this;
  }
  // Cuts what is too long instead of leaving it out.
  Cells& add_cut(std::string_view text, Paint paint = Paint::kPlain) {
    return used_ + 6 > width_ ? *this : add(shorten(text, width_ - used_ - 2), paint);
  }
  std::string take() { return std::move(line_); }

 private:
  const Terminal& terminal_;
  size_t width_;
  size_t used_ = 0;
  std::string line_;
};

void append_curve(std::vector<std::string>& lines, const Series& series, const Terminal& terminal, size_t width) {
  if (series.empty() || width < kAxisWidth + kNarrowestCurve) return;
  const size_t columns = std::min(width - kAxisWidth, kWidestCurve);
  const Scale scale = find_scale(series);
  const std::vector<std::string> rows = draw_curve(series, columns, kCurveHeight);
  for (size_t row = 0; row < rows.size(); ++row) {
    const double place = 1 - static_cast<double>(row) / static_cast<double>(rows.size() - 1);
    const bool marked = row == 0 || row + 1 == rows.size() || row == rows.size() / 2;
    std::string line;
    append_painted(line, terminal, Paint::kDim,
                   fmt::format("{:>9} {}", marked ? shown_loss(scale.value_at(place)) : "", marked ? "┤" : "│"));
    append_painted(line, terminal, Paint::kCyan, rows[row]);
    lines.push_back(std::move(line));
  }
}

TrainDisplay::Surroundings standard_error() {
  return {[] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); },
          [](std::string_view text) {
            [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
          },
          [] { return find_terminal(STDERR_FILENO); }};
}

}  // namespace

std::string shown_loss(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return fmt::format("{:.2e}", value);
  if (size < 10) return fmt::format("{:.4f}", value);
  return size < 1000 ? fmt::format("{:.2f}", value) : fmt::format("{:.0f}", value);
}

std::vector<std::string> draw_curve(const Series& series, size_t width, size_t height) {
  DotField field(width, height);
  if (series.empty()) return field.lines();
  const Scale scale = find_scale(series);
  const std::vector<double> values = resample(series, width * 2);
  const auto row_of = [&](double value) {
    const double place = std::clamp(scale.place(value), 0.0, 1.0);
    return static_cast<size_t>(std::lround((1 - place) * static_cast<double>(height * 4 - 1)));
  };
  for (size_t x = 0; x < values.size(); ++x) {
    const size_t row = row_of(values[x]);
    field.set_between(x, x == 0 ? row : row_of((values[x - 1] + values[x]) / 2), row);
    if (x + 1 < values.size()) field.set_between(x, row, row_of((values[x] + values[x + 1]) / 2));
  }
  return field.lines();
}

std::vector<std::string> draw_frame(const TrainTask& task, const TrainHistory& history, const Terminal& terminal) {
  const size_t width = (terminal.width == 0 ? kAssumedColumns : terminal.width) - 1;
  const StepRecord& last = history.last();
  std::vector<std::string> lines;
  lines.push_back(Cells(terminal, width)
                      .add(progress_text(task, history), Paint::kBold)
                      .add(left_text(task, history), Paint::kGreen)
                      .add_cut(printable(task.title), Paint::kDim)
                      .take());
  append_curve(lines, history.loss(), terminal, width);
  Cells losses(terminal, width);
  losses.add(fmt::format("loss {}", shown_loss(last.loss)), std::isfinite(last.loss) ? Paint::kBold : Paint::kRed)
      .add(fmt::format("smoothed {}", shown_loss(history.smooth_loss())));
  if (!history.evals().empty()) losses.add(eval_text(history.evals().back()), Paint::kYellow);
  lines.push_back(losses.take());
  Cells numbers(terminal, width);
  numbers.add(rate_text(task, history)).add(fmt::format("lr {:.4g}", last.lr));
  if (last.grad_norm) numbers.add(fmt::format("gradient {}", shown_loss(*last.grad_norm)));
  if (history.skipped_steps() != 0) numbers.add(counted(history.skipped_steps(), "step") + " skipped", Paint::kRed);
  lines.push_back(numbers.take());
  const CheckpointRecord& checkpoint = history.last_checkpoint();
  if (history.checkpoints() != 0) {
    lines.push_back(Cells(terminal, width)
                        .add(fmt::format("checkpoint at step {}", grouped(checkpoint.step)))
                        .add_cut(printable(checkpoint.path), Paint::kDim)
                        .take());
  }
  return lines;
}

std::string draw_line(const TrainTask& task, const TrainHistory& history) {
  const StepRecord& last = history.last();
  std::string line =
      fmt::format("{}  loss {}  lr {:.4g}", progress_text(task, history), shown_loss(last.loss), last.lr);
  if (last.grad_norm) line += fmt::format("  gradient {}", shown_loss(*last.grad_norm));
  for (const std::string& more : {rate_text(task, history), left_text(task, history)}) {
    if (!more.empty()) line += "  " + more;
  }
  return line;
}

TrainDisplay::TrainDisplay(TrainTask task, bool quiet) : TrainDisplay(std::move(task), quiet, standard_error()) {}

TrainDisplay::TrainDisplay(TrainTask task, bool quiet, Surroundings surroundings)
    : task_(std::move(task)), quiet_(quiet), around_(std::move(surroundings)), next_draw_(around_.seconds()) {}

TrainDisplay::~TrainDisplay() { finish(); }

void TrainDisplay::show(const TrainEvent& event) {
  history_.add(event);
  if (quiet_) return;
  const Terminal terminal = around_.terminal();
  const bool due = around_.seconds() >= next_draw_;
  if (!terminal.interactive) {
    say_plainly(event);
  } else if (due && history_.last().step != 0) {
    draw(terminal);
    next_draw_ = around_.seconds() + kRedrawSeconds;
  }
}

// Evaluations and checkpoints are told at once, steps every few seconds.
void TrainDisplay::say_plainly(const TrainEvent& event) {
  std::string text;
  if (std::holds_alternative<StepRecord>(event)) {
    said_last_ = around_.seconds() >= next_draw_;
    if (!said_last_) return;
    next_draw_ = around_.seconds() + kPlainSeconds;
    text = draw_line(task_, history_);
  } else if (const auto* eval = std::get_if<EvalRecord>(&event)) {
    text = fmt::format("step {}  {}", grouped(eval->step), eval_text(*eval));
  } else if (const auto* checkpoint = std::get_if<CheckpointRecord>(&event)) {
    text = fmt::format("step {}  checkpoint {}", grouped(checkpoint->step), printable(checkpoint->path));
  } else if (const auto* resume = std::get_if<ResumeRecord>(&event)) {
    text = fmt::format("step {}  resumed from {}", grouped(resume->step), printable(resume->path));
  } else {
    return;  // a warning is told by whoever shows errors
  }
  around_.write(text + "\n");
}

void TrainDisplay::draw(const Terminal& terminal) {
  const std::vector<std::string> lines = draw_frame(task_, history_, terminal);
  std::string text;
  if (drawn_lines_ != 0) text += fmt::format("\x1b[{}A", drawn_lines_);
  for (const std::string& line : lines) text += fmt::format("\r\x1b[K{}\n", line);
  if (drawn_lines_ > lines.size()) text += "\x1b[J";
  drawn_lines_ = lines.size();
  around_.write(text);
}

void TrainDisplay::clear() {
  if (drawn_lines_ != 0) around_.write(fmt::format("\x1b[{}A\r\x1b[J", drawn_lines_));
  drawn_lines_ = 0;
}

void TrainDisplay::finish() {
  if (quiet_ || history_.last().step == 0) return;
  const Terminal terminal = around_.terminal();
  if (terminal.interactive) draw(terminal);
  else if (!said_last_) around_.write(draw_line(task_, history_) + "\n");
  said_last_ = true;
  drawn_lines_ = 0;
  quiet_ = true;
}

}  // namespace ballast::cli
