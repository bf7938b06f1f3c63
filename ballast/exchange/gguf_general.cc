#include "ballast/exchange/gguf_general.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ballast/base/json_object.h"
#include "ballast/exchange/gguf_model_id.h"

namespace ballast {

namespace {

// The name of the folder that the files stand in.
std::string folder_name(const GgufSourceFiles& files) {
  if (files.folder.empty()) return "";
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(files.folder, ignored);
  folder = folder.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

struct SamplingKey {
  std::string_view field;
  std::string_view key;
  bool whole;
};
constexpr SamplingKey kSamplingKeys[] = {
    {"top_k", "general.sampling.top_k", true},
    {"top_p", "general.sampling.top_p", false},
    {"min_p", "general.sampling.min_p", false},
    {"temperature", "general.sampling.temp", false},
    {"repetition_penalty", "general.sampling.penalty_repeat", false},
};

// What is not a number there is nobody's business here.
void add_sampling(const GgufSourceFiles& files, std::vector<MetaEntry>& entries) {
  if (!files.generation_config) return;
  const auto config = JsonObject::parse(*files.generation_config, "", kStrictRules);
  if (!config) return;
  for (const auto& [field, key, whole] : kSamplingKeys) {
    const auto raw = config->find(field);
    const auto number = raw ? JsonReader(*raw, "").read_double() : Result<double>(NAN);
    if (!number || !std::isfinite(*number)) continue;
    if (whole) entries.push_back({std::string(key), static_cast<int64_t>(std::clamp(*number, -1.0, 0x1p30))});
    else entries.push_back({std::string(key), static_cast<double>(static_cast<float>(*number))});
  }
}

std::string rounded(double count) {
  const auto [scale, letter] = count > 1e12  ? std::pair{1e-12, 'T'}
                               : count > 1e9 ? std::pair{1e-9, 'B'}
                               : count > 1e6 ? std::pair{1e-6, 'M'}
                                             : std::pair{1e-3, 'K'};
  const double scaled = count * scale;
  const std::string whole = fmt::format("{:.0f}", scaled);
  const int digits = whole == "0" ? 0 : static_cast<int>(whole.size());
  return fmt::format("{:.{}f}{}", scaled, std::max(2 - digits, 0), letter);
}

struct ParameterCount {
  double all = 0, shared = 0, expert = 0;
  uint64_t experts = 0, stacks = 0;
};

ParameterCount count_parameters(const std::vector<TensorInfo>& tensors) {
  ParameterCount count;
  for (const TensorInfo& tensor : tensors) {
    const auto size = static_cast<double>(tensor.shape.element_count().value_or(0));
    count.all += size;
    const bool stacked = tensor.name.find("_exps.") != std::string::npos && tensor.shape.rank() >= 3;
    if (!stacked || tensor.shape[0] == 0) {
      count.shared += size;
      continue;
    }
    count.expert += std::floor(size / static_cast<double>(tensor.shape[0]));
    count.experts += tensor.shape[0];
    ++count.stacks;
  }
  return count;
}

// "135M", or "8x7.0B" for experts.
std::string size_label(const ParameterCount& count) {
  if (count.stacks == 0) return rounded(count.all);
  return fmt::format("{}x{}", count.experts / count.stacks, rounded(count.shared + count.expert));
}

}  // namespace

Result<GgufGeneral> read_gguf_general(const GgufSourceFiles& files, std::string_view config_json) {
  BALLAST_TRY(const JsonObject config, JsonObject::parse(config_json, files.name_of("config.json"), kStrictRules));
  GgufGeneral general;
  add_sampling(files, general.sampling);
  const auto raw = config.find("_name_or_path");
  if (raw && raw->starts_with('"')) BALLAST_CHECK(assign(general.said_name, config.text("_name_or_path")));
  if (std::ranges::count(general.said_name, '/') > 1) general.said_name.clear();
  general.folder_name = folder_name(files);
  return general;
}

Result<std::vector<MetaEntry>> gguf_general_keys(const GgufGeneral& general, const std::vector<TensorInfo>& tensors) {
  const ParameterCount count = count_parameters(tensors);
  BALLAST_TRY(GgufModelId id, parse_gguf_model_id(general.said_name, count.all));
  BALLAST_TRY(const GgufModelId other, parse_gguf_model_id(general.folder_name, count.all));
  std::vector<MetaEntry> entries;
  entries.push_back({"general.type", "model"});
  entries.insert(entries.end(), general.sampling.begin(), general.sampling.end());
  const auto add = [&](const char* key, const std::string& said, const std::string& otherwise) {
    const std::string& text = said.empty() ? otherwise : said;
    if (!text.empty()) entries.push_back({key, text});
  };
  add("general.name", id.name, other.name.empty() ? "model" : other.name);
  add("general.version", id.version, other.version);
  add("general.organization", id.organization, other.organization);
  add("general.finetune", id.finetune, other.finetune);
  add("general.basename", id.basename, other.basename);
  add("general.size_label", id.size_label, other.size_label.empty() ? size_label(count) : other.size_label);
  return entries;
}

uint64_t gguf_file_type(const std::vector<TensorInfo>& tensors) {
  constexpr uint64_t kAllF32 = 0, kMostlyF16 = 1, kMostlyBf16 = 32;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.dtype == DType::kBF16) return kMostlyBf16;
    if (tensor.dtype == DType::kF16) return kMostlyF16;
  }
  return kAllF32;
}

}  // namespace ballast
