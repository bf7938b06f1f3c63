#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/output/checkpoints_output.h"
#include "apps/ballast/output/model_output.h"
#include "apps/ballast/output/output_format.h"
#include "apps/ballast/output/text.h"
#include "ballast/io/output_path.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/training/checkpoints/burn_checkpoint.h"
#include "ballast/training/checkpoints/checkpoint_export.h"
#include "ballast/training/tokenizer_files.h"

namespace ballast::cli {

namespace {

struct CheckpointsFlags {
  std::string action;
  std::string folder;
  std::string which;  // step, "latest" or "best"
  uint64_t keep_last = 0;
  std::string metric;
  uint64_t best_count = 1;
  uint64_t keep_every = 0;
  bool larger = false;
  bool with_state = false;
  std::string optimizer;  // where Burn's record of the optimizer goes
  bool json = false;
  OutputFlags output;
  std::vector<std::string> given;
};

constexpr std::array<std::string_view, 4> kActions = {"list", "verify", "prune", "export"};

Error bad_usage(std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); }

bool is_given(const CheckpointsFlags& flags, std::string_view name) {
  return std::ranges::find(flags.given, name) != flags.given.end();
}

// ---------------------------------------------------------------- what was asked for

Status check_action(const CheckpointsFlags& flags) {
  if (std::ranges::find(kActions, flags.action) != kActions.end()) return {};
  const std::string_view meant = nearest(flags.action, kActions);
  return bad_usage(meant.empty()
                       ? fmt::format("unknown action \"{}\"; use one of: {}", flags.action, fmt::join(kActions, ", "))
                       : fmt::format("unknown action \"{}\"; did you mean \"{}\"?", flags.action, meant));
}

// An option of another action would do nothing.
Status check_flags(const CheckpointsFlags& flags) {
  struct Row {
    std::string_view name;
    std::string_view actions;
  };
  constexpr std::array kRows = {Row{"--keep-last", "list, prune"},      Row{"--keep-every", "list, prune"},
                                Row{"--best-count", "list, prune"},     Row{"--keep-best", "list, prune, export"},
                                Row{"--larger", "list, prune, export"}, Row{"--dry-run", "prune, export"},
                                Row{"--threads", "verify, export"},     Row{"--json", "list, verify, prune, export"}};
  for (const std::string& name : flags.given) {
    if (!name.starts_with("--")) continue;
    const auto row = std::ranges::find(kRows, name, &Row::name);
    const std::string_view actions = row == kRows.end() ? "export" : row->actions;
    if (actions.find(flags.action) == std::string_view::npos) {
      return bad_usage(fmt::format("{} belongs to {}, not to {}", name, actions, flags.action));
    }
  }
  if (flags.action == "export") {
    if (!flags.output.path.empty()) return {};
    return bad_usage("export needs a checkpoint (a step, latest or best) and an output file");
  }
  if (!flags.output.path.empty() || (!flags.which.empty() && flags.action != "verify")) {
    return bad_usage(
        fmt::format("\"{}\" is one argument too many", flags.output.path.empty() ? flags.which : flags.output.path));
  }
  return {};
}

bool has_policy(const CheckpointsFlags& flags) {
  return is_given(flags, "--keep-last") || is_given(flags, "--keep-best") || is_given(flags, "--keep-every");
}

CheckpointPolicy policy_of(const CheckpointsFlags& flags) {
  CheckpointPolicy policy;
  policy.keep_last = std::max<uint64_t>(flags.keep_last, 1);  // the newest stays in any case
  policy.metric = flags.metric;
  policy.keep_best = flags.metric.empty() ? 0 : flags.best_count;
  policy.larger_is_better = flags.larger;
  policy.keep_every = flags.keep_every;
  return policy;
}

Status check_metric(const CheckpointList& list, const std::string& metric) {
  if (metric.empty() || list.checkpoints.empty()) return {};
  std::vector<std::string_view> names;
  for (const CheckpointManifest& checkpoint : list.checkpoints) {
    for (const auto& [name, value] : checkpoint.metrics) {
      if (name == metric) return {};
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("no checkpoint has a metric \"{}\"{}", metric,
                                names.empty() ? "" : fmt::format("; there are: {}", fmt::join(names, ", "))));
}

Result<const CheckpointManifest*> best_checkpoint(const CheckpointsFlags& flags, const CheckpointList& list) {
  if (flags.metric.empty())
    return bad_usage("best by which metric? Give --keep-best METRIC, and --larger if larger is better");
  CheckpointPolicy policy = policy_of(flags);
  policy.keep_best = 1;
  const std::vector<std::string> reasons = find_kept(list.checkpoints, policy);
  for (size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i].find("best") != std::string::npos) return &list.checkpoints[i];
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: no checkpoint has a number for \"{}\"", flags.folder, flags.metric));
}

