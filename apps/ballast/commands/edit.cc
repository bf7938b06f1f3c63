#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/output_flags.h"
#include "apps/ballast/models/file_lock.h"
#include "apps/ballast/output/convert_report.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/meta_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "ballast/archive/assemble.h"

namespace ballast::cli {

namespace {

struct MetadataFlags {
  std::string source;
  std::vector<std::string> set;       // KEY=VALUE
  std::vector<std::string> set_json;  // KEY=VALUE
  std::vector<std::string> unset;
  OutputFlags output;
  bool json = false;
};

// One key: what it says now, and what it is to say; absent: nothing.
struct Change {
  std::string key;
  std::optional<MetaValue> before;
  std::optional<MetaValue> after;
};

struct Edited {
  std::vector<Change> changes;
  ConvertReport report;
  bool config_changed = false;
};

// ---------------------------------------------------------------- what is asked

Result<std::pair<std::string, std::string>> split_assignment(const std::string& text, std::string_view option) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals != 0) return std::pair(text.substr(0, equals), text.substr(equals + 1));
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} {}: write KEY=VALUE", option, text));
}

Result<MetaValue> parse_typed(const std::string& text) {
  JsonReader reader(text, "--set-json");
  const auto refuse = [&] {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--set-json: {} is not a JSON number, text, true or false", text));
  };
  const auto type = reader.peek();
  if (!type) return refuse();
  MetaValue value;
  if (*type == JsonType::kString) {
    BALLAST_TRY(value, reader.read_string());
  } else if (*type == JsonType::kTrue || *type == JsonType::kFalse) {
    BALLAST_TRY(value, reader.read_bool());
  } else if (*type == JsonType::kNumber) {
    const bool whole = text.find_first_of(".eE") == std::string::npos;
    if (!whole) {
      BALLAST_TRY(value, reader.read_double());
    } else if (auto small = JsonReader(text, "--set-json").read_i64()) {
      value = *small;
      BALLAST_CHECK(reader.skip_value());
    } else {
      BALLAST_TRY(value, reader.read_u64());
    }
  } else {
    return refuse();
  }
  if (!reader.finish()) return refuse();
  return value;
}

Result<std::vector<Change>> parse_changes(const MetadataFlags& flags) {
  std::vector<Change> changes;
  for (const std::string& text : flags.set) {
    BALLAST_TRY(auto assignment, split_assignment(text, "--set"));
    changes.push_back({std::move(assignment.first), std::nullopt, std::move(assignment.second)});
  }
  for (const std::string& text : flags.set_json) {
    BALLAST_TRY(auto assignment, split_assignment(text, "--set-json"));
    BALLAST_TRY(MetaValue value, parse_typed(assignment.second));
    changes.push_back({std::move(assignment.first), std::nullopt, std::move(value)});
  }
  for (const std::string& key : flags.unset) changes.push_back({key, std::nullopt, std::nullopt});
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto same_key = [&](const Change& other) { return other.key == changes[i].key; };
    if (std::none_of(changes.begin(), changes.begin() + static_cast<ptrdiff_t>(i), same_key)) continue;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is changed twice", changes[i].key));
  }
  for (const Change& change : changes) {
    if (change.key != kOriginKey) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("\"{}\" is managed by ballast and cannot be set", kOriginKey));
  }
  return changes;
}

// ---------------------------------------------------------------- doing it

// A number takes the kind of number that the key had: programs that read it expect no other.
MetaValue like_before(const MetaValue& before, MetaValue after) {
  const auto* integer = std::get_if<int64_t>(&after);
  if (integer == nullptr) return after;
  if (std::holds_alternative<uint64_t>(before) && *integer >= 0) return static_cast<uint64_t>(*integer);
  if (std::holds_alternative<double>(before)) return static_cast<double>(*integer);
  return after;
}

