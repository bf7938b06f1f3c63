// The table behind remove_temporaries_on_signal(): what a signal handler may look at.
#pragma once

#include <string>

namespace ballast {

// Enters a file; -1 when the table is full or the name too long, which only means that a signal leaves the file to the
// next writer. `folder` must stay open until the slot is left. Lock-free, from any thread.
int enter_signal_table(int folder, const std::string& name);
void leave_signal_table(int slot);

}  // namespace ballast
