// The one place where allocation failure becomes an Error: every door of this layer runs inside.
#pragma once

#include <new>
#include <stdexcept>
#include <type_traits>

#include "ballast/base/result.h"

namespace ballast {

template <typename Body>
auto guarded(Body&& body) -> std::invoke_result_t<Body> {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory, "not enough memory");
  } catch (const std::length_error&) {
    return make_error(ErrorCode::kOutOfMemory, "not enough memory: a container would exceed its largest size");
  }
}

}  // namespace ballast
