#include "ballast/engine/forward_past.h"

#include <algorithm>
#include <array>

#include "ballast/models/token_input.h"

namespace ballast {

Result<KvSequence> make_lone_past(const CausalLm& model, Context& context, uint64_t text_length, DType dtype) {
  KvShape shape = model.kv_shape();
  shape.dtype = dtype;
  BALLAST_TRY(auto pool, KvPool::make(shape, context.workspace().shared_queue(), {.share_prefixes = false}));
  return KvSequence(std::move(pool), model.length_kind(text_length));
}

Result<Tensor> forward_past(const CausalLm& model, Context& context, KvSequence& past, std::span<const TokenId> ids,
                            uint64_t text_length, LogitRows rows) {
  BALLAST_CHECK(check_tokens(ids, model.vocab_size(), past.length(), model.context_length()));
  BALLAST_CHECK(past.reserve(ids.size()));
  const std::array part = {BatchPart{.rows = ids.size(),
                                     .position = past.length(),
                                     .text_length = std::max<uint64_t>(text_length, past.length() + ids.size()),
                                     .logits = rows,
                                     .past = &past.past()}};
  BALLAST_TRY(Tensor logits, model.forward_batch(context, {ids, part}));
  past.append(ids);
  return logits;
}

}  // namespace ballast
