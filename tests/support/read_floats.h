// The numbers of a tensor, for tests that hold wherever the backend keeps its memory.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ballast/device/host_values.h"

namespace ballast::testing {

// Of f32 or f64. Fails the test where they cannot be read, and is empty then.
inline std::vector<float> read_floats(const Tensor& tensor) {
  auto values = floats_of(tensor);
  EXPECT_TRUE(values) << values.error().message;
  return values ? *std::move(values) : std::vector<float>();
}

}  // namespace ballast::testing
