#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/models/hub_cache.h"
#include "apps/ballast/models/kernel_cache.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

struct CacheFlags {
  std::string action;
  std::vector<std::string> names;
  bool json = false;
};

// A model of either folder, or compiled kernels.
struct CacheEntry {
  std::string name;
  uint64_t bytes = 0;
  bool is_hub = false;
  bool is_kernels = false;
};
using Entries = std::vector<CacheEntry>;

struct Caches {
  ModelCache models;
  HubCache hub;
};

Result<Entries> all_entries(const Caches& caches) {
  Entries entries;
  BALLAST_TRY(const auto models, caches.models.list());
  for (const ModelCache::Entry& entry : models) entries.push_back({entry.name, entry.bytes, false});
  BALLAST_TRY(const auto hub, caches.hub.list());
  for (const HubCache::Entry& entry : hub) entries.push_back({entry.id, entry.bytes, true});
  BALLAST_TRY(const uint64_t kernel_bytes, kernel_cache_bytes());
  if (kernel_bytes != 0) entries.push_back({std::string(kKernelCacheName), kernel_bytes, false, true});
  return entries;
}

Result<Entries> chosen_entries(const CacheFlags& flags, const Caches& caches) {
  BALLAST_TRY(Entries entries, all_entries(caches));
  if (flags.names.empty()) return entries;
  Entries chosen;
  for (const std::string& name : flags.names) {
    const auto found = std::ranges::find(entries, name, &CacheEntry::name);
    if (found == entries.end()) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("\"{}\" is not in the cache; `ballast cache list` shows what is", printable(name)));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

std::string entries_json(const Caches& caches, const Entries& entries) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", caches.models.folder());
  add_text(json, "hub_folder", caches.hub.folder());
  json.key("models").begin_array();
  for (const CacheEntry& entry : entries) {
    json.begin_object();
    add_text(json, "name", entry.name);
    add_number(json, "bytes", entry.bytes);
    add_text(json, "origin",
             entry.is_kernels                              ? "kernels"
             : entry.is_hub                                ? "hub"
             : find_catalogue_model(entry.name) != nullptr ? "catalogue"
                                                           : "unknown");
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take() + '\n';
}

std::string_view describe_entry(const Caches& caches, const CacheEntry& entry) {
  if (entry.is_kernels) return "compiled kernels of the backend opencl";
  if (entry.is_hub) return "from the hub";
  const CatalogueModel* const model = find_catalogue_model(entry.name);
  if (model == nullptr) return "not a built-in download";
  return caches.models.has(*model) ? model->title : "incomplete: `ballast get` downloads it again";
}

void list_entries(const Caches& caches, const Entries& entries, Console& console) {
  console.out() += fmt::format("{}\n{}\n", printable(caches.models.folder()), printable(caches.hub.folder()));
  Table table({{"model"}, {"size", Align::kRight}, {"what"}});
  for (const CacheEntry& entry : entries) {
    table.add_row(printable(entry.name), human_size(entry.bytes), describe_entry(caches, entry));
  }
  if (!entries.empty()) table.append_to(console.out(), console.output());
}

Status verify_entries(const Caches& caches, const Entries& entries, Console& console) {
  for (const CacheEntry& entry : entries) {
    const CatalogueModel* const model = find_catalogue_model(entry.name);
    if (!entry.is_hub && model == nullptr) continue;
    ProgressBar progress(console.errors());
    BALLAST_CHECK(entry.is_hub ? caches.hub.verify(entry.name, progress.callback())
                               : caches.models.verify(*model, progress.callback()));
    console.out() += fmt::format("{}: sound\n", printable(entry.name));
  }
  return {};
}

// What did not come from the catalogue may be somebody else's, or be lost for good, so it goes only where it is named.
Status clear_entries(const CacheFlags& flags, const Caches& caches, const Entries& entries, Console& console) {
  uint64_t freed = 0, removed = 0;
  for (const CacheEntry& entry : entries) {
    if (entry.is_kernels) {
      BALLAST_TRY(const uint64_t bytes, clear_kernel_cache());
      freed += bytes;
      continue;
    }
    if (flags.names.empty() && (entry.is_hub || find_catalogue_model(entry.name) == nullptr)) {
      console.remark(fmt::format("kept {}, which {}; `ballast cache clear NAME` removes it\n", printable(entry.name),
                                 entry.is_hub ? "is shared with huggingface_hub" : "is not a built-in download"));
      continue;
    }
    BALLAST_TRY(const uint64_t bytes, entry.is_hub ? caches.hub.remove(entry.name) : caches.models.remove(entry.name));
    freed += bytes;
    ++removed;
  }
  console.out() += fmt::format("removed {}, {}\n", counted(removed, "model"), human_size(freed));
  return {};
}

Status run_cache(const CacheFlags& flags, Console& console) {
  BALLAST_TRY(ModelCache models, ModelCache::of_user());
  BALLAST_TRY(HubCache hub, HubCache::of_user());
  const Caches caches{std::move(models), std::move(hub)};
  BALLAST_TRY(const Entries entries, chosen_entries(flags, caches));
  if (flags.action == "clear") return clear_entries(flags, caches, entries, console);
  if (flags.action == "verify") return verify_entries(caches, entries, console);
  if (flags.action != "list" && !flags.action.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("unknown action \"{}\"; use list, verify or clear", printable(flags.action)));
  }
  if (flags.json) console.out() += entries_json(caches, entries);
  else list_entries(caches, entries, console);
  return {};
}

constexpr const char* kCacheFooter =
    "list    show the downloaded models and their sizes (the default)\n"
    "verify  read the models and compare them with their digests\n"
    "clear   remove the named models; without NAME, the built-in downloads that `ballast get` lists and compiled\n"
    "        OpenCL kernels\n"
    "\n"
    "There are two folders: $XDG_CACHE_HOME/ballast/models (or ~/.cache/ballast/models), and the cache shared with\n"
    "huggingface_hub ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub), from which models are removed only if\n"
    "named.\n"
    "\n"
    "Examples:\n"
    "  ballast cache list\n"
    "  ballast cache clear ORG/NAME\n";

}  // namespace

RunCommand add_cache(CLI::App& program, Console& console) {
  Command command(program, "cache", "List, check or remove downloaded models");
  auto flags = std::make_shared<CacheFlags>();
  command.optional_path("ACTION", flags->action, "What to do: list, verify or clear");
  command.optional_texts("NAME", flags->names, "Models to act on (default: all)");
  command.json(flags->json);
  command.footer(kCacheFooter);
  return [flags, &console] {
    const Status done = run_cache(*flags, console);
    return done ? console.finish(kExitYes) : console.finish(console.fail(done.error(), flags->json));
  };
}

}  // namespace ballast::cli
