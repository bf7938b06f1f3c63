#include "apps/ballast/terminal/interrupt.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <string_view>

#include "apps/ballast/terminal/console.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

// Handlers reach only what is global.
std::atomic<int> cancel_scopes{0};
std::atomic<int64_t> first_interrupt{0};  // when, in milliseconds; 0: never
std::atomic<int> last_signal{0};
std::atomic<const termios*> terminal_to_restore{nullptr};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

// Signals so close to each other are one request: timeout(1) tells the process and its group, a shell its jobs as well.
constexpr int64_t kSameRequestMilliseconds = 1000;

int64_t now_milliseconds() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000 + 1;
}

void on_interrupt(int signal) {
  last_signal = signal;
  const int64_t now = now_milliseconds();
  int64_t first = 0;
  if (first_interrupt.compare_exchange_strong(first, now)) first = now;
  if (cancel_scopes > 0 && now - first < kSameRequestMilliseconds) return;
  remove_temporaries_on_signal();
  if (const termios* settings = terminal_to_restore) {
    // What the line editor asked of the terminal beside its settings: pastes are marked no longer, and the shell's
    // prompt gets a line of its own.
    constexpr std::string_view kAsBefore = "\x1b[?2004l\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, kAsBefore.data(), kAsBefore.size());
    ::tcsetattr(STDIN_FILENO, TCSANOW, settings);
  }
  ::_exit(kExitInterrupted);
}

void on_bus_error(int) {
  remove_temporaries_on_signal();
  constexpr std::string_view kText =
      "ballast: a file was truncated by another program while it was being read; nothing was written\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kExitFailed);
}

std::atomic<bool> memory_ran_out{false};

void on_failed_allocation() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

// Memory may run out in a place that cannot pass it on: a destructor, the standard library's noexcept functions. What
// was thrown is not always known then. Anything else that gets here is a bug.
[[noreturn]] void on_terminate() {
  remove_temporaries_on_signal();
  if (memory_ran_out) end_without_memory();
  std::abort();
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

// A signal that the parent told us to ignore (nohup) stays ignored.
void handle_unless_ignored(int signal, void (*handler)(int)) {
  struct sigaction present = {};
  if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN) return;
  handle(signal, handler);
}

}  // namespace

void end_without_memory() {
  constexpr std::string_view kText = "ballast: not enough memory\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kExitFailed);
}

void install_signal_handlers() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle_unless_ignored(signal, on_interrupt);
  handle(SIGBUS, on_bus_error);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);  // a limit on the size of files is then an error of the write, which tidies up
  std::set_new_handler(on_failed_allocation);
  std::set_terminate(on_terminate);
}

CancelScope::CancelScope() { ++cancel_scopes; }
CancelScope::~CancelScope() { --cancel_scopes; }

bool interrupted() { return first_interrupt != 0; }

void set_terminal_to_restore(const termios* settings) { terminal_to_restore = settings; }

int take_interrupt() {
  first_interrupt = 0;
  return last_signal.exchange(0);
}

}  // namespace ballast::cli
