// The table behind remove_temporaries_on_signal(): what a signal handler may look at.
#pragma once

#include <string>

namespace ballast {

enum class Temporary : int { kFile, kFolder };

// Enters a file, or a folder that goes with everything in it; -1 when the table is full or the name too long, which
// only means that a signal leaves it to the next writer. `folder` must stay open until the slot is left. Lock-free,
// from any thread.
int enter_signal_table(int folder, const std::string& name, Temporary kind = Temporary::kFile);
void leave_signal_table(int slot);

}  // namespace ballast
