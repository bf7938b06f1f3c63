#include "apps/ballast/terminal/train_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/ballast/output/text.h"
#include "ballast/training/train_event.h"

namespace ballast::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TrainTask digits() { return {.title = "digits.toml", .total_steps = 2000, .steps_per_epoch = 100, .item = "images"}; }

StepRecord step(uint64_t number, double loss) {
  return {.step = number, .loss = loss, .lr = 1e-3, .grad_norm = 1.25, .items = 64, .seconds = 0.01};
}

TrainHistory falling(uint64_t steps) {
  TrainHistory history;
  for (uint64_t i = 1; i <= steps; ++i) history.add(step(i, 2.3 * std::exp(-static_cast<double>(i) / 300) + 0.1));
  return history;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A terminal and a clock that the test moves.
struct Stage {
  Terminal terminal;
  double now = 100;
  std::string shown;

  TrainDisplay::Surroundings surroundings() {
    return {[this] { return now; }, [this](std::string_view text) { shown += text; }, [this] { return terminal; }};
  }
};

TEST(Series, ALongRunStaysSmallAndKeepsItsMeanAndItsExtremes) {
  Series series;
  constexpr uint64_t kSteps = 100000;
  for (uint64_t i = 1; i <= kSteps; ++i) series.add(i, i == 777 ? 500.0 : 1.0);
  series.add(kSteps + 1, std::nan(""));
  EXPECT_LE(series.buckets().size(), Series::kMostBuckets);
  EXPECT_GE(series.buckets().size(), Series::kMostBuckets / 2);
  double sum = 0, most = 0;
  uint64_t count = 0;
  for (const Series::Bucket& bucket : series.buckets()) {
    sum += bucket.sum;
    count += bucket.count;
    most = std::max(most, bucket.most);
  }
  EXPECT_EQ(count, kSteps);
  EXPECT_EQ(sum, 1.0 * (kSteps - 1) + 500);
  EXPECT_EQ(most, 500);
  EXPECT_EQ(series.buckets().front().first_step, 1);
  EXPECT_EQ(series.buckets().back().last_step, kSteps);
}

TEST(TrainHistory, RatesAreThoseOfTheLastSeconds) {
  TrainHistory history;
  for (uint64_t i = 1; i <= 100; ++i) history.add(StepRecord{.step = i, .loss = 1, .lr = 1, .items = 10, .seconds = 1});
  for (uint64_t i = 1; i <= 1000; ++i)
    history.add(StepRecord{.step = i, .loss = 1, .lr = 1, .items = 10, .seconds = 0.1});
  EXPECT_NEAR(history.items_per_second(), 100, 1);
  EXPECT_NEAR(history.steps_per_second(), 10, 0.1);
  EXPECT_EQ(history.items(), 11000U);
  EXPECT_NEAR(history.smooth_loss(), 1, 1e-9);
}

TEST(TrainHistory, TheBestEvaluationIsTheOneWithTheLowestLoss) {
  TrainHistory history;
  EXPECT_EQ(history.best(), nullptr);
  for (const double loss : {3.0, std::nan(""), 1.0, 2.0})
    history.add(EvalRecord{.step = static_cast<uint64_t>(loss > 0 ? loss : 9), .loss = loss, .items = 1, .seconds = 1});
  EXPECT_EQ(history.best()->step, 1U);
}

TEST(TrainDisplay, ACurveFallsFromUpperLeftToLowerRight) {
  Series series;
  for (uint64_t i = 0; i <= 100; ++i) series.add(i, 100 - static_cast<double>(i));
  EXPECT_THAT(draw_curve(series, 4, 2), ElementsAre("⠳⣄⡀⠀", "⠀⠀⠙⢦"));
}

TEST(TrainDisplay, ALevelCurveAndASinglePointAreDrawnInTheMiddle) {
  Series level;
  level.add(1, 0.5);
  EXPECT_THAT(draw_curve(level, 2, 1), ElementsAre("⠤⠤"));
  level.add(2, 0.5);
  EXPECT_THAT(draw_curve(level, 2, 1), ElementsAre("⠤⠤"));
  EXPECT_THAT(draw_curve(Series(), 2, 1), ElementsAre("⠀⠀"));
}

TEST(TrainDisplay, AFrameTellsWhatARunNeedsToTell) {
  TrainHistory history = falling(500);
  history.add(EvalRecord{.step = 500, .loss = 0.4567, .accuracy = 0.9512, .items = 100, .seconds = 1});
  history.add(CheckpointRecord{.step = 400, .path = "runs/digits/step-400", .bytes = 1, .paused_seconds = 0});
  const Terminal terminal{.interactive = true, .colours = false, .width = 80};
  const std::string frame = joined(draw_frame(digits(), history, terminal));
  EXPECT_THAT(frame,
              AllOf(HasSubstr("step 500 of 2,000  25 %  epoch 5"), HasSubstr("0:15 left"), HasSubstr("digits.toml")));
  EXPECT_THAT(frame, AllOf(HasSubstr("loss 0.53"), HasSubstr("held out 0.4567  accuracy 95.12 %")));
  EXPECT_THAT(frame, AllOf(HasSubstr("6,400 images/s"), HasSubstr("lr 0.001"), HasSubstr("gradient 1.2500")));
  EXPECT_THAT(frame, HasSubstr("checkpoint at step 400  runs/digits/step-400"));
  EXPECT_THAT(frame, AllOf(HasSubstr("┤"), HasSubstr("⠀"), Not(HasSubstr("\x1b"))));
}

TEST(TrainDisplay, NoLineIsWiderThanTheTerminal) {
  TrainHistory history = falling(500);
  history.add(CheckpointRecord{.step = 400, .path = std::string(300, 'p'), .bytes = 1, .paused_seconds = 0});
  TrainTask task = digits();
  task.title = std::string(300, 't');
  for (const size_t width : {10U, 20U, 27U, 28U, 40U, 80U, 200U}) {
    const Terminal terminal{.interactive = true, .colours = false, .width = width};
    for (const std::string& line : draw_frame(task, history, terminal))
      EXPECT_LT(display_width(line), width) << width << ": " << line;
  }
}

TEST(TrainDisplay, ColoursAppearOnlyWhereTheTerminalTakesThem) {
  const TrainHistory history = falling(10);
  EXPECT_THAT(joined(draw_frame(digits(), history, {.interactive = true, .colours = true, .width = 80})),
              HasSubstr("\x1b["));
}

TEST(TrainDisplay, HostileNamesCannotReachTheTerminal) {
  TrainHistory history = falling(10);
  history.add(CheckpointRecord{.step = 4, .path = "a\x1b[2Jb", .bytes = 1, .paused_seconds = 0});
  TrainTask task = digits();
  task.title = "x\x1b]0;owned\x07";
  const std::string frame = joined(draw_frame(task, history, {.interactive = true, .colours = false, .width = 100}));
  EXPECT_THAT(frame, Not(HasSubstr("\x1b")));
}

TEST(TrainDisplay, RedrawsInPlaceAtMostTenTimesASecond) {
  Stage stage;
  stage.terminal = {.interactive = true, .colours = false, .width = 80};
  TrainDisplay display(digits(), false, stage.surroundings());
  display.show(step(1, 2));
  EXPECT_THAT(stage.shown, AllOf(HasSubstr("step 1 of 2,000"), Not(HasSubstr("\x1b[11A"))));
  stage.shown.clear();
  for (uint64_t i = 2; i < 10; ++i) {
    stage.now += 0.01;
    display.show(step(i, 2));
  }
  EXPECT_THAT(stage.shown, IsEmpty());
  stage.now += 0.1;
  display.show(step(10, 2));
  EXPECT_THAT(stage.shown, AllOf(HasSubstr("\x1b[11A"), HasSubstr("step 10 of 2,000")));
  stage.shown.clear();
  display.clear();
  EXPECT_EQ(stage.shown, "\x1b[11A\r\x1b[J");
  stage.shown.clear();
  display.finish();
  EXPECT_THAT(stage.shown, AllOf(HasSubstr("step 10 of 2,000"), Not(HasSubstr("A\r"))));
}

TEST(TrainDisplay, WithoutATerminalALineEveryFewSecondsIsEnough) {
  Stage stage;
  {
    TrainDisplay display(digits(), false, stage.surroundings());
    for (uint64_t i = 1; i <= 100; ++i) {
      display.show(step(i, 1));
      stage.now += 0.125;
    }
    display.show(EvalRecord{.step = 100, .loss = 0.5, .items = 1, .seconds = 1});
  }
  EXPECT_EQ(stage.shown,
            "step 1 of 2,000  0 %  epoch 1  loss 1.0000  lr 0.001  gradient 1.2500  6,400 images/s  0:20 left\n"
            "step 41 of 2,000  2 %  epoch 1  loss 1.0000  lr 0.001  gradient 1.2500  6,400 images/s  0:20 left\n"
            "step 81 of 2,000  4 %  epoch 1  loss 1.0000  lr 0.001  gradient 1.2500  6,400 images/s  0:19 left\n"
            "step 100  held out 0.5000\n"
            "step 100 of 2,000  5 %  epoch 1  loss 1.0000  lr 0.001  gradient 1.2500  6,400 images/s  0:19 left\n");
}

TEST(TrainDisplay, QuietIsQuiet) {
  Stage stage;
  stage.terminal = {.interactive = true, .colours = false, .width = 80};
  {
    TrainDisplay display(digits(), true, stage.surroundings());
    display.show(step(1, 1));
    display.finish();
    EXPECT_EQ(display.history().last().step, 1U);
  }
  EXPECT_THAT(stage.shown, IsEmpty());
}

TEST(TrainDisplay, ALossThatIsNoNumberIsShownAndBreaksNothing) {
  TrainHistory history = falling(10);
  history.add(step(11, std::nan("")));
  const std::string frame = joined(draw_frame(digits(), history, {.interactive = true, .colours = false, .width = 80}));
  EXPECT_THAT(frame, HasSubstr("loss nan"));
}

}  // namespace
}  // namespace ballast::cli
