// What every text model asks of its input.
#pragma once

#include <span>

#include "ballast/models/model.h"

namespace ballast {

// kInvalidArgument, with the numbers, for no tokens, ids outside the vocabulary, and positions beyond the context.
Status check_tokens(std::span<const TokenId> ids, uint64_t vocab_size, uint64_t first_position,
                    uint64_t context_length);

// The tokens of a ModelInput, or an error that says what `kind` takes.
Result<std::span<const TokenId>> tokens_of(const ModelInput& input, std::string_view kind);
// The same for images.
Result<const Tensor*> image_of(const ModelInput& input, std::string_view kind);

// The rows of a table that the positions of a batch have.
Result<Tensor> rows_of_positions(Context& context, const Param& table, std::span<const BatchPart> parts);
// Those of the rows of a batch whose logits are asked for.
Result<Tensor> wanted_rows(Context& context, const Tensor& x, std::span<const BatchPart> parts);

}  // namespace ballast
