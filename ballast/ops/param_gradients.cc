#include "ballast/ops/param_gradients.h"

namespace ballast {

void ParamGradients::train(const Param& param) {
  store_ = &param.store();
  if (entries_.size() <= param.index()) entries_.resize(param.index() + 1);
  entries_[param.index()].trained = true;
}

void ParamGradients::freeze(const Param& param) {
  if (trains(param)) entries_[param.index()] = Entry();
}

bool ParamGradients::trains(const Param& param) const {
  return param.valid() && &param.store() == store_ && param.index() < entries_.size() &&
         entries_[param.index()].trained;
}

Result<GradientPlace> ParamGradients::place(const Param& param, DType dtype) {
  Entry& entry = entries_[param.index()];
  if (entry.gradient.empty() || entry.gradient.dtype() != dtype) {
    BALLAST_TRY(entry.gradient, workspace_.make(Dims(param.shape().dims()), dtype));
    entry.present = false;
  }
  const bool add = entry.present;
  entry.present = true;
  return GradientPlace{&entry.gradient, add};
}

const Tensor* ParamGradients::find(const Param& param) const {
  return trains(param) && entries_[param.index()].present ? &entries_[param.index()].gradient : nullptr;
}

Tensor* ParamGradients::find(const Param& param) {
  return trains(param) && entries_[param.index()].present ? &entries_[param.index()].gradient : nullptr;
}

void ParamGradients::clear() {
  for (Entry& entry : entries_) entry.present = false;
}

}  // namespace ballast
