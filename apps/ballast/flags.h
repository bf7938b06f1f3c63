// Flags that several commands have, spelled once.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ballast::cli {

CLI::Option* add_path(CLI::App& command, const std::string& name, std::string& path, const std::string& help);
void add_json_flag(CLI::App& command, bool& json);
void add_threads_option(CLI::App& command, unsigned& threads);
// May be given several times; each takes one regular expression.
CLI::Option* add_pattern_option(CLI::App& command, const std::string& name, std::vector<std::string>& patterns,
                                const std::string& help);

}  // namespace ballast::cli
