#include "apps/ballast/terminal/streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ballast/base/human_size.h"
#include "ballast/io/file.h"
#include "ballast/io/stream.h"

namespace ballast::cli {

namespace {

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

// Waits for a writer, as every program that reads a pipe does.
class Pipe {
 public:
  static Result<Pipe> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) return Pipe(fd);
    return make_error(ErrorCode::kIo, fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  }
  Pipe(Pipe&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Pipe& operator=(Pipe&&) = delete;
  ~Pipe() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  explicit Pipe(int fd) : fd_(fd) {}
  int fd_;
};

Error too_large(const std::string& name, uint64_t most) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: the text is larger than {}; split it at a line break", name, human_size(most)));
}

Result<std::string> read_to_end(int fd, const std::string& name, uint64_t most) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0) return make_error(ErrorCode::kIo, fmt::format("{}: cannot read: {}", name, std::strerror(errno)));
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > most) return too_large(name, most);
  }
}

}  // namespace

bool reads_once(const std::string& path) {
  struct stat info = {};
  return is_stream(path) || (::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode));
}

Result<ResolvedPath> resolve_input(const std::string& path, FileAccess access) {
  if (!reads_once(path)) return resolve_path(path, {.access = access});
  ResolvedPath resolved;
  if (!is_stream(path)) {
    BALLAST_TRY(const Pipe pipe, Pipe::open(path));
    BALLAST_TRY(resolved.request.source, open_stream(pipe.fd(), path, temporary_folder(), access));
    return resolved;
  }
  if (::isatty(STDIN_FILENO) == 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "\"-\" is standard input, which is a terminal: pipe a file into it, or give a path");
  }
  BALLAST_TRY(resolved.request.source, open_stream(STDIN_FILENO, "standard input", temporary_folder(), access));
  return resolved;
}

Result<Archive> open_input(const std::string& path, FileAccess access) {
  if (!reads_once(path)) return open_archive(path, {.access = access});
  BALLAST_TRY(const ResolvedPath resolved, resolve_input(path, access));
  return open_resolved(resolved);
}

Result<std::string> read_text_input(uint64_t most) { return read_to_end(STDIN_FILENO, "standard input", most); }

Result<std::string> read_text_input(const std::string& path, uint64_t most) {
  if (is_stream(path)) return read_text_input(most);
  if (reads_once(path)) {
    BALLAST_TRY(const Pipe pipe, Pipe::open(path));
    return read_to_end(pipe.fd(), path, most);
  }
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() > most) return too_large(path, most);
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Result<std::string> read_prompt_input() {
  BALLAST_TRY(std::string text, read_text_input());
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Status refuse_repeated_stream(const std::vector<std::string>& paths) {
  if (std::ranges::count(paths, "-") < 2) return {};
  return make_error(ErrorCode::kInvalidArgument, "\"-\" is given twice, but standard input can be read only once");
}

Result<std::unique_ptr<Output>> Output::open(const std::string& path, const std::string& format, Console& console) {
  auto output = std::make_unique<Output>();
  if (!is_stream(path)) return output;
  if (format.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "standard output needs a format: give --to");
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "\"-\" is standard output, which is a terminal: redirect it to a file or a pipe");
  }
  console.report_on_errors();
  output->pipe_ = std::make_unique<PipeSink>(STDOUT_FILENO, "standard output");
  output->stream_ = {output->pipe_.get(), temporary_folder()};
  return output;
}

}  // namespace ballast::cli
