// `ballast help`: commands and topics, and the text of one of them.
#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/topics.h"
#include "apps/ballast/flags/command_tree.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/help_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"

namespace ballast::cli {

namespace {

void list_everything(const CLI::App& program, Console& console) {
  const std::vector<CommandInfo> all = read_command_tree(program);
  console.heading("Commands (ballast COMMAND --help)");
  Table commands({{""}, {"", Align::kLeft, true}});
  for (size_t i = 1; i < all.size(); ++i) commands.add_row(Cell(all[i].name, Paint::kBold), all[i].description);
  commands.append_to(console.out(), console.output());
  console.heading("Topics (ballast help TOPIC)");
  Table topics({{""}, {"", Align::kLeft, true}});
  for (const Topic& topic : all_topics()) topics.add_row(Cell(topic.name, Paint::kBold), topic.summary);
  topics.append_to(console.out(), console.output());
}

int show_topic(const CLI::App& program, const std::string& name, Console& console) {
  if (const Topic* topic = find_topic(name)) {
    console.heading(topic->summary);
    console.out() += fit_help(fmt::format("\n{}", topic->text), console.output().width);
    return kExitYes;
  }
  if (const std::string help = command_help(program, name); !help.empty()) {
    console.out() += fit_help(help, console.output().width);
    return kExitYes;
  }
  std::vector<std::string> names;
  for (const Topic& topic : all_topics()) names.emplace_back(topic.name);
  const size_t topics = names.size();
  for (const CommandInfo& command : read_command_tree(program)) names.push_back(command.name);
  const std::string_view meant = nearest(name, names);
  names.resize(topics);
  console.complain(
      meant.empty() ? fmt::format("there is no topic or command \"{}\"; topics are: {}", name, fmt::join(names, ", "))
                    : fmt::format("there is no topic or command \"{}\"; did you mean \"{}\"?", name, meant));
  return kExitFailed;
}

}  // namespace

RunCommand add_help(CLI::App& program, Console& console) {
  Command command(program, "help", "Show help for a topic or command, or list them all");
  auto topic = std::make_shared<std::string>();
  command.optional_path("TOPIC", *topic, "A topic or a command");
  command.footer(
      "Examples:\n"
      "  ballast help\n"
      "  ballast help patterns\n"
      "  ballast help convert\n");
  return [topic, &program, &console] {
    if (!topic->empty()) return show_topic(program, *topic, console);
    list_everything(program, console);
    return kExitYes;
  };
}

}  // namespace ballast::cli
