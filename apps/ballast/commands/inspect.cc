#include "apps/ballast/commands/inspect.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/several_files.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/tensor_choice.h"
#include "apps/ballast/output/tree.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/text/find_chat_template.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast::cli {

namespace {

struct InspectOptions {
  std::vector<std::string> paths;
  std::vector<std::string> only;
  InspectSort sort = InspectSort::kStored;
  bool flat = false;
  bool all = false;
  bool full = false;
  uint64_t context = 0;
  bool hash = false;
  bool json = false;
  unsigned threads = 0;
};

void sort_tensors(const Archive& archive, InspectSort sort, std::vector<size_t>& shown) {
  const auto tensors = archive.tensors();
  switch (sort) {
    case InspectSort::kStored: return;
    case InspectSort::kName:
      return sort_naturally(shown, [&](size_t i) -> std::string_view { return tensors[i].name; });
    case InspectSort::kSize:
      std::ranges::stable_sort(shown, std::greater<>(), [&](size_t i) { return tensors[i].byte_size; });
      return;
    case InspectSort::kOffset:
      std::ranges::stable_sort(shown, std::less<>(),
                               [&](size_t i) { return std::pair(archive.extent(i).source, archive.extent(i).offset); });
      return;
  }
}

Result<std::vector<TensorDigest>> hash_tensors(const Archive& archive, unsigned threads, Console& console) {
  ProgressBar bar(console.errors());
  DigestOptions options;
  options.sha256 = true;
  options.threads = threads;
  options.progress = bar.callback();
  return digest_tensors(archive, options);
}

Result<FileOutcome> inspect(const std::string& path, const InspectOptions& options, Console& console) {
  BALLAST_TRY(const Archive archive, open_input(path));
  BALLAST_TRY(std::vector<size_t> shown, select_tensors(archive, options.only));
  sort_tensors(archive, options.sort, shown);
  Inspection inspection{.path = path,
                        .archive = archive,
                        .shown = std::move(shown),
                        .digests = {},
                        .hashed = options.hash,
                        .tied = {},
                        .sort = options.sort,
                        .flat = options.flat,
                        .all = options.all,
                        .full = options.full,
                        .context = options.context};
  if (options.hash) BALLAST_CHECK(assign(inspection.digests, hash_tensors(archive, options.threads, console)));
  inspection.tied = options.hash ? tied_by_digest(archive, inspection.digests) : tied_by_extent(archive);
  if (options.json) return FileOutcome{kExitYes, inspection_json(inspection)};
  print_inspection(inspection, console);
  return FileOutcome{};
}

constexpr const char* kInspectFooter =
    "PATH is a file of any known format (recognised by its content, not its name), a folder or *.index.json of\n"
    "shards, or the common prefix of a pair such as model.json and model.npz; - is standard input. Only headers are\n"
    "read unless you ask for --hash. Layers with the same tensors are folded into one entry.\n"
    "\n"
    "Examples:\n"
    "  ballast inspect model.safetensors\n"
    "  ballast inspect model.safetensors model.bpk --all\n"
    "  ballast inspect model.bpk --flat --sort size | head\n"
    "  ballast inspect checkpoint.gptrs --only '^blocks\\.0\\.' --hash\n"
    "  ballast inspect model.npz --json | jq '.tensors[].name'\n";

}  // namespace

std::optional<ModelSummary> model_of(const Inspection& inspection) {
  const Description& description = inspection.archive.description();
  auto model = summarise_model(description);
  if (!model || !takes_config_from_folder(description)) return model;
  if (const auto tokenizer = find_tokenizer_beside(inspection.path)) {
    model->tokenizer = std::filesystem::path(*tokenizer).filename().string();
  }
  const auto chat_template = find_chat_template(inspection.path);
  model->has_chat_template = model->has_chat_template || (chat_template && chat_template->has_value());
  return model;
}

RunCommand add_inspect(CLI::App& program, Console& console) {
  Command command(program, "inspect", "Show what is in a weight file");
  auto options = std::make_shared<InspectOptions>();
  command.paths("PATH", options->paths, "Files to inspect").or_model();
  command.flag("--all", options->all, "List every tensor instead of folding identical layers");
  command.flag("--flat", options->flat, "Print one line per tensor instead of a tree");
  command.flag("--full", options->full, "Print long metadata values and lists in full");
  command.count("--context", "N", options->context, "Estimate the memory needed to run with N tokens", 1);
  command.choice("--sort", "KEY", options->sort,
                 {{"name", InspectSort::kName}, {"size", InspectSort::kSize}, {"offset", InspectSort::kOffset}},
                 "Sort by name, size (largest first) or offset in the file");
  command.patterns("--only", options->only, "Show only tensors whose name matches; may be repeated");
  command.flag("--hash", options->hash, "Read all tensors and show their digests");
  command.threads(options->threads);
  command.json(options->json);
  command.footer(kInspectFooter);
  return [options, &console] {
    return look_at_files(options->paths, options->json, console,
                         [&](const std::string& path) { return inspect(path, *options, console); });
  };
}

}  // namespace ballast::cli