Status apply_change(std::vector<MetaEntry>& metadata, Change& change) {
  const auto found = std::ranges::find(metadata, change.key, &MetaEntry::key);
  if (found != metadata.end()) change.before = found->value;
  if (!change.after) {
    if (found == metadata.end()) {
      std::vector<std::string_view> keys;
      for (const MetaEntry& entry : metadata) keys.push_back(entry.key);
      const std::string_view meant = nearest(change.key, keys);
      return make_error(ErrorCode::kNotFound,
                        meant.empty()
                            ? fmt::format("there is no metadata \"{}\"", change.key)
                            : fmt::format("there is no metadata \"{}\"; did you mean \"{}\"?", change.key, meant));
    }
    metadata.erase(found);
  } else if (found != metadata.end()) {
    change.after = like_before(found->value, *std::move(change.after));
    found->value = *change.after;
  } else {
    metadata.push_back({change.key, *change.after});
  }
  return {};
}

// Whether a reader of the format itself will see what was set, and not only this program by ballast.origin.
Status check_stored(const FormatDriver& format, const Description& wanted, const ConvertOptions& options,
                    const std::string& file_name, const std::vector<Change>& changes) {
  BALLAST_TRY(const Description written, preview_description(format, wanted, options.write.format, file_name));
  for (const Change& change : changes) {
    if (!change.after) continue;
    const MetaEntry entry{change.key, *change.after};
    if (std::ranges::find(written.metadata, entry) != written.metadata.end()) continue;
    const bool texts = std::ranges::any_of(
        written.metadata, [](const MetaEntry& known) { return std::holds_alternative<std::string>(known.value); });
    if (texts || format.name == "safetensors") {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{} metadata is text: use --set {}=..., or convert to burnpack, which has typed values",
                      format.name, change.key));
    }
    return make_error(ErrorCode::kUnsupported,
                      format.config_schema.empty()
                          ? fmt::format("{} files cannot store metadata; convert to safetensors or burnpack, which "
                                        "can, or keep it in a separate file",
                                        format.name)
                          : fmt::format("{} files store no metadata except the model config, which --config FILE "
                                        "replaces; safetensors and burnpack do",
                                        format.name));
  }
  return {};
}

// A set of files cannot be replaced in one step.
Status check_in_place(const MetadataFlags& flags, const Archive& source) {
  if (!flags.output.path.empty()) return {};
  std::error_code none;
  if (is_stream(flags.source)) {
    return make_error(ErrorCode::kInvalidArgument, "standard input cannot be changed in place: give -o OUT");
  }
  if (source.sources().size() == 1 && std::filesystem::is_regular_file(flags.source, none)) return {};
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("{}: a set of files cannot be changed in place: give -o OUT for a new file", flags.source));
}

Result<Edited> edit(MetadataFlags& flags, const Output& output, Console& console) {
  Edited edited;
  BALLAST_TRY(edited.changes, parse_changes(flags));
  ConvertOptions& options = flags.output.options;
  OwnedFd turn;  // held until the new version is in place
  if (flags.output.path.empty() && !is_stream(flags.source)) {
    BALLAST_CHECK(assign(turn, lock_to_replace(flags.source)));
    if (const auto version = version_of(flags.source)) options.write.commit.replaced = *version;
  }
  BALLAST_TRY(const Archive source, open_input(flags.source, FileAccess::kPositional));
  BALLAST_CHECK(check_in_place(flags, source));
  const FormatDriver& format = *find_format(source.description().format);
  ProgressBar bar(console.errors());
  BALLAST_CHECK(finish_options(flags.output, output, bar));
  const bool in_place = flags.output.path.empty();
  const std::string destination = in_place ? flags.source : flags.output.path;
  if (in_place) options.write.commit.overwrite = true;
  options.keep_order = source.description().origin.has_value();  // else the order is the file's own

  std::vector<std::string> notes;
  BALLAST_TRY(
      WritePlan plan,
      make_full_plan(source, notes, {.tie_for = &format, .threads = options.threads, .progress = bar.callback()}));
  // What the file itself says: an origin may speak of another config.
  const auto& config = source.description().config;
  edited.config_changed = options.config_text && (!config || config->text != *options.config_text);
  if (!options.config_text && config && config->schema == format.config_schema) plan.description.config = config;
  for (Change& change : edited.changes) BALLAST_CHECK(apply_change(plan.description.metadata, change));
  if (format.plan_write != nullptr) {
    Description wanted = plan.description;
    if (options.config_text) wanted.config = ModelConfig{std::string(format.config_schema), *options.config_text};
    const std::string file_name = std::filesystem::path(destination).filename().string();
    BALLAST_CHECK(check_stored(format, wanted, options, file_name, edited.changes));
  }
  BALLAST_TRY(edited.report, convert_plan(std::move(plan), destination, format, options));
  return edited;
}

