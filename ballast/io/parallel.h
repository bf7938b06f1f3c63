// One loop over many items, on several threads, with the outcome of one thread.
#pragma once

#include <cstddef>
#include <functional>

#include "ballast/base/result.h"

namespace ballast {

// Calls body(0) ... body(count - 1), each at most once, on up to `threads` threads (0 = as many as the machine has), of
// which the caller's is one. Items start in ascending order. Returns when all threads are done.
//
// The error returned is that of the lowest failing index, whatever the number of threads; items after it may or may not
// have run. std::bad_alloc in a body is kOutOfMemory; any other exception is kInvalidArgument with its text.
// With fewer threads to be had than asked for, the work is done by those there are.
Status parallel_for(size_t count, unsigned threads, const std::function<Status(size_t)>& body);

}  // namespace ballast
