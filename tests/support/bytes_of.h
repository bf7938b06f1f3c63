#pragma once

#include <span>
#include <vector>

#include "ballast/base/bytes.h"

namespace ballast {

template <typename T>
ByteSpan bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace ballast
