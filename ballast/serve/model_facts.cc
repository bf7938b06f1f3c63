#include "ballast/serve/model_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <variant>

#include "ballast/edit/quantize.h"

namespace ballast::serve {

namespace {

// As Ollama writes it: 494.03M, 1.2B, 7B.
std::string shown_count(uint64_t parameters) {
  constexpr uint64_t kThousand = 1'000, kMillion = 1'000'000, kBillion = 1'000'000'000;
  const auto in = [parameters](uint64_t unit) { return static_cast<double>(parameters) / static_cast<double>(unit); };
  if (parameters >= kBillion) return fmt::format("{:.{}f}B", in(kBillion), parameters % kBillion == 0 ? 0 : 1);
  if (parameters >= kMillion) return fmt::format("{:.{}f}M", in(kMillion), parameters % kMillion == 0 ? 0 : 2);
  return parameters >= kThousand ? fmt::format("{:.0f}K", in(kThousand)) : std::to_string(parameters);
}

std::string in_capitals(std::string_view text) {
  std::string capitals(text);
  std::ranges::transform(capitals, capitals.begin(),
                         [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return capitals;
}

// The mixture that a GGUF file says it has, or the type of most parameters.
std::string quantization_of(const Description& description) {
  constexpr std::string_view kFileType = "general.file_type";
  const auto entry = std::ranges::find(description.metadata, kFileType, &MetaEntry::key);
  if (entry != description.metadata.end()) {
    const uint64_t* const said = std::get_if<uint64_t>(&entry->value);
    const auto presets = all_quantization_presets();
    const auto preset = std::ranges::find_if(
        presets, [said](const QuantizationPreset& one) { return said != nullptr && one.file_type == *said; });
    if (preset != presets.end()) return in_capitals(preset->name);
  }
  std::map<DType, uint64_t> counts;
  for (const TensorInfo& tensor : description.tensors) {
    counts[tensor.dtype] += tensor.shape.element_count().value_or(0);
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  return most != counts.end() ? in_capitals(dtype_name(most->first)) : std::string();
}

}  // namespace

ModelFacts facts_of(const Archive& archive, std::string_view family) {
  const Description& description = archive.description();
  uint64_t parameters = 0;
  for (const TensorInfo& tensor : description.tensors) parameters += tensor.shape.element_count().value_or(0);
  ModelFacts facts;
  facts.format = description.format;
  facts.family = family;
  facts.parameter_size = shown_count(parameters);
  facts.quantization = quantization_of(description);
  facts.stored_bytes = archive.stored_size();
  return facts;
}

std::span<const std::string_view> uses_of(ModelUse use) {
  static constexpr std::array<std::string_view, 2> kOfText = {"completion", "chat"};
  static constexpr std::array<std::string_view, 1> kOfEmbedder = {"embedding"};
  if (use == ModelUse::kEmbedding) return kOfEmbedder;
  return std::span(kOfText).first(use == ModelUse::kChat ? 2 : 1);
}

}  // namespace ballast::serve
