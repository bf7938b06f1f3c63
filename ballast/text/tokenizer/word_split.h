// Cutting text into the pieces inside which byte pairs are merged.
#pragma once

#include <cstddef>
#include <string_view>

namespace ballast {

// Patterns of so many tokenizers that they are written out by hand: several times faster than a regular expression, and
// linear whatever the text. Each cuts every text into pieces that follow each other.
inline constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// End of the piece that begins at `at`, which must be inside `text`.
using PieceEnd = size_t (*)(std::string_view text, size_t at);
size_t gpt2_piece_end(std::string_view text, size_t at);
size_t llama3_piece_end(std::string_view text, size_t at);
size_t qwen2_piece_end(std::string_view text, size_t at);
// That of one of these patterns; null for any other.
PieceEnd piece_end_of(std::string_view pattern);

}  // namespace ballast
