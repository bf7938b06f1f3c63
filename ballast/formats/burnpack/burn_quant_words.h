// The words of quantisation schemes.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace ballast {

// How an enumerator is spelled in files and in our text. Rows stand in the order of the enumerators.
struct QuantWord {
  std::string_view file;
  std::string_view text;
};
inline constexpr std::array<QuantWord, 9> kQuantValueWords = {{{"Q8F", "q8f"},
                                                               {"E5M2", "e5m2"},
                                                               {"E4M3", "e4m3"},
                                                               {"Q4F", "q4f"},
                                                               {"E2M1", "e2m1"},
                                                               {"Q2F", "q2f"},
                                                               {"Q8S", "q8s"},
                                                               {"Q4S", "q4s"},
                                                               {"Q2S", "q2s"}}};
inline constexpr std::array<QuantWord, 3> kQuantStoreWords = {
    {{"Native", "native"}, {"PackedNative", "packed_native"}, {"PackedU32", "packed_u32"}}};
inline constexpr std::array<QuantWord, 2> kQuantModeWords = {{{"Symmetric", "symmetric"}, {"Lookup", "lookup"}}};
inline constexpr std::array<QuantWord, 5> kScaleTypeWords = {
    {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}, {"UE8M0", "ue8m0"}, {"UE4M3", "ue4m3"}}};

template <typename Enum>
const QuantWord& quant_word(std::span<const QuantWord> words, Enum value) {
  return words[static_cast<size_t>(value)];
}

template <typename Enum>
std::optional<Enum> find_quant_word(std::span<const QuantWord> words, std::string_view name,
                                    std::string_view QuantWord::*column) {
  const auto found = std::ranges::find(words, name, column);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace ballast
