// A training run as it happens: a picture that is redrawn in place on a terminal, plain lines anywhere else.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ballast/output/train_history.h"
#include "apps/ballast/terminal/terminal.h"
#include "ballast/training/train_event.h"

namespace ballast::cli {

struct TrainTask {
  std::string title;  // the configuration's name
  uint64_t total_steps = 0;
  uint64_t steps_per_epoch = 0;   // 0: not known
  std::string item = "examples";  // what is counted: "images", "tokens"
};

// A loss as every line of a run shows it: "0.0808", "2.31e-05".
std::string shown_loss(double value);

// A curve of `width` x `height` characters with four dots down and two across in each. Values that span more than a
// factor of 20 are drawn by their logarithm.
std::vector<std::string> draw_curve(const Series& series, size_t width, size_t height);

// The lines of one frame, none wider than the terminal less one column.
std::vector<std::string> draw_frame(const TrainTask& task, const TrainHistory& history, const Terminal& terminal);
// "step 120 of 2,000  loss 0.5310  ...": the same in one line, without colours.
std::string draw_line(const TrainTask& task, const TrainHistory& history);

// Takes the events of a run and shows them on standard error. One thread at a time.
class TrainDisplay {
 public:
  // What the display needs from outside; tests bring their own.
  struct Surroundings {
    std::function<double()> seconds;              // a clock
    std::function<void(std::string_view)> write;  // to standard error
    std::function<Terminal()> terminal;           // asked before every frame: its width may change
  };

  // `quiet`: nothing is shown.
  TrainDisplay(TrainTask task, bool quiet);
  TrainDisplay(TrainTask task, bool quiet, Surroundings surroundings);
  ~TrainDisplay();
  TrainDisplay(const TrainDisplay&) = delete;
  TrainDisplay& operator=(const TrainDisplay&) = delete;

  void show(const TrainEvent& event);
  // Takes the frame off the terminal, so that something else can be said; the next event draws it again.
  void clear();
  // The last frame, which stays.
  void finish();

  const TrainHistory& history() const { return history_; }

 private:
  void draw(const Terminal& terminal);
  void say_plainly(const TrainEvent& event);

  TrainTask task_;
  bool quiet_;
  Surroundings around_;
  TrainHistory history_;
  double next_draw_ = 0;
  size_t drawn_lines_ = 0;
  bool said_last_ = true;  // plain lines: the newest step was told
};

}  // namespace ballast::cli
