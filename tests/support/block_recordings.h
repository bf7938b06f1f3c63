// What ggml made of some tensors, and what its bytes mean: tests/data/blocks (its README says how it was recorded).
#pragma once

#include <string>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast::testing {

struct BlockRecording {
  ByteVector blocks;            // as ggml wrote them
  std::vector<float> expected;  // as ggml reads them
};

// Every block type with a recording.
std::vector<DType> recorded_block_types();
// `tensor` is "gauss", "awkward", "overflow" or "bits"; the last was made by no quantiser.
BlockRecording block_recording(DType dtype, const std::string& tensor);
// What the quantisers were given: "gauss", "awkward", "overflow", or "gaussian_64x1024".
std::vector<float> block_source(const std::string& tensor);

// Bit for bit, but for which NaN and which zero.
bool same_number(float a, float b);

}  // namespace ballast::testing
