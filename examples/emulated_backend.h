// A backend from outside of Ballast: a device whose memory the host cannot reach. It is emulated. Its memory is shown
// to the implementations of functionals and routines while they run, which are the reference's, and to nobody else;
// whoever reaches for it from the host meets a null pointer.
#pragma once

#include <ballast/ops/backend.h>

#include <cstdint>

namespace emulated {

const ballast::Backend& backend();

// The n-th call to a device from now on fails: an allocation, a copy, a fill, a functional or a routine. 0: none does.
void fail_call(uint64_t n);
// Calls since then.
uint64_t calls();
// Bytes of memory of all devices that have not been given back.
uint64_t bytes_out();
// Times that a thread used a device while another was at it: queues are for one thread at a time.
uint64_t overlaps();

}  // namespace emulated
