#include "ballast/archive/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "ballast/archive/file_set.h"
#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/io/file_system.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{16} << 20;

Result<std::optional<std::string>> read_config_file(const FileSet& files, const std::string& name) {
  return read_if_there(files, name, kMostConfigBytes, "a config");
}

Result<bool> names_model_type(std::string_view text, const std::string& where) {
  JsonReader reader(text, where);
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  bool found = false;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    found = found || key == "model_type";
    BALLAST_CHECK(reader.skip_value());
  }
  BALLAST_CHECK(reader.finish());
  return found;
}

// ---------------------------------------------------------------- sentence-transformers

constexpr size_t kMostModules = 16;

struct SentenceModule {
  std::string type;  // without the package in front
  std::string path;  // of its folder; empty: the model's own
};

Result<SentenceModule> read_module(JsonReader& reader) {
  SentenceModule module;
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    if (key == "type") BALLAST_CHECK(assign(module.type, reader.read_string()));
    else if (key == "path") BALLAST_CHECK(assign(module.path, reader.read_string()));
    else BALLAST_CHECK(reader.skip_value());
  }
  module.type = module.type.substr(module.type.find_last_of('.') + 1);
  const bool is_inside =
      module.path.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos && module.path != "..";
  if (is_inside) return module;
  return reader.error_here(
      fmt::format("module {} must be a folder beside this file, not \"{}\"", module.type, module.path));
}

Result<std::vector<SentenceModule>> read_modules(std::string_view text, const std::string& where) {
  JsonReader reader(text, where);
  std::vector<SentenceModule> modules;
  BALLAST_CHECK(reader.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_element());
    if (!more) break;
    if (modules.size() == kMostModules) return reader.error_here(fmt::format("more than {} modules", kMostModules));
    BALLAST_TRY(SentenceModule module, read_module(reader));
    modules.push_back(std::move(module));
  }
  BALLAST_CHECK(reader.finish());
  return modules;
}

// Where a module keeps its settings.
std::string module_file(const SentenceModule& module) { return module.path + "/config.json"; }

Status add_file(JsonWriter& json, std::string_view key, const FileSet& files, const std::string& name) {
  BALLAST_TRY(const auto text, read_config_file(files, name));
  if (!text) return {};
  JsonReader reader(*text, files.place_of(name));
  BALLAST_TRY(const std::string_view value, reader.read_raw());
  BALLAST_CHECK(reader.finish());
  json.key(key).raw(value);
  return {};
}

Result<std::optional<std::string>> read_sentence(const FileSet& files) {
  BALLAST_TRY(const auto list, read_config_file(files, "modules.json"));
  if (!list) return std::optional<std::string>();
  BALLAST_TRY(const auto modules, read_modules(*list, files.place_of("modules.json")));
  JsonWriter json;
  json.begin_object().key("modules").begin_array();
  for (const SentenceModule& module : modules) json.string(module.type);
  json.end_array().key("configs").begin_object();
  for (const SentenceModule& module : modules) {
    const std::string name = module.path.empty() ? "sentence_bert_config.json" : module_file(module);
    BALLAST_CHECK(add_file(json, module.type, files, name));
  }
  json.end_object();
  BALLAST_CHECK(add_file(json, "settings", files, "config_sentence_transformers.json"));
  json.end_object();
  return std::optional(json.take());
}

constexpr std::array<std::string_view, 18> kCompanions = {"config.json",
                                                          "generation_config.json",
                                                          "tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "tokenizer.model",
                                                          "special_tokens_map.json",
                                                          "added_tokens.json",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "vocab.txt",
                                                          "spiece.model",
                                                          "sentencepiece.bpe.model",
                                                          "chat_template.jinja",
                                                          "chat_template.json",
                                                          "preprocessor_config.json",
                                                          "modules.json",
                                                          "sentence_bert_config.json",
                                                          "config_sentence_transformers.json"};

// Of a folder, or of what stands beside a file.
Result<std::unique_ptr<FileSet>> files_at(const std::string& path) {
  BALLAST_TRY(const bool is_itself, is_folder(os_file_system(), path));
  return make_folder_files(is_itself ? path : std::filesystem::path(path).parent_path().string());
}

}  // namespace

Result<std::vector<std::string>> list_companions(const std::string& path) {
  return guarded([&]() -> Result<std::vector<std::string>> {
    BALLAST_TRY(const auto files, files_at(path));
    std::vector<std::string> names;
    BALLAST_TRY(const ModelFolder model, read_model_folder(*files));
    if (!model.config) return names;
    for (const std::string_view name : kCompanions) {
      BALLAST_TRY(const bool is_there, files->has(std::string(name)));
      if (is_there) names.emplace_back(name);
    }
    BALLAST_TRY(const auto list, read_config_file(*files, "modules.json"));
    if (!list) return names;
    BALLAST_TRY(const auto modules, read_modules(*list, files->place_of("modules.json")));
    for (const SentenceModule& module : modules) {
      if (module.path.empty()) continue;
      BALLAST_TRY(const bool is_there, files->has(module_file(module)));
      if (is_there) names.push_back(module_file(module));
    }
    return names;
  });
}

bool is_model_folder_file(std::string_view inside) {
  constexpr std::string_view kWeights = "model", kModuleConfig = "/config.json", kManifest = ".ballast.json";
  if (inside.ends_with(kManifest)) inside.remove_suffix(kManifest.size());
  if (std::ranges::find(kCompanions, inside) != kCompanions.end()) return true;
  if (inside.ends_with(kModuleConfig)) return inside.front() >= '0' && inside.front() <= '9';
  if (!inside.starts_with(kWeights)) return false;
  const std::string_view ending = inside.substr(kWeights.size());
  if (ending == ".safetensors.index.json") return true;
  if (ending.starts_with('-')) return ending.ends_with(".safetensors") || ending.ends_with(".gguf");
  return format_for_extension(inside) != nullptr && ending.rfind('.') == 0;
}

bool takes_config_from_folder(const Description& file) {
  return file.format == kSafetensorsDriver.name || file.format == kTorchDriver.name;
}

bool is_huggingface_config(std::string_view text) {
  const auto found = names_model_type(text, "");
  return found && *found;
}

Result<ModelFolder> read_model_folder(const std::string& path) {
  return guarded([&]() -> Result<ModelFolder> {
    BALLAST_TRY(const auto files, files_at(path));
    return read_model_folder(*files);
  });
}

Result<ModelFolder> read_model_folder(const FileSet& files) {
  return guarded([&]() -> Result<ModelFolder> {
    ModelFolder found;
    BALLAST_TRY(auto config, read_config_file(files, "config.json"));
    if (config) {
      BALLAST_TRY(const bool is_model, names_model_type(*config, files.place_of("config.json")));
      if (is_model) found.config = ModelConfig{std::string(kHuggingFaceSchema), std::move(*config)};
    }
    BALLAST_TRY(found.sentence, read_sentence(files));
    BALLAST_TRY(found.generation_config, read_config_file(files, "generation_config.json"));
    return found;
  });
}

}  // namespace ballast