// The step in "step-00000040.json"; 0 where the name says none.
uint64_t step_in_name(std::string_view file) {
  const size_t digit = file.find_first_of("0123456789");
  uint64_t step = 0;
  if (digit != std::string_view::npos) std::from_chars(file.data() + digit, file.data() + file.size(), step);
  return step;
}

// "latest" must not quietly become the one before: a checkpoint that cannot be read may be newer than all others.
Status check_is_newest(const CheckpointsFlags& flags, const CheckpointList& list, const CheckpointManifest& newest) {
  for (const DamagedManifest& damaged : list.damaged) {
    if (step_in_name(damaged.file) < newest.step) continue;
    return make_error(
        ErrorCode::kCorrupt,
        fmt::format(
            "{}: the newest checkpoint cannot be read: {}; the newest intact one is step {}: give that step to use it",
            flags.folder, damaged.why, newest.step));
  }
  return {};
}

Result<const CheckpointManifest*> choose(const CheckpointsFlags& flags, const CheckpointList& list) {
  if (list.checkpoints.empty()) {
    return make_error(ErrorCode::kNotFound, list.damaged.empty()
                                                ? fmt::format("{}: there are no checkpoints", flags.folder)
                                                : fmt::format("{}: no checkpoint has a readable manifest; {}",
                                                              flags.folder, list.damaged.front().why));
  }
  if (flags.which == "latest") {
    BALLAST_CHECK(check_is_newest(flags, list, list.checkpoints.back()));
    return &list.checkpoints.back();
  }
  if (flags.which == "best") return best_checkpoint(flags, list);
  uint64_t step = 0;
  const char* const end = flags.which.data() + flags.which.size();
  const auto parsed = std::from_chars(flags.which.data(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return bad_usage(fmt::format("\"{}\" is neither a step nor latest nor best", flags.which));
  }
  std::vector<uint64_t> steps;
  for (const CheckpointManifest& checkpoint : list.checkpoints) {
    if (checkpoint.step == step) return &checkpoint;
    steps.push_back(checkpoint.step);
  }
  return make_error(ErrorCode::kNotFound, fmt::format("{}: no checkpoint at step {}; there are: {}", flags.folder, step,
                                                      fmt::join(steps, ", ")));
}

// ---------------------------------------------------------------- the four

Result<int> list(const CheckpointsFlags& flags, Console& console) {
  ListedFolder listed{flags.folder, {}, {}};
  BALLAST_CHECK(assign(listed.list, list_checkpoints(flags.folder)));
  BALLAST_CHECK(check_metric(listed.list, flags.metric));
  if (has_policy(flags)) listed.kept = find_kept(listed.list.checkpoints, policy_of(flags));
  if (flags.json) console.out() += checkpoint_list_json(listed);
  else print_checkpoint_list(listed, console);
  return listed.list.damaged.empty() ? kExitYes : kExitNo;
}

Result<CheckedCheckpoint> check(const CheckpointsFlags& flags, const CheckpointManifest& manifest,
                                const Progress& progress) {
  CheckedCheckpoint checked{fmt::format("step {}", manifest.step),
                            manifest.weights.size() + manifest.state.size(),
                            manifest.payload_bytes(),
                            {}};
  const auto loaded = LoadedCheckpoint::open(flags.folder, manifest);
  if (!loaded) {
    checked.damage.push_back(loaded.error().message);
    return checked;
  }
  BALLAST_CHECK(assign(checked.damage, loaded->find_damage(flags.output.options.threads, progress)));
  return checked;
}

// A trainer may prune while this reads: what has no manifest any more is not damaged but gone.
bool still_there(const CheckpointsFlags& flags, const CheckpointManifest& manifest) {
  const auto now = list_checkpoints(flags.folder);
  return !now || std::ranges::any_of(now->checkpoints, [&](const CheckpointManifest& other) {
    return other.step == manifest.step && other.sequence == manifest.sequence;
  });
}

Result<int> verify_folder(const CheckpointsFlags& flags, Console& console) {
  BALLAST_TRY(const CheckpointList found, list_checkpoints(flags.folder));
  std::vector<CheckedCheckpoint> checked;
  std::vector<const CheckpointManifest*> wanted;
  if (flags.which.empty()) {
    for (const DamagedManifest& damaged : found.damaged) checked.push_back({damaged.file, 0, 0, {damaged.why}});
    for (const CheckpointManifest& manifest : found.checkpoints) wanted.push_back(&manifest);
  } else {
    BALLAST_TRY(const CheckpointManifest* chosen, choose(flags, found));
    wanted.push_back(chosen);
  }
  ProgressBar bar(console.errors());
  for (const CheckpointManifest* manifest : wanted) {
    BALLAST_TRY(CheckedCheckpoint one, check(flags, *manifest, bar.callback()));
    if (one.damage.empty() || still_there(flags, *manifest)) checked.push_back(std::move(one));
  }
  if (flags.json) console.out() += checkpoint_verify_json(flags.folder, checked);
  else print_checkpoint_verify(flags.folder, checked, console);
  return std::ranges::all_of(checked, [](const auto& one) { return one.damage.empty(); }) ? kExitYes : kExitNo;
}

Result<int> prune(const CheckpointsFlags& flags, Console& console) {
  if (!has_policy(flags))
    return bad_usage("prune needs to know what to keep: give --keep-last, --keep-best or --keep-every");
  BALLAST_TRY(const CheckpointList found, list_checkpoints(flags.folder));  // the manager would make a missing folder
  if (found.checkpoints.empty() && !found.damaged.empty()) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: no checkpoint can be read, so none was removed; {}",
                                                       flags.folder, found.damaged.front().why));
  }
  BALLAST_CHECK(check_metric(found, flags.metric));
  BALLAST_TRY(const auto manager, CheckpointManager::open(flags.folder, {}));
  BALLAST_TRY(const PruneReport report, manager->prune(policy_of(flags), flags.output.options.dry_run));
  if (flags.json) console.out() += checkpoint_prune_json(flags.folder, report, flags.output.options.dry_run);
  else print_checkpoint_prune(report, flags.output.options.dry_run, console);
  return kExitYes;
}

