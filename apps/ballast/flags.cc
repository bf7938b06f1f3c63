#include "apps/ballast/flags.h"

namespace ballast::cli {

CLI::Option* add_path(CLI::App& command, const std::string& name, std::string& path, const std::string& help) {
  return command.add_option(name, path, help)->required()->option_text(" ");
}

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print one JSON object for programs (docs/command.md)");
}

void add_threads_option(CLI::App& command, unsigned& threads) {
  command.add_option("--threads", threads, "Use at most N threads; all processors unless given")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
}

CLI::Option* add_pattern_option(CLI::App& command, const std::string& name, std::vector<std::string>& patterns,
                                const std::string& help) {
  return command.add_option(name, patterns, help)->option_text("REGEX")->allow_extra_args(false);
}

}  // namespace ballast::cli
