// Ctrl-C and its relatives, so that nothing half-written is left behind.
#pragma once

struct termios;

namespace ballast::cli {

// - SIGINT, SIGTERM, SIGHUP: work that can be cancelled is (see CancelScope); another signal a second later or more, or
//   one while nothing can be cancelled, removes this process's temporary files and ends it with exit code 130. Signals
//   within a second of the first are the same request, sent twice.
// - SIGBUS (a mapped file was truncated by someone else) removes them too, says so and ends with exit code 2.
// - SIGPIPE and SIGXFSZ are ignored: writing to a reader that went away, or more than the limit on the size of files
//   allows, is an ordinary error.
// - std::bad_alloc that nobody catches, or can catch, ends the process as end_without_memory does.
void install_signal_handlers();

// Says that there is not enough memory and ends with exit code 2. Allocates nothing: nothing is left to allocate.
[[noreturn]] void end_without_memory();

// Lives while work runs that asks `interrupted()` every few milliseconds.
class CancelScope {
 public:
  CancelScope();
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
};

bool interrupted();

// The signal that came since this was last asked (0: none), for work that goes on after one.
int take_interrupt();

// How standard input's terminal is left when a signal ends the process; null: as it is. Must stay valid until changed.
void set_terminal_to_restore(const termios* settings);

}  // namespace ballast::cli
