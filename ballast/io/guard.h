// The one place where allocation failure becomes an Error.
//
// The rule: a function of this layer or one above that returns a Result or a Status, and that programs call, throws
// nothing: its body runs in here. What returns a plain value that needs memory (a list, a text) throws std::bad_alloc
// as the standard library does, and so do constructors; functions that cannot fail allocate nothing.
#pragma once

#include <new>
#include <stdexcept>
#include <type_traits>

#include "ballast/base/result.h"

namespace ballast {

// So short that it needs no memory: there may be none left when it is made.
inline Error out_of_memory() { return make_error(ErrorCode::kOutOfMemory, "out of memory"); }

template <typename Body>
auto guarded(Body&& body) -> std::invoke_result_t<Body> {
#if defined(__cpp_exceptions)
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {  // a container beyond its largest size
    return out_of_memory();
  }
#else  // an allocation that fails ends the program: whoever runs it there (bindings/wasm) has to survive that
  return body();
#endif
}

}  // namespace ballast
