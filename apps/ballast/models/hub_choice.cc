#include "apps/ballast/models/hub_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

using Test = std::function<bool(const HubFile&)>;

// Beside the weights; folders of the sentence-embedding models (1_Pooling) hold configs of their own.
constexpr std::string_view kCompanions[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "params.json",
};

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }
bool is_at_top(const HubFile& file) { return file.path.find('/') == std::string::npos; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return out;
}

bool is_gguf(const HubFile& file) { return lower(file.path).ends_with(".gguf"); }

std::vector<HubFile> those(std::span<const HubFile> files, const Test& test) {
  std::vector<HubFile> chosen;
  std::ranges::copy_if(files, std::back_inserter(chosen), test);
  return chosen;
}

// "model-00002-of-00003.gguf" -> "model-*-of-00003.gguf"; a file that is no part is itself.
std::string set_of(std::string_view path) {
  constexpr std::string_view kMiddle = "-of-";
  const size_t middle = path.rfind(kMiddle);
  if (middle == std::string_view::npos || middle == 0) return std::string(path);
  size_t first = middle;
  while (first > 0 && path[first - 1] >= '0' && path[first - 1] <= '9') --first;
  if (first == middle || first == 0 || path[first - 1] != '-') return std::string(path);
  return fmt::format("{}*{}", path.substr(0, first), path.substr(middle));
}

std::string listed(std::span<const HubFile> files, size_t most = 24) {
  std::string text;
  for (const HubFile& file : files.first(std::min(files.size(), most))) {
    text += fmt::format("\n  {}{}", printable(file.path), file.bytes ? "  " + human_size(*file.bytes) : "");
  }
  if (files.size() > most) text += fmt::format("\n  and {} more; --list shows all", files.size() - most);
  return text;
}

HubChoice whole_set(std::span<const HubFile> files, const HubFile& one) {
  HubChoice choice;
  choice.files = those(files, [&](const HubFile& file) { return set_of(file.path) == set_of(one.path); });
  std::ranges::sort(choice.files, {}, &HubFile::path);
  choice.model = choice.files.front().path;
  return choice;
}

// One file of each model: of a model in parts, the first.
std::vector<HubFile> gguf_models(std::span<const HubFile> files) {
  std::vector<HubFile> models = those(files, [](const HubFile& file) {
    return is_gguf(file) && !lower(name_of(file.path)).starts_with("mmproj");  // the eyes of a model that runs without
  });
  std::ranges::sort(models, {}, &HubFile::path);
  const auto rest = std::ranges::unique(models, {}, [](const HubFile& file) { return set_of(file.path); });
  models.erase(rest.begin(), rest.end());
  return models;
}

Result<HubChoice> choose_gguf(const std::string& id, std::span<const HubFile> files, const std::string& word) {
  std::vector<HubFile> models = gguf_models(files);
  const std::vector<HubFile> all = models;
  std::erase_if(models, [&](const HubFile& file) { return lower(file.path).find(lower(word)) == std::string::npos; });
  if (models.size() == 1) return whole_set(files, models[0]);
  if (!word.empty() && models.empty()) {
    const std::span<const HubFile> shown = all.empty() ? files : std::span<const HubFile>(all);
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} has no file \"{}\"; it has:{}", id, printable(word), listed(shown)));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} has {} GGUF models; choose one with {}:FILE or an unambiguous part of its name:{}",
                                id, models.size(), id, listed(models)));
}

bool is_companion(const HubFile& file) {
  if (is_at_top(file)) return std::ranges::find(kCompanions, file.path) != std::end(kCompanions);
  // 1_Pooling/config.json, 2_Dense/model.safetensors
  const std::string_view path = file.path;
  const size_t slash = path.find('/');
  const bool is_module = path[0] >= '0' && path[0] <= '9' && path.substr(0, slash).find('_') != std::string_view::npos;
  const std::string_view name = path.substr(slash + 1);
  return is_module && (name == "config.json" || name == "model.safetensors");
}

// The weights as transformers would look for them: each row is tried until one finds something.
std::vector<HubFile> choose_weights(std::span<const HubFile> files) {
  const auto has = [&](std::string_view path) { return std::ranges::find(files, path, &HubFile::path) != files.end(); };
  const auto in_parts = [&](std::string_view stem, std::string_view ending) {
    return those(files, [=](const HubFile& file) {
      const std::string_view path = file.path;
      return path == fmt::format("{}{}.index.json", stem, ending) ||
             (path.starts_with(fmt::format("{}-", stem)) && path.ends_with(ending) && set_of(path) != path);
    });
  };
  const auto single = [&](std::string_view path) {
    return those(files, [=](const HubFile& file) { return file.path == path; });
  };
  const auto ending = [&](std::string_view suffix) {
    return those(files, [=](const HubFile& file) { return is_at_top(file) && file.path.ends_with(suffix); });
  };
  if (has("model.safetensors.index.json")) return in_parts("model", ".safetensors");
  if (has("model.safetensors")) return single("model.safetensors");
  if (auto found = ending(".safetensors"); !found.empty()) return found;
  if (has("pytorch_model.bin.index.json")) return in_parts("pytorch_model", ".bin");
  if (has("pytorch_model.bin")) return single("pytorch_model.bin");
  for (const std::string_view suffix : {".gptrs", ".netcl", ".bpk", ".npz", ".pt", ".pth"}) {
    if (auto found = ending(suffix); !found.empty()) return found;
  }
  return {};
}

}  // namespace

Result<HubChoice> choose_hub_files(const std::string& id, std::span<const HubFile> files, const std::string& wanted) {
  if (!wanted.empty()) {
    const auto exact = std::ranges::find(files, wanted, &HubFile::path);
    if (exact != files.end()) return is_gguf(*exact) ? whole_set(files, *exact) : HubChoice{{*exact}, exact->path};
    return choose_gguf(id, files, wanted);
  }
  const std::vector<HubFile> weights = choose_weights(files);
  if (weights.empty() && std::ranges::any_of(files, is_gguf)) return choose_gguf(id, files, "");
  if (weights.empty()) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{} has no weights that Ballast can read; --all downloads everything, {}:FILE one file. It has:{}",
                    id, id, listed(files)));
  }
  HubChoice choice;
  choice.files = those(files, is_companion);
  // The weights last: a folder that has them has the rest too.
  choice.files.insert(choice.files.end(), weights.begin(), weights.end());
  return choice;
}

}  // namespace ballast::cli
