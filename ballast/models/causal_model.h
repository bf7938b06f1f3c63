// What every text model does alike: its doors, and the bookkeeping of the past.
#pragma once

#include "ballast/models/token_input.h"

namespace ballast {

// What a model is to compute logits of. Ids that were checked.
struct TextPass {
  std::span<const TokenId> ids;
  KvCache* cache = nullptr;  // there is room for them
  uint64_t position = 0;     // of the first
  CausalLm::Rows rows = CausalLm::Rows::kAll;
  uint64_t sequences = 1;    // more than one only without a cache
  uint64_t text_length = 0;  // with what is still to come; of one sequence

  uint64_t length() const { return ids.size() / sequences; }
};

class CausalModel : public Model, public CausalLm {
 public:
  const CausalLm* as_causal_lm() const final { return this; }
  Result<ModelOutput> forward(Context& context, const ModelInput& input) const final;
  Result<Tensor> forward_tokens(Context& context, std::span<const TokenId> ids, Rows rows) const final;
  Result<Tensor> forward_cached(Context& context, std::span<const TokenId> ids, KvCache& cache, Rows rows) const final;
  Result<Tensor> forward_sequences(Context& context, std::span<const TokenId> ids, uint64_t sequences) const final;

 protected:
  // Logits. The length of the cache is set where the last block has taken the ids up: what fails before leaves the past
  // as it was.
  virtual Result<Tensor> run(Context& context, const TextPass& pass) const = 0;
};

}  // namespace ballast
