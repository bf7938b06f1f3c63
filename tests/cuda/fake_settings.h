// What a test tells the driver in tests/cuda/fake_driver.cc.
#pragma once

#include <cstdint>

namespace ballast::testing {

struct FakeCuda {
  int version = 13000;
  int devices = 1;
  int major = 9, minor = 0;
  uint64_t memory = uint64_t{1} << 30;
  int compiled_for = 90;  // the virtual architecture of the code that it loads
  // The n-th call from now on gives this code; 0: none does. A call that loses the device makes all later ones fail
  // too.
  uint64_t failing_call = 0;
  int failing_code = 999;
  // What it counts.
  uint64_t calls = 0;
  uint64_t bytes_out = 0;       // of device memory that was not given back
  uint64_t host_bytes_out = 0;  // the same of pinned memory
  uint64_t streams_out = 0;
  uint64_t events_out = 0;
  uint64_t launches = 0;
  uint64_t early_launches = 0;  // those of them that need not wait for the one before to end
  uint64_t uploaded = 0;        // bytes copied from the host
};

}  // namespace ballast::testing