// The two files that Burn's trainer goes on from, at once or not at all.
Status export_burn(const CheckpointsFlags& flags, const LoadedCheckpoint& checkpoint, const FormatDriver& format,
                   Console& console) {
  const bool dry = flags.output.options.dry_run;
  if (format.name != "burnpack" || flags.with_state || flags.output.path == "-") {
    return bad_usage(
        "--optimizer writes a Burn record next to Burnpack weights: OUT must be a .bpk file, without --with-state");
  }
  BALLAST_TRY(const ImportedBurnRecords records, make_burn_snapshot(checkpoint));
  CommitOptions commit;
  commit.overwrite = flags.output.options.write.commit.overwrite;
  commit.sync = !flags.output.no_sync;
  if (!dry) BALLAST_CHECK(export_burn_records(records.snapshot, {flags.output.path, flags.optimizer, ""}, commit));
  if (flags.json) {
    console.out() += burn_export_json(flags.folder, records.snapshot, flags.output.path, flags.optimizer, dry);
  } else {
    print_burn_export(records.snapshot, flags.output.path, flags.optimizer, dry, console);
  }
  return {};
}

// ---------------------------------------------------------------- export

// Folders above a destination, whether that is a file or a folder itself.
Status create_place(const OutputFlags& output) {
  if (is_stream(output.path) || output.options.dry_run) return {};
  std::string path = output.path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return nn::create_parents(path);
}

// Where the model gets another form: other names, and a config and a tokenizer that are written from its own.
bool wants_new_form(const CheckpointsFlags& flags, const FormatDriver& format) {
  return names_a_folder(flags.output.path) || format.name == "gguf";
}

