#include "apps/ballast/flags/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/ballast/commands/topics.h"
#include "ballast/edit/adapt.h"
#include "ballast/formats/format.h"

namespace ballast::cli {

namespace {

std::vector<std::string> format_choices() {
  std::vector<std::string> names;
  for (const FormatDriver* format : all_formats()) {
    if (format->plan_write != nullptr) names.emplace_back(format->name);
  }
  return names;
}

std::vector<std::string> adapter_choices() {
  std::vector<std::string> names;
  for (const Adapter& adapter : all_adapters()) names.emplace_back(adapter.name);
  return names;
}

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Topic& topic : all_topics()) names.emplace_back(topic.name);
  return names;
}

// Values that a command checks itself, because its errors say more than the parser's would. Known by what help calls
// the value.
struct KnownValues {
  std::string_view value;
  std::vector<std::string> (*list)();
};
constexpr KnownValues kKnownValues[] = {
    {"FORMAT", format_choices},
    {"ADAPTER", adapter_choices},
    {"TOPIC", topic_names},
};
constexpr std::string_view kFileValues[] = {"FILE", "PATH", "OUT", "DIR"};

// The parser describes a set of words as "... {a,b}" and a table as "... {a->0,b->1} ...".
std::vector<std::string> checked_words(const std::string& type) {
  std::vector<std::string> words;
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return words;
  for (const std::string& item : CLI::detail::split(type.substr(open + 1, close - open - 1), ',')) {
    words.push_back(item.substr(0, item.find("->")));
  }
  return words;
}

std::vector<std::string> choices_of(const CLI::Option& option, std::string_view value) {
  std::vector<std::string> words = checked_words(option.get_type_name());
  if (!words.empty()) return words;
  for (const KnownValues& known : kKnownValues) {
    if (known.value == value) return known.list();
  }
  return words;
}

std::string value_name(const CLI::Option& option) {
  std::string text = option.get_option_text();
  CLI::detail::trim(text);
  if (!text.empty()) return text;
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

CommandOption read_option(const CLI::Option& option) {
  CommandOption result;
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  result.description = option.get_description();
  if (option.get_items_expected_max() == 0) return result;
  result.value = value_name(option);
  result.choices = choices_of(option, result.value);
  result.takes_file = std::ranges::find(kFileValues, result.value) != std::end(kFileValues);
  result.repeats = option.get_expected_max() > 1;
  return result;
}

CommandArgument read_argument(const CLI::Option& option) {
  CommandArgument result;
  result.name = option.get_name(/*positional=*/true);
  result.choices = choices_of(option, result.name);
  result.required = option.get_required();
  result.repeats = option.get_expected_max() > 1;
  result.description = option.get_description();
  return result;
}

CommandInfo read_command(const CLI::App& app) {
  CommandInfo result{.name = app.get_name(),
                     .description = app.get_description(),
                     .options = {},
                     .arguments = {},
                     .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) result.arguments.push_back(read_argument(*option));
    else result.options.push_back(read_option(*option));
  }
  return result;
}

}  // namespace

std::vector<CommandInfo> read_command_tree(const CLI::App& program) {
  std::vector<CommandInfo> all = {read_command(program)};
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(read_command(*command));
  }
  return all;
}

std::string command_help(const CLI::App& program, const std::string& name) {
  const auto found = program.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  if (found.empty()) return "";
  return found.front()->help(program.get_name()) + '\n' + found.front()->get_footer();
}

}  // namespace ballast::cli
