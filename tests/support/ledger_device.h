// A device in the host's memory that writes down what was taken from it, has as much memory as a test says, and fails
// when told.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "ballast/device/device.h"

namespace ballast::testing {

struct DeviceLedger {
  uint64_t bytes_out = 0;
  uint64_t most_bytes = std::numeric_limits<uint64_t>::max();
  uint64_t allocations = 0;
  uint64_t calls = 0;         // allocations and copies
  uint64_t failing_call = 0;  // the number of one of them: it fails with kIo
};

// A queue of a new device. A copy that fails leaves its target as it was, and finish() tells.
std::shared_ptr<Queue> make_ledger_queue(std::shared_ptr<DeviceLedger> ledger);

}  // namespace ballast::testing
