#include "ballast/io/process_id.h"

#include <unistd.h>

namespace ballast {

int64_t process_id() { return getpid(); }

}  // namespace ballast
