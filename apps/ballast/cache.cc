#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/model_cache.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/table.h"
#include "apps/ballast/text.h"

namespace ballast::cli {

namespace {

struct CacheFlags {
  std::string action;
  std::vector<std::string> names;
  bool json = false;
};

using Entries = std::vector<ModelCache::Entry>;

Result<Entries> chosen_entries(const CacheFlags& flags, const ModelCache& cache) {
  BALLAST_TRY(Entries entries, cache.list());
  if (flags.names.empty()) return entries;
  Entries chosen;
  for (const std::string& name : flags.names) {
    const auto found = std::ranges::find(entries, name, &ModelCache::Entry::name);
    if (found == entries.end()) {
      return make_error(ErrorCode::kNotFound, fmt::format("{} has no \"{}\"; `ballast cache list` says what it has",
                                                          cache.folder(), printable(name)));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

std::string entries_json(const ModelCache& cache, const Entries& entries) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "folder", cache.folder());
  json.key("models").begin_array();
  for (const ModelCache::Entry& entry : entries) {
    json.begin_object();
    add_text(json, "name", entry.name);
    add_number(json, "bytes", entry.bytes);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take() + '\n';
}

void list_entries(const ModelCache& cache, const Entries& entries, Console& console) {
  console.out() += printable(cache.folder()) + '\n';
  uint64_t largest = 0;
  for (const ModelCache::Entry& entry : entries) largest = std::max(largest, entry.bytes);
  Table table({{"model"}, {"MiB", Align::kRight}, {"what"}});
  for (const ModelCache::Entry& entry : entries) {
    const CatalogueModel* const model = find_catalogue_model(entry.name);
    table.add_row(printable(entry.name), mib_digits(entry.bytes, largest),
                  model == nullptr    ? std::string_view("not of the catalogue")
                  : cache.has(*model) ? model->title
                                      : std::string_view("not whole: `ballast get` fetches it again"));
  }
  if (!entries.empty()) table.append_to(console.out(), console.output());
}

Status verify_entries(const ModelCache& cache, const Entries& entries, Console& console) {
  for (const ModelCache::Entry& entry : entries) {
    const CatalogueModel* const model = find_catalogue_model(entry.name);
    if (model == nullptr) continue;
    ProgressBar progress(console.errors());
    BALLAST_CHECK(cache.verify(*model, progress.callback()));
    console.out() += fmt::format("{}: sound\n", entry.name);
  }
  return {};
}

// What did not come from the catalogue cannot be fetched again, so it goes only where it is named.
Status clear_entries(const CacheFlags& flags, const ModelCache& cache, const Entries& entries, Console& console) {
  uint64_t freed = 0, removed = 0;
  for (const ModelCache::Entry& entry : entries) {
    if (flags.names.empty() && find_catalogue_model(entry.name) == nullptr) {
      console.remark(fmt::format("left {}, which is not of the catalogue; `ballast cache clear NAME` removes it\n",
                                 printable(entry.name)));
      continue;
    }
    BALLAST_TRY(const uint64_t bytes, cache.remove(entry.name));
    freed += bytes;
    ++removed;
  }
  console.out() += fmt::format("removed {}, {}\n", counted(removed, "model"), mib(freed));
  return {};
}

Status run_cache(const CacheFlags& flags, Console& console) {
  BALLAST_TRY(const ModelCache cache, ModelCache::of_user());
  BALLAST_TRY(const Entries entries, chosen_entries(flags, cache));
  if (flags.action == "clear") return clear_entries(flags, cache, entries, console);
  if (flags.action == "verify") return verify_entries(cache, entries, console);
  if (flags.action != "list" && !flags.action.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" cannot be done with the cache; there are: list, verify, clear", printable(flags.action)));
  }
  if (flags.json) console.out() += entries_json(cache, entries);
  else list_entries(cache, entries, console);
  return {};
}

constexpr const char* kCacheFooter =
    "list    what was fetched, and how large it is (the default)\n"
    "verify  read the models and compare them with the digests that Ballast knows\n"
    "clear   remove the models named, or all that `ballast get` can fetch again\n"
    "\n"
    "The folder is $XDG_CACHE_HOME/ballast/models, or ~/.cache/ballast/models.\n"
    "\n"
    "Examples:\n"
    "  ballast cache list\n"
    "  ballast cache clear smollm2\n";

}  // namespace

RunCommand add_cache(CLI::App& program, Console& console) {
  Command command(program, "cache", "Look after the models that `get` fetched");
  auto flags = std::make_shared<CacheFlags>();
  command.optional_path("ACTION", flags->action, "list, verify or clear");
  command.optional_texts("NAME", flags->names, "Only these models");
  command.json(flags->json);
  command.footer(kCacheFooter);
  return [flags, &console] {
    const Status done = run_cache(*flags, console);
    return done ? console.finish(kExitYes) : console.finish(console.fail(done.error(), flags->json));
  };
}

}  // namespace ballast::cli
