#include "apps/ballast/streams.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "apps/ballast/text.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

}  // namespace

Result<ResolvedPath> resolve_input(const std::string& path, FileAccess access) {
  if (!is_stream(path)) return resolve_path(path, {.access = access});
  if (::isatty(STDIN_FILENO) == 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "\"-\" is standard input, which is a terminal here: send a file into it, or give a path");
  }
  ResolvedPath resolved;
  BALLAST_TRY(resolved.request.source, open_stream(STDIN_FILENO, "standard input", temporary_folder(), access));
  return resolved;
}

Result<Archive> open_input(const std::string& path, FileAccess access) {
  if (!is_stream(path)) return open_archive(path, {.access = access});
  BALLAST_TRY(const ResolvedPath resolved, resolve_input(path, access));
  return open_archive(resolved.request);
}

Result<std::string> read_text_input(uint64_t most) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0) return make_error(ErrorCode::kIo, "cannot read the text from standard input");
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > most) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the text on standard input is larger than {}", mib(most)));
    }
  }
}

Result<std::string> read_text_input(const std::string& path, uint64_t most) {
  if (is_stream(path)) return read_text_input(most);
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() > most) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: {} at once are too many; cut the file at a line break",
                                                           path, counted(source->size(), "byte")));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Status refuse_repeated_stream(const std::vector<std::string>& paths) {
  if (std::ranges::count(paths, "-") < 2) return {};
  return make_error(ErrorCode::kInvalidArgument, "\"-\" stands twice: standard input can be read only once");
}

Result<std::unique_ptr<Output>> Output::open(const std::string& path, const std::string& format, Console& console) {
  auto output = std::make_unique<Output>();
  if (!is_stream(path)) return output;
  if (format.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "standard output has no name that tells the format: give --to");
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "\"-\" is standard output, which is a terminal here: send it into a file or a pipe");
  }
  console.report_on_errors();
  output->pipe_ = std::make_unique<PipeSink>(STDOUT_FILENO, "standard output");
  output->stream_ = {output->pipe_.get(), temporary_folder()};
  return output;
}

}  // namespace ballast::cli
