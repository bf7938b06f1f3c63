// The program `ballast`: finds the command, parses its flags, runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <new>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/interrupt.h"
#include "apps/ballast/text.h"
#include "apps/ballast/topics.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kProgramExamples =
    "Examples:\n"
    "  ballast inspect model.safetensors          what is in this file?\n"
    "  ballast convert model.bpk out.safetensors  the same weights in another format\n"
    "  ballast generate --prompt 'It was'         let the model that comes with Ballast write\n"
    "  ballast convert --help                     flags and examples of a command\n"
    "  ballast help patterns                      one of the topics that `ballast help` lists\n"
    "\n"
    "Exit codes:\n";
constexpr std::string_view kEnvironment =
    "\n"
    "Environment:\n"
    "  NO_COLOR  when set, no colours     COLUMNS  width of the terminal\n";

std::string program_footer() { return fmt::format("{}{}{}", kProgramExamples, exit_code_table(), kEnvironment); }

// Newer versions of the parser reflow the text below the flags, which would ruin the examples. It is added later.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(26);
    label("REQUIRED", "");
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
};

class Program {
 public:
  explicit Program(Console& console)
      : console_(console), app_("Stores, checks and converts weight files, and runs the models in them.", "ballast") {
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", version_text, "Print version, build and CPU features found");
    app_.require_subcommand(1);
    app_.footer(program_footer());
    app_.formatter(std::make_shared<HelpFormatter>());
    for (const AddCommand add : kCommands) runs_.push_back(add(app_, console_));
    for (CLI::App* command : commands()) command->group("Commands");
  }

  int run(std::vector<std::string> arguments) {
    if (arguments.empty()) return ask_for_command();
    if (const int code = check_command_name(arguments.front()); code != 0) return code;
    std::ranges::reverse(arguments);  // as the parser wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      return explain(error);
    }
    return chosen_run()();
  }

 private:
  std::vector<CLI::App*> commands() const {
    return const_cast<CLI::App&>(app_).get_subcommands([](CLI::App*) { return true; });
  }

  int ask_for_command() {
    std::string text = "which command?\n";
    for (const CLI::App* command : commands()) {
      text += fmt::format("  {:<11} {}\n", command->get_name(), command->get_description());
    }
    console_.complain(text + "Try: ballast --help");
    return kExitFailed;
  }

  int check_command_name(const std::string& word) {
    if (word.starts_with('-')) return 0;
    std::vector<std::string> names;
    for (const CLI::App* command : commands()) names.push_back(command->get_name());
    if (std::ranges::find(names, word) != names.end()) return 0;
    const std::string_view meant = nearest(word, names);
    console_.complain(meant.empty()
                          ? fmt::format("there is no command \"{}\"; there are: {}", word, fmt::join(names, ", "))
                          : fmt::format("there is no command \"{}\"; did you mean \"{}\"?", word, meant));
    return kExitFailed;
  }

  const CLI::App& chosen() const {
    const auto chosen = app_.get_subcommands();
    return chosen.empty() ? app_ : *chosen.front();
  }

  const RunCommand& chosen_run() const {
    const auto all = commands();
    return runs_[static_cast<size_t>(std::ranges::find(all, &chosen()) - all.begin())];
  }

  int explain(const CLI::ParseError& error) {
    if (error.get_name() == "CallForHelp") {
      console_.out() += fmt::format("{}\n{}", app_.help(), chosen().get_footer());
      return kExitYes;
    }
    if (error.get_exit_code() == 0) {  // --version
      console_.out() += version_text();
      return kExitYes;
    }
    const std::string name = &chosen() == &app_ ? "ballast" : "ballast " + chosen().get_name();
    console_.complain(fmt::format("{}\nTry: {} --help", usage_error_text(error), name));
    return kExitFailed;
  }

  // "--system: 1 required TEXT missing", as the parser has it.
  static std::string missing_value_text(const CLI::ParseError& error) {
    constexpr std::string_view kBefore = ": 1 required ", kBehind = " missing";
    const std::string_view text = error.what();
    const size_t at = text.find(kBefore);
    if (at == std::string_view::npos || !text.ends_with(kBehind)) return std::string(text);
    const size_t begin = at + kBefore.size();
    return fmt::format("{} needs a value: {} {}", text.substr(0, at), text.substr(0, at),
                       text.substr(begin, text.size() - kBehind.size() - begin));
  }

  std::string usage_error_text(const CLI::ParseError& error) {
    const auto remaining = app_.remaining(/*recurse=*/true);
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) return missing_value_text(error);
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError) || remaining.empty())
      return error.what();
    const std::string& word = remaining.front();
    if (!word.starts_with('-')) return fmt::format("\"{}\" is one argument too many", word);
    std::vector<std::string> names;
    for (const CLI::Option* option : chosen().get_options()) names.push_back(option->get_name());
    const std::string_view meant = nearest(word.substr(0, word.find('=')), names);
    return meant.empty() ? fmt::format("there is no option {}", word)
                         : fmt::format("there is no option {}; did you mean {}?", word, meant);
  }

  Console& console_;
  CLI::App app_;
  std::vector<RunCommand> runs_;  // in the order of the subcommands
};

}  // namespace

}  // namespace ballast::cli

int main(int argc, char** argv) {
  using namespace ballast::cli;
  install_signal_handlers();
  try {
    Console console;
    Program program(console);
    return console.finish(program.run({argv + std::min(argc, 1), argv + argc}));
  } catch (const std::bad_alloc&) {
    end_without_memory();
  }
}
