#include "tests/support/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace ballast::testing {

namespace {

using Clock = std::chrono::steady_clock;

// The end the parent reads, and the one that becomes the child's standard output or error.
struct Channel {
  int reader = -1;
  int writer = -1;
};

Channel make_pipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {ends[0], ends[1]};
}

Channel make_terminal(unsigned short columns) {
  Channel channel;
  channel.reader = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(::grantpt(channel.reader), 0);
  EXPECT_EQ(::unlockpt(channel.reader), 0);
  winsize size{};
  size.ws_col = columns;
  size.ws_row = 24;
  EXPECT_EQ(::ioctl(channel.reader, TIOCSWINSZ, &size), 0);
  channel.writer = ::open(::ptsname(channel.reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
  return channel;
}

// A file without a name that holds the text; nothing at all for an empty one.
int open_input(const std::string& text) {
  if (text.empty()) return ::open("/dev/null", O_RDONLY);
  const int file = ::memfd_create("input", 0);
  EXPECT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::lseek(file, 0, SEEK_SET);
  return file;
}

[[noreturn]] void become(const std::vector<std::string>& argv, const ProgramSetting& setting, int out, int err) {
  // Two groups of tests may run at once, and the shell's own signals must not decide how this one ends.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  for (const auto& [name, value] : setting.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (!setting.stdout_path.empty()) out = ::open(setting.stdout_path.c_str(), O_WRONLY);
  ::dup2(setting.type ? out : open_input(setting.input), STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

// False at the end of the stream; a terminal that nobody holds open any more gives an error there.
bool take_output(int fd, std::string& text) {
  char buffer[65536];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got <= 0) return got < 0 && errno == EINTR;
  text.append(buffer, static_cast<size_t>(got));
  return true;
}

void follow(pid_t process, Channel out, Channel err, const ProgramSetting& setting, ProgramRun& run) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(setting.timeout_seconds);
  pollfd waits[2] = {{out.reader, POLLIN, 0}, {err.reader, POLLIN, 0}};
  std::string* texts[2] = {&run.out, &run.err};
  bool timed_out = false;
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    ::poll(waits, 2, setting.watch || setting.type ? 1 : 100);
    for (size_t i = 0; i < 2; ++i) {
      if (waits[i].fd >= 0 && waits[i].revents != 0 && !take_output(waits[i].fd, *texts[i])) waits[i].fd = -1;
    }
    if (setting.watch) setting.watch(process, run.out);
    if (setting.type) {
      const std::string keys = setting.type(run.out);
      EXPECT_EQ(::write(out.reader, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }
    if (!timed_out && Clock::now() > deadline) {
      ADD_FAILURE() << "the program did not end within " << setting.timeout_seconds << " s";
      ::kill(process, SIGKILL);
      timed_out = true;
    }
  }
}

}  // namespace

ProgramRun run_program(const std::vector<std::string>& argv, const ProgramSetting& setting) {
  const Channel out = setting.terminal ? make_terminal(setting.columns) : make_pipe();
  const Channel err = setting.terminal ? Channel{} : make_pipe();
  const pid_t process = ::fork();
  if (process == 0) become(argv, setting, out.writer, setting.terminal ? out.writer : err.writer);
  ::close(out.writer);
  if (err.writer >= 0) ::close(err.writer);
  ProgramRun run;
  follow(process, out, err, setting, run);
  ::close(out.reader);
  if (err.reader >= 0) ::close(err.reader);
  int outcome = 0;
  ::waitpid(process, &outcome, 0);
  if (WIFEXITED(outcome)) run.exit_code = WEXITSTATUS(outcome);
  else run.signal = WTERMSIG(outcome);
  return run;
}

}  // namespace ballast::testing
