// Runs a program as a user would, and keeps what it printed and how it ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ballast::testing {

struct ProgramRun {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out;  // with `terminal`: what the terminal showed, standard error included
  std::string err;
};

struct ProgramSetting {
  std::vector<std::pair<std::string, std::string>> environment;  // added to the present one
  bool terminal = false;                                         // standard output and error are a terminal
  unsigned short columns = 80;                                   // of that terminal
  std::string input;                                             // what standard input gives, as a file
  // What is typed on the terminal, which is standard input too then. Asked about every millisecond, with what the
  // program printed so far.
  std::function<std::string(const std::string& out)> type;
  std::string stdout_path;  // where standard output goes instead of to `out`
  // Called about every millisecond while the program runs, with what it printed so far.
  std::function<void(pid_t process, const std::string& out)> watch;
  double timeout_seconds = 60;  // then it is killed and the test fails
};

// argv[0] is the path of the program.
ProgramRun run_program(const std::vector<std::string>& argv, const ProgramSetting& setting = {});

}  // namespace ballast::testing
