// What a command says and how it ends: standard output, errors, exit codes.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "apps/ballast/terminal/terminal.h"
#include "ballast/base/result.h"

namespace ballast::cli {

inline constexpr int kExitYes = 0;            // done, or: the check says yes
inline constexpr int kExitNo = 1;             // the check says no: files differ, a recognised file is damaged
inline constexpr int kExitFailed = 2;         // could not do it: missing, unreadable, unknown format, usage
inline constexpr int kExitInterrupted = 130;  // by a signal

int exit_code_for(ErrorCode code);

class Console {
 public:
  Console();

  const Terminal& output() const { return output_; }
  const Terminal& errors() const { return errors_; }

  // Text for standard output: gathered here and written in one piece.
  std::string& out() { return out_; }
  // A line in bold above a block of output, with an empty line before it unless it is the first.
  void heading(std::string_view title);
  // Writes what was gathered. A reader that went away (`| head`) is no failure: the rest is dropped in silence.
  void flush();
  // Nobody reads standard output any more, so there is no use in making more of it.
  bool reader_gone() const { return reader_gone_; }

  // Standard output is taken by data: from now on everything gathered goes to standard error.
  void report_on_errors();

  // -q: results and errors only. -v: also what the command cost.
  void set_quiet();
  void set_verbose() { verbose_ = true; }
  bool quiet() const { return quiet_; }

  // Lines on standard error that are no complaint: times, statistics. With -q they are left out.
  void remark(std::string_view text);
  // "ballast: <text>" on standard error.
  void complain(std::string_view text);
  // Says what went wrong, with `json` also as {"error":{"code","message"}} on standard output; gives the exit code.
  int fail(const Error& error, bool json = false);

  // Flushes, and with -v tells the time and memory used. The command's exit code, or that of a failure to write its
  // output.
  int finish(int exit_code);

 private:
  Terminal output_;
  Terminal errors_;
  std::string out_;
  int out_fd_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool quiet_ = false;
  bool verbose_ = false;
  bool reader_gone_ = false;
  bool write_failed_ = false;
};

}  // namespace ballast::cli
