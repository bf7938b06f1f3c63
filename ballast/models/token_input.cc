#include "ballast/models/token_input.h"

#include <fmt/format.h>

#include <numeric>

namespace ballast {

Status check_tokens(std::span<const TokenId> ids, uint64_t vocab_size, uint64_t first_position,
                    uint64_t context_length) {
  if (ids.empty()) return make_error(ErrorCode::kInvalidArgument, "no tokens: the model needs at least one");
  if (first_position > context_length || ids.size() > context_length - first_position) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} tokens from position {} on do not fit the context of {}", ids.size(),
                                  first_position, context_length));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocab_size) continue;
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("token {} at position {} is outside the vocabulary of {}", ids[i], first_position + i, vocab_size));
  }
  return {};
}

Result<std::span<const TokenId>> tokens_of(const ModelInput& input, std::string_view kind) {
  if (const auto* tokens = std::get_if<TokenInput>(&input)) return std::span<const TokenId>(tokens->ids);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("a {} model takes tokens, not an image", kind));
}

Result<const Tensor*> image_of(const ModelInput& input, std::string_view kind) {
  if (const auto* image = std::get_if<ImageInput>(&input)) return &image->pixels;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("a {} model takes images, not tokens", kind));
}

Result<Tensor> consecutive_rows(Context& context, const Param& table, uint64_t first, uint64_t count,
                                uint64_t sequences) {
  if (count * sequences == 1) {  // every step of decoding: without memory of its own
    const auto row = static_cast<uint32_t>(first);
    return ops::embedding_lookup(context, table, std::span(&row, 1));
  }
  std::vector<uint32_t> rows(count * sequences);
  for (uint64_t i = 0; i < rows.size(); i += count) {
    std::iota(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.begin() + static_cast<std::ptrdiff_t>(i + count),
              static_cast<uint32_t>(first));
  }
  return ops::embedding_lookup(context, table, rows);
}

Result<Tensor> wanted_rows(Context& context, const Tensor& x, CausalLm::Rows rows) {
  if (rows == CausalLm::Rows::kAll || x.dims()[0] == 1) return x;
  return ops::slice_along_axis(context, x, 0, x.dims()[0] - 1, 1);
}

}  // namespace ballast
