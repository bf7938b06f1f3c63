// Inputs that can be read only once ("-", named pipes, <(...)) and "-" as a destination.
#pragma once

#include <memory>
#include <string>

#include "apps/ballast/terminal/console.h"
#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/io/stream.h"

namespace ballast::cli {

inline bool is_stream(const std::string& path) { return path == "-"; }

// "-", or a path behind which a pipe is: a FIFO, <(...), /dev/stdin at the end of a pipeline.
bool reads_once(const std::string& path);

// What `path` names. What can be read only once goes into a temporary file first (in TMPDIR).
Result<ResolvedPath> resolve_input(const std::string& path, FileAccess access);
Result<Archive> open_input(const std::string& path, FileAccess access = FileAccess::kMapped);

// All of standard input as text; more than `most` bytes are an error.
Result<std::string> read_text_input(uint64_t most = uint64_t{64} << 20);
// The same of a file; "-" is standard input.
Result<std::string> read_text_input(const std::string& path, uint64_t most);
// A prompt from standard input: the newline that echo and editors put at its end is no part of it.
Result<std::string> read_prompt_input();

// Several inputs of one command: standard input can be only one of them.
Status refuse_repeated_stream(const std::vector<std::string>& paths);

// Where a command writes its archive: at a path, or to standard output. What the command says then goes to standard
// error.
class Output {
 public:
  // Refuses to fill a terminal with bytes. `format` is what --to says.
  static Result<std::unique_ptr<Output>> open(const std::string& path, const std::string& format, Console& console);

  // For WriteSettings::stream: null for a path.
  const OutputStream* stream() const { return pipe_ ? &stream_ : nullptr; }
  // The reader of the pipe has seen enough (`| head`): a failure to write is none.
  bool reader_is_gone() const { return pipe_ && pipe_->reader_is_gone(); }

 private:
  std::unique_ptr<PipeSink> pipe_;
  OutputStream stream_{};
};

}  // namespace ballast::cli
