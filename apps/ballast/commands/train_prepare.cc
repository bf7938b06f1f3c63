#include "apps/ballast/commands/train_prepare.h"

#include <fmt/format.h>

#include "apps/ballast/models/image_file.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/train_report.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/base/json.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

// Flags are shorter names of keys, and win over them.
Result<TrainConfig> read_train_config(const TrainFlags& flags) {
  if (is_stream(flags.config)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "CONFIG must be a file, because its paths start from its folder; ./- is a file named \"-\"");
  }
  std::vector<std::string> set = flags.set;
  // In quotes: --log 2024 names a file, not a number.
  const auto also = [&set](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    JsonWriter json;
    json.string(value);
    set.push_back(fmt::format("{}={}", key, is_valid_utf8(value) ? json.take() : value));
  };
  also("log.file", flags.log);
  also("log.report", flags.report);
  also("train.output", flags.output);
  also("checkpoint.folder", flags.checkpoints);
  also("checkpoint.resume", flags.resume);
  if (flags.steps != 0) set.push_back(fmt::format("train.steps={}", flags.steps));
  if (flags.threads != 0) set.push_back(fmt::format("train.threads={}", flags.threads));
  return load_train_config(flags.config, set);
}

}  // namespace

std::string history_path(const std::string& checkpoints) { return fmt::format("{}/history.jsonl", checkpoints); }

Result<PreparedRun> prepare_run(const TrainFlags& flags, Console& console) {
  BALLAST_TRY(const TrainConfig config, read_train_config(flags));
  if (!config.log.report.empty()) BALLAST_CHECK(check_report_place(config.log.report));
  ProgressBar bar(console.errors());
  PrepareOptions options;
  options.backend = flags.backend;
  options.overwrite = flags.overwrite;
  options.checkpoints = !flags.check;
  options.writes_report = true;
  options.files_in_use.emplace_back(flags.config, "the configuration");
  if (!config.checkpoint.folder.empty())
    options.files_in_use.emplace_back(history_path(config.checkpoint.folder), "the history");
  options.read_picture = read_picture;
  options.progress = bar.callback();
  options.on_note = [&](std::string_view text) { console.remark(printable(text) + '\n'); };
  options.on_complaint = [&](std::string_view text) { console.complain(printable(text)); };
  return ballast::prepare_run(config, options);
}

}  // namespace ballast::cli