// Of a model that no other program has, as a folder that runs here.
ExchangePlan plan_own_folder(const FormatDriver& format) {
  ExchangePlan plan;
  plan.edits.push_back(keep_runnable(format));
  plan.notes.emplace_back("transformers has no such model: the folder runs in Ballast alone");
  return plan;
}

Result<ExchangePlan> plan_new_form(const CheckpointsFlags& flags, const Archive& weights, const FormatDriver& format) {
  auto plan = plan_output({flags.folder, weights}, flags.output, format);
  const bool has_own_folder = format.name == "safetensors";
  if (!plan && plan.error().code == ErrorCode::kUnsupported && has_own_folder) plan = plan_own_folder(format);
  if (!plan) return plan;
  if (plan->is_new_form && flags.with_state) {
    return bad_usage(
        fmt::format("{}: another program's model has no place for what training adds: export --with-state to a "
                    ".safetensors file",
                    flags.output.path));
  }
  if (plan->is_new_form || flags.output.container_only) return plan;
  BALLAST_CHECK(assign(plan->companions, find_tokenizer_files(flags.folder)));
  return plan;
}

// A folder is written anew and then takes the place of the old one, under which a trainer may hold its lock.
Status refuse_run_folder(const CheckpointsFlags& flags) {
  std::error_code none;
  if (!std::filesystem::equivalent(flags.folder, flags.output.path, none)) return {};
  return bad_usage(
      fmt::format("{}: the folder holds the run's checkpoints; export to a folder of its own", flags.output.path));
}

Result<ConvertReport> export_new_form(CheckpointsFlags& flags, const LoadedCheckpoint& checkpoint,
                                      const FormatDriver& format) {
  BALLAST_CHECK(refuse_run_folder(flags));
  BALLAST_TRY(const Archive weights, checkpoint.weights_archive());
  BALLAST_TRY(const ExchangePlan plan, plan_new_form(flags, weights, format));
  BALLAST_CHECK(create_place(flags.output));
  return write_planned(make_export_plan(checkpoint, format.name, flags.with_state), plan, flags.output, format);
}

// What a text model is prompted with stands beside its checkpoints.
Result<std::vector<CompanionFile>> exported_companions(const CheckpointsFlags& flags) {
  if (is_stream(flags.output.path) || flags.output.container_only || flags.output.options.dry_run)
    return std::vector<CompanionFile>();
  BALLAST_TRY(auto files, find_tokenizer_files(flags.folder));
  BALLAST_CHECK(check_tokenizer_place(flags.output.path, files, flags.output.options.write.commit.overwrite));
  return files;
}

// The model as it was trained, in one file. It appears together with its tokenizer.
Result<ConvertReport> export_as_trained(CheckpointsFlags& flags, const LoadedCheckpoint& checkpoint,
                                        const FormatDriver& format) {
  BALLAST_TRY(const std::vector<CompanionFile> companions, exported_companions(flags));
  BALLAST_CHECK(create_place(flags.output));
  keep_output_runnable(flags.output, format);
  ExportOptions options{flags.with_state, flags.output.options};
  if (companions.empty()) return export_checkpoint(checkpoint, flags.output.path, format, options);
  BALLAST_CHECK(check_output_path(flags.output.path, options.convert.write.commit.overwrite));
  AtomicFiles set({.overwrite = true, .sync = !flags.output.no_sync});  // a tokenizer that is there is the same
  BALLAST_CHECK(add_companions(set, flags.output.path, companions));
  options.convert.write.set = &set;
  BALLAST_TRY(ConvertReport report, export_checkpoint(checkpoint, flags.output.path, format, options));
  BALLAST_CHECK(set.commit());
  return report;
}

