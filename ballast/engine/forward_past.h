// A pass over some tokens of a single text, for those that drive a model themselves.
#pragma once

#include <span>

#include "ballast/engine/kv_pool.h"
#include "ballast/models/model.h"

namespace ballast {

// An empty past for a text of up to so many tokens, in a pool of its own.
Result<KvSequence> make_lone_past(const CausalLm& model, Context& context, uint64_t text_length,
                                  DType dtype = DType::kF32);
// Logits of `ids`, which come behind what `past` has and are part of it afterwards. `text_length`: of the whole text,
// as far as it is known. An error leaves the past as it was.
Result<Tensor> forward_past(const CausalLm& model, Context& context, KvSequence& past, std::span<const TokenId> ids,
                            uint64_t text_length, LogitRows rows);

}  // namespace ballast
