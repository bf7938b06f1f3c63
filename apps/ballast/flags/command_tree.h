// The commands and flags as data, read off the parser itself: what completions and the manual page are made from.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ballast::cli {

struct CommandOption {
  std::vector<std::string> names;    // "-h", "--help"
  std::string value;                 // what its value is called; empty for a flag
  std::vector<std::string> choices;  // the values it takes, where they can be listed
  bool takes_file = false;
  bool repeats = false;
  std::string description;
};

struct CommandArgument {
  std::string name;
  std::vector<std::string> choices;  // empty: a path
  bool required = false;
  bool repeats = false;
  std::string description;
};

struct CommandInfo {
  std::string name;
  std::string description;
  std::vector<CommandOption> options;
  std::vector<CommandArgument> arguments;
  std::string footer;
};

// The program itself, then its commands, in the order in which help lists them.
std::vector<CommandInfo> read_command_tree(const CLI::App& program);

// What `ballast NAME --help` prints; empty where there is no such command.
std::string command_help(const CLI::App& program, const std::string& name);

}  // namespace ballast::cli
