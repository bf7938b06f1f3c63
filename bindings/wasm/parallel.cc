// io/parallel.h where there is one thread.
#include "ballast/io/parallel.h"

namespace ballast {

Status parallel_for(size_t count, unsigned /*threads*/, const std::function<Status(size_t)>& body) {
  for (size_t i = 0; i < count; ++i) BALLAST_CHECK(body(i));
  return {};
}

}  // namespace ballast