Status export_to(CheckpointsFlags& flags, const Output& output, Console& console) {
  BALLAST_TRY(const FormatDriver* format, choose_output_format(flags.output));
  BALLAST_TRY(const CheckpointList found, list_checkpoints(flags.folder));
  BALLAST_CHECK(check_metric(found, flags.metric));
  BALLAST_TRY(const CheckpointManifest* manifest, choose(flags, found));
  BALLAST_TRY(const LoadedCheckpoint checkpoint, LoadedCheckpoint::open(flags.folder, *manifest));
  if (!flags.optimizer.empty()) return export_burn(flags, checkpoint, *format, console);
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  const bool is_new = wants_new_form(flags, *format);
  BALLAST_TRY(const ConvertReport report,
              is_new ? export_new_form(flags, checkpoint, *format) : export_as_trained(flags, checkpoint, *format));
  const bool dry = flags.output.options.dry_run;
  if (flags.json) {
    console.out() += checkpoint_export_json(flags.folder, checkpoint.step(), flags.output.path, report, dry);
  } else {
    print_checkpoint_export(checkpoint.step(), flags.output.path, report, flags.output.options, console);
  }
  return {};
}

int run_checkpoints(CheckpointsFlags& flags, Console& console) {
  Status usage = check_action(flags);
  if (usage) usage = check_flags(flags);
  if (!usage) return console.fail(usage.error(), flags.json);
  if (flags.action == "export") {
    return write_through(flags.output, flags.json, console,
                         [&](const Output& output) { return export_to(flags, output, console); });
  }
  const auto code = flags.action == "list"     ? list(flags, console)
                    : flags.action == "verify" ? verify_folder(flags, console)
                                               : prune(flags, console);
  return code ? *code : console.fail(code.error(), flags.json);
}

constexpr const char* kCheckpointsFooter =
    "list    list the checkpoints; with rules such as --keep-last, show what prune would keep and why\n"
    "verify  read everything and compare all digests; exit code 1 if anything is damaged\n"
    "prune   remove checkpoints that no --keep rule keeps, and files that no checkpoint uses; the newest always stays\n"
    "export  write a runnable model with its tokenizer: layer models as .netcl or .safetensors, text models as "
    ".gptrs,\n"
    "        .safetensors, .gguf or a Hugging Face folder (ending in /); --container-only writes only the weights, in\n"
    "        any format\n"
    "\n"
    "While a run is training, its folder can be listed, verified and exported from, but not pruned.\n"
    "\n"
    "Examples:\n"
    "  ballast checkpoints list runs/digits\n"
    "  ballast checkpoints verify runs/digits\n"
    "  ballast checkpoints verify runs/digits latest --json\n"
    "  ballast checkpoints prune runs/digits --keep-last 2 --keep-best loss --dry-run\n"
    "  ballast checkpoints export runs/digits latest digits.safetensors\n"
    "  ballast checkpoints export runs/notes latest notes/\n"
    "  ballast checkpoints export runs/digits best best.bpk --keep-best loss --with-state --container-only\n"
    "  ballast checkpoints export runs/digits latest digits.bpk --optimizer optim.bpk\n";

}  // namespace

RunCommand add_checkpoints(CLI::App& program, Console& console) {
  auto command =
      std::make_shared<Command>(program, "checkpoints", "List, check, prune and export training checkpoints");
  auto flags = std::make_shared<CheckpointsFlags>();
  command->path("ACTION", flags->action, "list, verify, prune or export");
  command->path("FOLDER", flags->folder, "Checkpoint folder of a training run");
  command->optional_path("CHECKPOINT", flags->which, "Checkpoint to verify or export: a step, latest or best");
  command->optional_path("OUT", flags->output.path,
                         "Where to export: a file, in the format of its extension, or a folder");
  command->count("--keep-last", "N", flags->keep_last, "Keep the N newest", 1);
  command->text("--keep-best", "METRIC", flags->metric, "Keep the best by this metric (smallest is best)");
  command->count("--best-count", "N", flags->best_count, "Keep the N best (1)", 1);
  command->flag("--larger", flags->larger, "Treat larger values of the metric as better");
  command->count("--keep-every", "N", flags->keep_every, "Keep those whose step is a multiple of N", 1);
  command->flag("--with-state", flags->with_state,
                "Also export the training state, under names that begin with state.");
  command->written_file("--optimizer", flags->optimizer,
                        "Also export the optimizer state as a Burn record; weights must be .bpk");
  add_container_flag(*command, flags->output);
  add_output_flags(*command, flags->output);
  command->json(flags->json);
  command->footer(kCheckpointsFooter);
  return [command, flags, &console] {
    flags->given = command->given();
    return run_checkpoints(*flags, console);
  };
}

}  // namespace ballast::cli
