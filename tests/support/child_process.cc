#include "tests/support/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace ballast::testing {

namespace {

// Everything that comes out of the pipe until its other end is closed.
std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done <= 0) return;
    text.remove_prefix(static_cast<size_t>(done));
  }
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) {
    ADD_FAILURE() << "no pipe";
    return {};
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    write_all(ends[1], work());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int outcome = 0;
  ::waitpid(child, &outcome, 0);
  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << "the child died with " << outcome;
  return text;
}

std::string run_unprivileged(const std::function<std::string()>& work) {
  constexpr uid_t kNobody = 65534;
  return run_in_child([&]() -> std::string {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return "cannot become another user";
    return work();
  });
}

WaitingChild::WaitingChild(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) ADD_FAILURE() << "no pipe";
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    work();
    ::close(ends[1]);
    while (true) ::pause();
  }
  ::close(ends[1]);
  read_all(ends[0]);
  ::close(ends[0]);
}

WaitingChild::~WaitingChild() { end(SIGKILL); }

int WaitingChild::end(int signal) {
  if (process_ <= 0) return 0;
  int outcome = 0;
  ::kill(process_, signal);
  ::waitpid(std::exchange(process_, -1), &outcome, 0);
  return outcome;
}

}  // namespace ballast::testing
