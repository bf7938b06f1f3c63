// The program `ballast`: finds the command, parses its flags, runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <new>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/topics.h"
#include "apps/ballast/flags/usage_error.h"
#include "apps/ballast/output/help_text.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/interrupt.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kProgramExamples =
    "Examples:\n"
    "  ballast inspect model.safetensors          show what a file contains\n"
    "  ballast convert model.bpk out.safetensors  convert to another format\n"
    "  ballast generate --prompt 'It was'         generate text with the built-in model\n"
    "  ballast convert --help                     show options and examples of a command\n"
    "  ballast help patterns                      read about a topic; `ballast help` lists them\n"
    "\n"
    "Exit codes:\n";
constexpr std::string_view kEnvironment =
    "\n"
    "Environment:\n"
    "  NO_COLOR  disable colours     COLUMNS  terminal width\n";

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
  // Without the parser's "Excludes:" and "Needs:"; descriptions say what matters.
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_option_text().empty() ? "" : " " + option->get_option_text();
  }
};

class Program {
 public:
  explicit Program(Console& console)
      : console_(console), app_("Inspect, convert, run and train neural networks.", "ballast") {
    app_.set_help_flag("-h,--help", "Print this help");
    app_.set_version_flag("--version", version_text, "Print version, build and CPU features");
    app_.require_subcommand(1);
    app_.footer(program_footer());
    app_.formatter(std::make_shared<HelpFormatter>());
    for (const AddCommand add : kCommands) {
      if (is_available(add)) runs_.push_back(add(app_, console_));
    }
    for (CLI::App* command : commands()) command->group("Commands");
    add_verbosity(app_);
    for (CLI::App* command : commands()) add_verbosity(*command);
  }

  int run(std::vector<std::string> arguments) {
    if (arguments.empty() || arguments == std::vector<std::string>{"--"}) return ask_for_command();
    if (const int code = check_command_name(arguments.front()); code != 0) return code;
    refuse_values_of_flags(arguments);
    std::ranges::reverse(arguments);  // as the parser wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      return explain(error);
    }
    return chosen_run()();
  }

  // -q and -v of every command that has work to show; before the command they do, too.
  void add_verbosity(CLI::App& app) {
    constexpr std::string_view kOnlyLists[] = {"formats", "models", "ops", "backends", "help", "completions", "man"};
    if (std::ranges::find(kOnlyLists, app.get_name()) != std::end(kOnlyLists)) return;
    if (app.get_option_no_throw("--quiet") == nullptr)
      app.add_flag_callback(
             "-q,--quiet", [this] { console_.set_quiet(); }, "Hide progress, notes and timings")
          ->disable_flag_override();
    if (app.get_option_no_throw("--verbose") == nullptr)
      app.add_flag_callback(
             "-v,--verbose", [this] { console_.set_verbose(); }, "Report time and memory used")
          ->disable_flag_override();
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

  // The parser refuses every value of a flag but "true": it gets to see another one.
  void refuse_values_of_flags(std::vector<std::string>& arguments) const {
    constexpr std::string_view kTrue = "=true";
    const auto all = commands();
    const auto command = std::ranges::find_if(
        all, [&](const CLI::App* app) { return std::ranges::find(arguments, app->get_name()) != arguments.end(); });
    for (std::string& argument : arguments) {
      if (argument == "--") return;
      if (!argument.starts_with("--") || !argument.ends_with(kTrue)) continue;
      const std::string name = argument.substr(0, argument.size() - kTrue.size());
      const CLI::Option* option = command != all.end() ? (*command)->get_option_no_throw(name) : nullptr;
      if (option == nullptr) option = app_.get_option_no_throw(name);
      if (option != nullptr && option->get_items_expected_max() == 0) argument = name + "=false";
    }
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
      console_.out() += fit_help(fmt::format("{}\n{}", app_.help(), chosen().get_footer()), console_.output().width);
      return kExitYes;
    }
    if (error.get_exit_code() == 0) {  // --version
      console_.out() += version_text();
      return kExitYes;
    }
    const bool no_command = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
    if (&chosen() == &app_ && no_command && app_.remaining().empty()) return ask_for_command();
    const std::string name = &chosen() == &app_ ? "ballast" : "ballast " + chosen().get_name();
    console_.complain(fmt::format("{}\nTry: {} --help", usage_error_text(error, app_, chosen()), name));
    return kExitFailed;
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
