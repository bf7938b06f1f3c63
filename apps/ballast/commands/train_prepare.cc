#include "apps/ballast/commands/train_prepare.h"

#include <fmt/format.h>

#include "apps/ballast/models/image_file.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/train_report.h"
#include "apps/ballast/terminal/progress_bar.h"

namespace ballast::cli {

namespace {

// Flags are shorter names of keys, and win over them.
Result<TrainConfig> read_train_config(const TrainFlags& flags) {
  std::vector<std::string> set = flags.set;
  const auto also = [&set](std::string_view key, const std::string& value) {
    if (!value.empty()) set.push_back(fmt::format("{}={}", key, value));
  };
  also("log.file", flags.log);
  also("log.report", flags.report);
  also("train.output", flags.output);
  also("checkpoint.folder", flags.checkpoints);
  also("checkpoint.resume", flags.resume);
  if (flags.steps != 0) also("train.steps", std::to_string(flags.steps));
  if (flags.threads != 0) also("train.threads", std::to_string(flags.threads));
  return load_train_config(flags.config, set);
}

}  // namespace

Result<PreparedRun> prepare_run(const TrainFlags& flags, Console& console) {
  BALLAST_TRY(const TrainConfig config, read_train_config(flags));
  if (!config.log.report.empty()) BALLAST_CHECK(check_report_path(config.log.report));
  ProgressBar bar(console.errors());
  PrepareOptions options;
  options.backend = flags.backend;
  options.overwrite = flags.overwrite;
  options.checkpoints = !flags.check;
  options.writes_report = true;
  options.read_picture = read_picture;
  options.progress = bar.callback();
  options.on_note = [&](std::string_view text) { console.remark(printable(text) + '\n'); };
  options.on_complaint = [&](std::string_view text) { console.complain(printable(text)); };
  return ballast::prepare_run(config, options);
}

}  // namespace ballast::cli
