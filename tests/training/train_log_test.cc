#include "ballast/training/train_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"
#include "tests/training/dataset_testing.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

StepRecord step(uint64_t number) {
  return {.step = number,
          .loss = 1.0 / static_cast<double>(number),
          .lr = 0.1,
          .grad_norm = 2.5,
          .items = 64,
          .seconds = 0.25};
}

void write_all(TrainLog& log, const std::vector<TrainEvent>& events) {
  for (const TrainEvent& event : events) {
    const Status status = log.write(event);
    EXPECT_TRUE(status) << (status ? "" : status.error().message);
  }
}

TEST(TrainLog, AStepIsOneLineWithTheShortestDecimals) {
  EXPECT_EQ(to_json_line(step(3)),
            R"({"step":3,"loss":0.3333333333333333,"lr":0.1,"grad_norm":2.5,"items":64,"seconds":0.25})");
  EXPECT_EQ(to_json_line(StepRecord{.step = 1, .loss = 2, .lr = 1e-5, .items = 1, .seconds = 0, .skipped = true}),
            R"({"step":1,"loss":2,"lr":1e-05,"items":1,"seconds":0,"skipped":true})");
}

TEST(TrainLog, EventsSayWhatTheyAre) {
  EXPECT_EQ(to_json_line(EvalRecord{.step = 5, .loss = 0.5, .accuracy = 0.75, .items = 100, .seconds = 2}),
            R"({"event":"eval","step":5,"loss":0.5,"accuracy":0.75,"items":100,"seconds":2})");
  EXPECT_EQ(to_json_line(CheckpointRecord{.step = 5, .path = "a\"b", .bytes = 7, .paused_seconds = 0.5}),
            R"({"event":"checkpoint","step":5,"path":"a\"b","bytes":7,"paused_seconds":0.5})");
  EXPECT_EQ(to_json_line(ResumeRecord{.step = 5, .path = "p"}), R"({"event":"resume","step":5,"path":"p"})");
}

TEST(TrainLog, EveryEventReadsBackTheSame) {
  const std::vector<TrainEvent> events = {
      step(1),
      StepRecord{.step = 2, .loss = 1e300, .lr = 3e-10, .items = 1, .seconds = 0, .skipped = true},
      EvalRecord{.step = 2, .loss = 0.1, .items = 3, .seconds = 1},
      EvalRecord{.step = 2, .loss = 0.1, .accuracy = 1, .items = 3, .seconds = 1},
      CheckpointRecord{.step = 2, .path = "x/\n", .bytes = 1, .paused_seconds = 1},
      ResumeRecord{.step = 2, .path = "q"},
      WarningRecord{.step = 2, .text = "the gradient of \"w\" is all zeros"}};
  for (const TrainEvent& event : events) {
    const std::string line = to_json_line(event);
    const TrainEvent back = value_of(parse_json_line(line, "line"));
    EXPECT_EQ(back.index(), event.index());
    EXPECT_EQ(to_json_line(back), line);
  }
  const auto infinite = value_of(parse_json_line(to_json_line(StepRecord{.step = 1, .loss = std::nan("")}), "line"));
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(infinite).loss));
  EXPECT_TRUE(parse_json_line(R"({"step":1,"from_the_future":[{}]})", "line"));
  EXPECT_THAT(error_of(parse_json_line(R"({"loss":1})", "log:3")), HasSubstr("log:3: a line of a log has a \"step\""));
  EXPECT_THAT(error_of(parse_json_line(R"({"step":1,"event":"party"})", "log")), HasSubstr("unknown event \"party\""));
}

TEST(TrainLog, ANewLogReplacesAnOldOne) {
  const TempFolder folder;
  const std::string path = folder.write("log", to_json_line(step(7)) + "\n{\"step\":8,\"lo");
  TrainLog log = value_of(TrainLog::create(path));
  write_all(log, {step(1), step(2)});
  EXPECT_EQ(read_text_file(path), to_json_line(step(1)) + "\n" + to_json_line(step(2)) + "\n");
}

TEST(TrainLog, ANewLogReplacesNothingButALog) {
  const TempFolder folder;
  for (const char* text : {"mine", "mine\n", "{\"loss\":1}\n", "[1]\n"}) {
    const std::string path = folder.write("other", text);
    EXPECT_THAT(error_of(TrainLog::create(path)), HasSubstr("other: exists and is not the log of a run"));
    EXPECT_EQ(read_text_file(path), text);
  }
  EXPECT_TRUE(TrainLog::create(folder.write("empty", "")));
}

TEST(TrainLog, AResumedLogRepeatsNoStep) {
  const TempFolder folder;
  const std::string path = folder.path("log");
  {
    TrainLog log = value_of(TrainLog::create(path));
    write_all(log, {step(1), step(2), CheckpointRecord{.step = 2, .path = "c", .bytes = 1, .paused_seconds = 0},
                    step(3), EvalRecord{.step = 3, .loss = 1, .items = 1, .seconds = 1}, step(4)});
  }
  folder.write("log", read_text_file(path) + "{\"step\":5,\"lo");  // killed in the middle of a line
  TrainLog log = value_of(TrainLog::resume(path, 2));
  write_all(log, {ResumeRecord{.step = 2, .path = "c"}, step(3)});
  const auto events = value_of(read_train_log(path));
  std::vector<uint64_t> steps;
  for (const TrainEvent& event : events) steps.push_back(step_of(event));
  EXPECT_EQ(steps, (std::vector<uint64_t>{1, 2, 2, 2, 3}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"log"});
}

TEST(TrainLog, ResumingWithoutAFileStartsOneAndLeavesForeignFilesAlone) {
  const TempFolder folder;
  EXPECT_TRUE(TrainLog::resume(folder.path("new"), 7));
  EXPECT_EQ(read_text_file(folder.path("new")), "");
  const std::string other = folder.write("letter", "Dear reader,\n");
  EXPECT_THAT(error_of(TrainLog::resume(other, 7)), HasSubstr("the log cannot be continued; name another file"));
  EXPECT_EQ(read_text_file(other), "Dear reader,\n");
}

TEST(TrainLog, AFullDiskIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  const FaultyFileSystem files(FaultyFileSystem::fail_every("write_at", ENOSPC));
  TrainLog log = value_of(TrainLog::create(folder.path("log"), &files));
  EXPECT_THAT(error_of(log.write(step(1))), HasSubstr("log: cannot write"));
  EXPECT_THAT(error_of(TrainLog::create("/nowhere/log")), HasSubstr("/nowhere/log: cannot write"));
}

}  // namespace
}  // namespace ballast::testing
