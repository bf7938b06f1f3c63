#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/model_folder.h"
#include "ballast/exchange/exchange.h"
#include "ballast/exchange/folder_gptrs.h"
#include "ballast/exchange/gguf_general.h"
#include "ballast/exchange/gguf_settings.h"
#include "ballast/exchange/gguf_vocabulary_keys.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr uint64_t kGgmlQuantVersion = 2;

// Everything that is known before tensors are looked at.
struct GgufHeader {
  GgufModel model;
  GgufGeneral general;
  std::vector<MetaEntry> vocabulary;
};

void append(std::vector<MetaEntry>& entries, const std::vector<MetaEntry>& more) {
  for (const MetaEntry& entry : more) {
    const auto found = std::ranges::find(entries, entry.key, &MetaEntry::key);
    if (found != entries.end()) found->value = entry.value;
    else entries.push_back(entry);
  }
}

// In the order of llama.cpp's converter.
Result<std::vector<MetaEntry>> metadata_of(const GgufHeader& header, const std::vector<TensorInfo>& tensors) {
  BALLAST_TRY(const auto general, gguf_general_keys(header.general, tensors));
  std::vector<MetaEntry> entries;
  entries.push_back({"general.architecture", header.model.architecture});
  append(entries, header.model.early);
  append(entries, general);
  append(entries, header.model.settings);
  append(entries, {{std::string(kGgufFileType), gguf_file_type(tensors)}});
  entries.push_back({"general.quantization_version", kGgmlQuantVersion});
  append(entries, header.model.vocabulary);
  append(entries, header.vocabulary);
  return entries;
}

Status apply_header(const GgufHeader& header, WritePlan& plan, std::vector<std::string>& notes) {
  BALLAST_CHECK(make_gguf_tensors(header.model.tensors, plan, notes));
  Description made;
  made.format = "gguf";
  made.version = "3";
  BALLAST_TRY(made.metadata, metadata_of(header, plan.description.tensors));
  made.tensors = std::move(plan.description.tensors);
  plan.description = std::move(made);
  return {};
}

Result<ExchangePlan> plan_from_config(const ExchangeSource& source, const std::string& config) {
  BALLAST_TRY(const GgufSourceFiles files, read_gguf_source_files(source.path));
  ExchangePlan plan;
  auto header = std::make_shared<GgufHeader>();
  BALLAST_TRY(header->model, describe_gguf_model(config, files.sentence));
  BALLAST_TRY(header->general, read_gguf_general(files, config));
  const GgufVocabularyRequest request{
      .files = files, .config_json = config, .architecture = header->model.architecture, .vocab = header->model.vocab};
  BALLAST_TRY(header->vocabulary, gguf_vocabulary_keys(request, plan.notes));
  plan.notes.insert(plan.notes.end(), header->model.notes.begin(), header->model.notes.end());
  plan.edits.push_back([header = std::move(header)](WritePlan& written, std::vector<std::string>& notes) {
    return apply_header(*header, written, notes);
  });
  return plan;
}

// What transformers would call it is what llama.cpp's converter begins with.
Result<ExchangePlan> plan_from_gptrs(const ExchangeSource& source) {
  BALLAST_TRY(ExchangePlan folder, plan_gptrs_folder(source));
  const auto found = std::ranges::find(folder.companions, "config.json", &CompanionFile::name);
  if (found == folder.companions.end()) {
    return make_error(ErrorCode::kUnsupported, "the checkpoint has no config that transformers knows");
  }
  BALLAST_TRY(ExchangePlan plan, plan_from_config(source, found->contents));
  plan.edits.insert(plan.edits.begin(), folder.edits.begin(), folder.edits.end());
  return plan;
}

}  // namespace

Result<ExchangePlan> plan_gguf(const ExchangeSource& source) {
  return guarded([&]() -> Result<ExchangePlan> {
    const auto& config = source.archive.description().config;
    if (config && config->schema == kHuggingFaceSchema) return plan_from_config(source, config->text);
    if (has_gptrs_config(source.archive.description())) return plan_from_gptrs(source);
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("{}: a GGUF file that runs is made from a Hugging Face folder (config.json beside safetensors or "
                    "pytorch_model.bin) or from gpt.rs's GPT, and this is {}",
                    source.path, config ? fmt::format("a {} model", config->schema) : "a file without a model config"));
  });
}

}  // namespace ballast
