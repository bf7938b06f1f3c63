#include "ballast/models/causal_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

Result<ModelOutput> CausalModel::forward(Context& context, const ModelInput& input) const {
  BALLAST_TRY(const auto ids, tokens_of(input, kind()));
  return forward_tokens(context, ids, Rows::kAll);
}

Result<Tensor> CausalModel::forward_tokens(Context& context, std::span<const TokenId> ids, Rows rows) const {
  BALLAST_CHECK(check_tokens(ids, vocab_size(), 0, context_length()));
  return run(context, {.ids = ids, .rows = rows, .text_length = ids.size()});
}

Result<Tensor> CausalModel::forward_cached(Context& context, std::span<const TokenId> ids, KvCache& cache,
                                           Rows rows) const {
  const uint64_t position = cache.length();
  BALLAST_CHECK(check_tokens(ids, vocab_size(), position, context_length()));
  BALLAST_CHECK(cache.reserve(position + ids.size()));
  const uint64_t text_length = std::max(cache.expected(), position + ids.size());
  return run(context, {.ids = ids, .cache = &cache, .position = position, .rows = rows, .text_length = text_length});
}

Result<Tensor> CausalModel::forward_sequences(Context& context, std::span<const TokenId> ids,
                                              uint64_t sequences) const {
  if (sequences == 0 || ids.size() % sequences != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} tokens are not {} sequences of one length", ids.size(), sequences));
  }
  const uint64_t length = ids.size() / sequences;
  for (uint64_t i = 0; i < sequences; ++i) {
    BALLAST_CHECK(check_tokens(ids.subspan(i * length, length), vocab_size(), 0, context_length()));
  }
  return run(context, {.ids = ids, .sequences = sequences, .text_length = length});
}

}  // namespace ballast
