// Tied tensors: the same type, shape and bytes under several names, such as an embedding that is also the output layer.
#pragma once

#include <span>
#include <vector>

#include "ballast/archive/digest.h"
#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"

namespace ballast {

struct TiedGroup {
  std::vector<size_t> tensors;  // positions in the archive, ascending; two or more
  bool same_extent;             // stored once: all of them refer to the same bytes of the file
};

// Each function gives its groups in the order of their first tensors. A tensor without bytes is never tied, and a
// tensor is in at most one group.

// Tensors that share one stored extent, type and shape. Costs nothing: no payload is read.
std::vector<TiedGroup> tied_by_extent(const Archive& archive);

// Also tensors whose bytes are stored several times. Reads a few samples of tensors that have the type and shape of
// another, and all of those whose samples are equal too. Equal constants (biases that are all zero) count as tied.
Result<std::vector<TiedGroup>> tied_by_content(const Archive& archive, unsigned threads = 0,
                                               const Progress& progress = {});

// The same where the digests are known already: one per tensor of the archive.
std::vector<TiedGroup> tied_by_digest(const Archive& archive, std::span<const TensorDigest> digests);

}  // namespace ballast
