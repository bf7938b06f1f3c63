// Work in a process of its own: to be killed, limited, or run as another user.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace ballast::testing {

// Runs `work` in a child and returns the text it returned; fails the test when the child dies instead. The parent must
// have no other threads.
std::string run_in_child(const std::function<std::string()>& work);

// The same as a user without privileges: where the tests run as root, root's rights would hide what is tested.
std::string run_unprivileged(const std::function<std::string()>& work);

// A child that runs `work`, tells the parent that it got there by returning from it, and then waits to be killed.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<void()>& work);
  ~WaitingChild();
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  // Sends the signal and returns what waitpid says.
  int end(int signal);

 private:
  pid_t process_;
};

}  // namespace ballast::testing