// ---------------------------------------------------------------- saying so

std::string edit_json(const MetadataFlags& flags, const Edited& edited) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "path", flags.source);
  add_text(json, "destination", flags.output.path.empty() ? flags.source : flags.output.path);
  add_text(json, "format", edited.report.target_format);
  add_boolean(json, "dry_run", flags.output.options.dry_run);
  json.key("changes").begin_array();
  for (const Change& change : edited.changes) {
    json.begin_object();
    add_text(json, "key", change.key);
    add_meta(json, "before", change.before);
    add_meta(json, "after", change.after);
    json.end_object();
  }
  json.end_array();
  add_boolean(json, "config_changed", edited.config_changed);
  add_convert_report(json, edited.report);
  json.end_object();
  return json.take() + '\n';
}

void print_edit(const MetadataFlags& flags, const Edited& edited, Console& console) {
  const bool dry = flags.output.options.dry_run;
  const std::string where =
      flags.output.path.empty() ? flags.source : fmt::format("{} as {}", flags.source, flags.output.path);
  print_line(console, Paint::kBold, dry ? "would change" : "changed",
             fmt::format("{} ({})", where, edited.report.target_format));
  Table table({{"key", Align::kLeft}, {"before", Align::kLeft, true}, {"after", Align::kLeft, true}});
  for (const Change& change : edited.changes) {
    table.add_row(printable(change.key), Cell(meta_text(change.before), Paint::kRed),
                  Cell(meta_text(change.after), Paint::kGreen));
  }
  if (!table.empty()) table.append_to(console.out(), console.output());
  if (edited.config_changed) print_line(console, Paint::kGreen, "config:", "replaced by " + flags.output.config_path);
  print_convert_report(edited.report, flags.output.options, console);
}

constexpr const char* kEditFooter =
    "Without -o, rewrites the file in place, completely or not at all. Tensors do not change. --set stores a text,\n"
    "--set-json a number or truth value if the format supports them.\n"
    "\n"
    "Examples:\n"
    "  ballast edit model.safetensors --set license=MIT --unset note\n"
    "  ballast edit model.bpk --set-json epoch=12 -o tagged.bpk\n"
    "  ballast edit model.gptrs --config config.json --dry-run\n";

}  // namespace

RunCommand add_edit(CLI::App& program, Console& console) {
  Command command(program, "edit", "Change the metadata or config of a file");
  auto flags = std::make_shared<MetadataFlags>();
  ConvertOptions& options = flags->output.options;
  command.path("PATH", flags->source, "File to change; - is standard input (needs -o)");
  command.texts("--set", "KEY=VALUE", flags->set, "Set a key to a text; may be repeated");
  command.texts("--set-json", "KEY=VALUE", flags->set_json, "Set a key to a JSON number, true or false");
  command.texts("--unset", "KEY", flags->unset, "Remove a key; may be repeated");
  command.text("--config", "FILE", flags->output.config_path, "Replace the model config with this JSON");
  command.text("-o,--output", "OUT", flags->output.path, "Write to a new file of the same format");
  command.flag("--dry-run", options.dry_run, "Show what would change without writing");
  command.flag("--overwrite", options.write.commit.overwrite, "Replace an existing OUT");
  command.flag("--no-sync", flags->output.no_sync, "Do not wait for the disk: faster, less durable");
  command.threads(options.threads);
  command.json(flags->json);
  command.footer(kEditFooter);
  return [flags, &console] {
    if (flags->set.empty() && flags->set_json.empty() && flags->unset.empty() && flags->output.config_path.empty()) {
      return console.fail(
          make_error(ErrorCode::kInvalidArgument, "nothing to change: give --set, --set-json, --unset or --config"),
          flags->json);
    }
    flags->output.format = "same";  // the file's own, so that a pipe needs no --to
    return write_through(flags->output, flags->json, console, [&](const Output& output) -> Status {
      BALLAST_TRY(const Edited edited, edit(*flags, output, console));
      if (flags->json) console.out() += edit_json(*flags, edited);
      else print_edit(*flags, edited, console);
      return {};
    });
  };
}

}  // namespace ballast::cli
