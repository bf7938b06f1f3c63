// Collects an importance matrix while a model reads a text.
#pragma once

#include "ballast/edit/importance.h"
#include "ballast/ops/registry.h"

namespace ballast {

// Watches every product of a model with a weight and adds up the squares of its inputs. Costs nothing unless attached.
class ImportanceCollector {
 public:
  // For LoadOptions::extend. The collector must outlive the registry; one model at a time.
  Status attach(Registry& registry);

  // What was seen so far, by the names of the weights in the model's file.
  const ImportanceMatrix& matrix() const { return matrix_; }
  ImportanceMatrix take() { return std::move(matrix_); }

 private:
  ImportanceMatrix matrix_;
  Status failure_;  // of reading the inputs of the product that was seen last
};

}  // namespace ballast
