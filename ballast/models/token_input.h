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

// Rows `first`, first + 1, ... of a table, `count` of them, as often as there are sequences.
Result<Tensor> consecutive_rows(Context& context, const Param& table, uint64_t first, uint64_t count,
                                uint64_t sequences);
// The last of t rows, where only that is asked for.
Result<Tensor> wanted_rows(Context& context, const Tensor& x, CausalLm::Rows rows);

}  // namespace ballast
