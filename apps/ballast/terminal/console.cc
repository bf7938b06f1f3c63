#include "apps/ballast/terminal/console.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/remedy_text.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

// 0, or the errno of the failure.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

}  // namespace

int exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCorrupt: return kExitNo;
    case ErrorCode::kCancelled: return kExitInterrupted;
    default: return kExitFailed;
  }
}

Console::Console()
    : output_(find_terminal(STDOUT_FILENO)), errors_(find_terminal(STDERR_FILENO)), out_fd_(STDOUT_FILENO) {}

void Console::report_on_errors() {
  out_fd_ = STDERR_FILENO;
  output_ = errors_;
}

void Console::heading(std::string_view title) {
  if (!out_.empty()) out_ += '\n';
  append_painted(out_, output_, Paint::kBold, title);
  out_ += '\n';
}

void Console::flush() {
  const std::string text = std::exchange(out_, {});
  if (reader_gone_ || write_failed_) return;
  const int failure = write_all(out_fd_, text);
  if (failure == EPIPE) {
    reader_gone_ = true;
  } else if (failure != 0) {
    write_failed_ = true;
    complain(fmt::format("cannot write to standard output: {}", std::strerror(failure)));
  }
}

void Console::set_quiet() {
  quiet_ = true;
  errors_.interactive = false;  // what draws progress looks there
}

void Console::remark(std::string_view text) {
  flush();
  if (quiet_) return;
  write_all(STDERR_FILENO, printable(text, /*keep_newlines=*/true));
}

void Console::complain(std::string_view text) {
  std::string line = painted(errors_, Paint::kRed, "ballast:");
  line += ' ';
  line += printable(text, /*keep_newlines=*/true);
  line += '\n';
  write_all(STDERR_FILENO, line);  // nobody left to tell when this fails
}

int Console::fail(const Error& error, bool json) {
  complain(error_text(error));
  if (json) {
    out_ = error_object(error);
    out_ += '\n';
  }
  return exit_code_for(error.code);
}

int Console::finish(int exit_code) {
  flush();
  if (std::exchange(verbose_, false)) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    remark(fmt::format("time {:.3f} s, peak memory {}\n", seconds.count(),
                       human_size(static_cast<uint64_t>(usage.ru_maxrss) * 1024)));  // Linux counts in KiB
  }
  return write_failed_ && exit_code != kExitInterrupted ? kExitFailed : exit_code;
}

}  // namespace ballast::cli
