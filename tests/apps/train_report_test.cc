#include "apps/ballast/output/train_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "apps/ballast/output/svg_chart.h"
#include "ballast/training/train_event.h"
#include "tests/support/temp_folder.h"

namespace ballast::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TrainHistory sample_history(uint64_t steps) {
  TrainHistory history;
  for (uint64_t i = 1; i <= steps; ++i) {
    const auto at = static_cast<double>(i) / static_cast<double>(steps);
    history.add(StepRecord{.step = i,
                           .loss = 2.3 * std::exp(-4 * at) + 0.05 + 0.1 * std::sin(static_cast<double>(i) * 12.9898),
                           .lr = 1e-3 * (1 + std::cos(3.14159 * at)) / 2,
                           .grad_norm = 0.5 + at,
                           .items = 64,
                           .seconds = 0.002});
    if (i % (steps / 10) == 0)
      history.add(EvalRecord{.step = i,
                             .loss = 2 * std::exp(-3 * at) + 0.1,
                             .accuracy = 1 - 0.9 * std::exp(-4 * at),
                             .items = 360,
                             .seconds = 0.1});
  }
  history.add(CheckpointRecord{
      .step = steps, .path = "runs/digits/step-" + std::to_string(steps), .bytes = 1, .paused_seconds = 0});
  return history;
}

TrainReport sample_report() {
  return {.title = "digits.toml",
          .item = "images",
          .config = "{\n  \"train\": {\n    \"steps\": 400\n  }\n}",
          .facts = {{"model", "Sequential, 5 layers"}}};
}

// Every tag that is opened is closed, in order.
void expect_well_formed(const std::string& text) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-zA-Z0-9]+)([^<>]*?)(/?)>");
  for (std::sregex_iterator it(text.begin(), text.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta") continue;
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty()) << name;
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else if ((*it)[4] != "/") {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

TEST(TrainReport, ThePageHoldsCurvesResultsAndConfiguration) {
  const std::string page = render_html_report(sample_report(), sample_history(400));
  expect_well_formed(page.substr(page.find("<html")));
  for (const std::string_view text :
       {">Loss<", ">Learning rate<", ">Gradient norm<", ">Accuracy on held-out data<", ">smoothed<", ">held out<",
        "<td>steps</td><td>400</td>", "<td>images</td><td>25,600</td>", "<td>model</td><td>Sequential, 5 layers</td>",
        "&quot;steps&quot;: 400", "held out, best", "prefers-color-scheme: dark", "runs/digits/step-400 (step 400)"}) {
    EXPECT_THAT(page, HasSubstr(std::string(text)));
  }
}

TEST(TrainReport, NothingComesFromElsewhereAndNothingRuns) {
  for (const std::string& text : {render_html_report(sample_report(), sample_history(400)),
                                  render_svg_report(sample_report(), sample_history(400))}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("https://")), Not(HasSubstr("href")),
                            Not(HasSubstr("src=")), Not(HasSubstr("@import")), Not(HasSubstr("url("))));
    EXPECT_THAT(text, Not(HasSubstr("nan")));
  }
}

TEST(TrainReport, ThePictureIsASoundSvg) {
  const std::string picture = render_svg_report(sample_report(), sample_history(400));
  EXPECT_TRUE(picture.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  expect_well_formed(picture);
}

TEST(TrainReport, EverythingFromOutsideIsEscaped) {
  TrainReport report = sample_report();
  const std::string evil = "</title><script>alert('x')</script>&\"\x01\xFF";
  report.title = evil;
  report.config = evil;
  report.item = evil;
  report.facts = {{evil, evil}};
  TrainHistory history = sample_history(20);
  history.add(CheckpointRecord{.step = 20, .path = evil, .bytes = 1, .paused_seconds = 0});
  history.add(ResumeRecord{.step = 3, .path = evil});
  for (const std::string& text : {render_html_report(report, history), render_svg_report(report, history)}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("\x01")), Not(HasSubstr("\xFF"))));
    EXPECT_THAT(text, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;\xEF\xBF\xBD"));
  }
}

TEST(TrainReport, ALongRunMakesASmallReport) {
  EXPECT_LT(render_html_report(sample_report(), sample_history(100000)).size(), 400000U);
}

TEST(TrainReport, ARunWithoutAStepOrWithOneIsAReportToo) {
  EXPECT_THAT(render_html_report(sample_report(), {}), HasSubstr("nothing was recorded"));
  TrainHistory history;
  history.add(StepRecord{.step = 1, .loss = 0, .lr = 0, .items = 1, .seconds = 0});
  const std::string page = render_html_report(sample_report(), history);
  expect_well_formed(page.substr(page.find("<html")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf,"))));
  history.add(StepRecord{.step = 2, .loss = std::nan(""), .lr = 0, .items = 1, .seconds = 0});
  EXPECT_THAT(render_html_report(sample_report(), history), HasSubstr("<td>last loss</td><td>nan"));
}

TEST(TrainReport, TheEndingOfTheNameDecides) {
  const ballast::testing::TempFolder folder;
  const TrainHistory history = sample_history(20);
  EXPECT_TRUE(write_train_report(folder.path("r.html"), sample_report(), history));
  EXPECT_TRUE(write_train_report(folder.path("r.svg"), sample_report(), history));
  EXPECT_TRUE(ballast::testing::read_text_file(folder.path("r.html")).starts_with("<!doctype html>"));
  EXPECT_TRUE(ballast::testing::read_text_file(folder.path("r.svg")).starts_with("<svg"));
  const Status status = check_report_path("r.pdf");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("r.pdf: a report must be named .html or .svg"));
}

TEST(SvgChart, AxesHaveRoundNumbers) {
  Chart chart{"Title", "step"};
  chart.curves.push_back({"line", "c1", {{0, 0}, {50, 2}, {100, 4}}});
  const std::string text = draw_chart(chart);
  EXPECT_THAT(text, AllOf(HasSubstr(">1</text>"), HasSubstr(">4</text>"), HasSubstr(">100</text>"),
                          Not(HasSubstr("logarithmic"))));
  chart.curves[0].points = {{0, 0.01}, {100, 10}};
  EXPECT_THAT(draw_chart(chart), AllOf(HasSubstr(">0.1</text>"), HasSubstr("logarithmic")));
}

}  // namespace
}  // namespace ballast::cli
