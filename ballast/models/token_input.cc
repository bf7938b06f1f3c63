#include "ballast/models/token_input.h"

#include <fmt/format.h>

#include <vector>

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

Result<Tensor> rows_of_positions(Context& context, const Param& table, std::span<const BatchPart> parts) {
  if (parts.size() == 1 && parts[0].rows == 1) {  // every step of decoding: without memory of its own
    const auto row = static_cast<uint32_t>(parts[0].position);
    return ops::embedding_lookup(context, table, std::span(&row, 1));
  }
  std::vector<uint32_t> rows;
  for (const BatchPart& part : parts) {
    for (uint64_t i = 0; i < part.rows; ++i) rows.push_back(static_cast<uint32_t>(part.position + i));
  }
  return ops::embedding_lookup(context, table, rows);
}

namespace {

struct RowRange {
  uint64_t first = 0, count = 0;
};

// Ranges of rows whose logits are wanted; those that follow each other are one.
std::vector<RowRange> wanted_ranges(std::span<const BatchPart> parts) {
  std::vector<RowRange> ranges;
  uint64_t row = 0;
  for (const BatchPart& part : parts) {
    RowRange range{row, part.rows};
    row += part.rows;
    if (part.logits == LogitRows::kNone) continue;
    if (part.logits == LogitRows::kLast) range = {row - 1, 1};
    if (!ranges.empty() && ranges.back().first + ranges.back().count == range.first) ranges.back().count += range.count;
    else ranges.push_back(range);
  }
  return ranges;
}

}  // namespace

Result<Tensor> wanted_rows(Context& context, const Tensor& x, std::span<const BatchPart> parts) {
  const std::vector<RowRange> ranges = wanted_ranges(parts);
  if (ranges.empty()) return context.workspace().make({0, x.dims()[1]}, x.dtype());
  if (ranges.size() == 1 && ranges[0].count == x.dims()[0]) return x;
  std::vector<Tensor> rows;
  for (const RowRange& range : ranges) {
    BALLAST_TRY(Tensor some, ops::slice_along_axis(context, x, 0, range.first, range.count));
    rows.push_back(std::move(some));
  }
  return rows.size() == 1 ? Result<Tensor>(std::move(rows[0])) : ops::concat_along_axis(context, rows, 0);
}

}  // namespace ballast
