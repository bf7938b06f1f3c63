#include "bindings/python/module/native_call.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ballast::python {

namespace {

std::atomic<bool> is_ending{false};
std::atomic<int> under_way{0};  // threads with a call, however many calls of each are nested
thread_local int depth = 0;

// A step of a large model may take long; one that takes longer than this is given up.
constexpr std::chrono::seconds kLongestStep{60};

bool is_main_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)) == ::getpid(); }

void end_native_calls() {
  is_ending = true;
  const nb::gil_scoped_release released;
  const auto until = std::chrono::steady_clock::now() + kLongestStep;
  while (under_way > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Other threads do not survive fork(), and so neither do the calls that they had under way.
void forget_native_calls() { under_way = depth > 0 ? 1 : 0; }

}  // namespace

NativeCall::NativeCall() {
  if (depth++ > 0) return;
  // Counted first: whoever looks at the count after is_ending was set sees this call, or this call sees that.
  ++under_way;
  stay_away_at_the_end();
}

void NativeCall::stay_away_at_the_end() {
  if (!ending()) return;
  // Raising would make the thread print its trace while the interpreter takes its streams apart.
  --under_way;
  const nb::gil_scoped_release released;
  for (;;) ::pause();
}

NativeCall::~NativeCall() {
  if (--depth == 0) --under_way;
}

bool NativeCall::ending() { return is_ending && !is_main_thread(); }

Birthplace::Birthplace() : process_(::getpid()) {}

bool Birthplace::is_here() const { return process_ == ::getpid(); }

void bind_native_calls(nb::module_& module) {
  module.def("_end_native_calls", &end_native_calls);
  nb::module_::import_("atexit").attr("register")(module.attr("_end_native_calls"));
  module.def("_forget_native_calls", &forget_native_calls);
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") = module.attr("_forget_native_calls"));
}

}  // namespace ballast::python
