// What every text model does alike: its doors, and the checks of a batch.
#pragma once

#include "ballast/models/token_input.h"

namespace ballast {

class CausalModel : public Model, public CausalLm {
 public:
  const CausalLm* as_causal_lm() const final { return this; }
  Result<ModelOutput> forward(Context& context, const ModelInput& input) const final;
  Result<Tensor> forward_batch(Context& context, const TextBatch& batch) const final;

 protected:
  // Logits of a batch that was checked.
  virtual Result<Tensor> run(Context& context, const TextBatch& batch) const = 0;
};

}  // namespace ballast
