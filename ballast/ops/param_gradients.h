// The gradients of the parameters of one store.
#pragma once

#include <vector>

#include "ballast/device/tensor.h"
#include "ballast/params/param_store.h"

namespace ballast {

// Where a gradient goes: written where it is the first, added to where there is one.
struct GradientPlace {
  Tensor* gradient = nullptr;
  bool add = false;
};

// Keeps its memory from step to step. One thread at a time.
class ParamGradients {
 public:
  explicit ParamGradients(Workspace& workspace) : workspace_(workspace) {}

  // From now on gradients of this parameter are made. All are of one store.
  void train(const Param& param);
  void freeze(const Param& param);
  bool trains(const Param& param) const;

  // What a functional's rule writes or adds to: the parameter's shape, in the type of the activations.
  Result<GradientPlace> place(const Param& param, DType dtype);
  // Null where nothing reached the parameter since clear().
  const Tensor* find(const Param& param) const;
  Tensor* find(const Param& param);
  void clear();

 private:
  struct Entry {
    bool trained = false;
    bool present = false;
    Tensor gradient;
  };
  Workspace& workspace_;
  const ParamStore* store_ = nullptr;
  std::vector<Entry> entries_;  // by Param::index()
};

}  // namespace ballast
