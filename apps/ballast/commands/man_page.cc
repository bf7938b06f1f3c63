// `ballast man`: the manual page, made from the parser and the topics, so that no text exists twice.
#include <fmt/format.h>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/topics.h"
#include "apps/ballast/flags/command_tree.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/version.h"

namespace ballast::cli {

namespace {

// A line of text: nothing in it is taken for a request or an escape, and a hyphen stays one that can be copied.
std::string roff(std::string_view line) {
  std::string out;
  if (line.starts_with('.') || line.starts_with('\'')) out += "\\&";
  for (const char c : line) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

// Plain text of help: indented lines stand as they are, others flow; "Examples:" on a line of its own is a heading.
class TextToRoff {
 public:
  explicit TextToRoff(std::string_view heading_request) : heading_request_(heading_request) {}

  std::string convert(std::string_view text) {
    for (const std::string_view line : lines_of(text)) add(line);
    set_verbatim(false);
    return std::move(out_);
  }

 private:
  void add(std::string_view line) {
    const bool indented = line.starts_with(' ');
    if (line.empty()) {
      set_verbatim(false);
      out_ += ".PP\n";
    } else if (!indented && line.ends_with(':') && line.find(' ') == line.rfind(' ')) {  // one or two words
      set_verbatim(false);
      const std::string title = roff(line.substr(0, line.size() - 1));
      out_ += fmt::format("{} {}\n", heading_request_, heading_request_ == ".SH" ? upper(title) : title);
    } else {
      set_verbatim(indented);
      out_ += roff(line) + '\n';
    }
  }

  void set_verbatim(bool wanted) {
    if (wanted != verbatim_) out_ += wanted ? ".RS 2\n.nf\n" : ".fi\n.RE\n";
    verbatim_ = wanted;
  }

  std::string heading_request_;
  bool verbatim_ = false;
  std::string out_;
};

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string option_entry(const CommandOption& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!option.value.empty()) text += " " + italic(option.value);
  text += '\n' + roff(option.description) + '\n';
  if (!option.choices.empty()) text += roff(fmt::format("(one of: {})", fmt::join(option.choices, ", "))) + '\n';
  return text;
}

std::string argument_entry(const CommandArgument& argument) {
  return fmt::format(".TP\n{}{}\n{}\n", italic(argument.name), argument.repeats ? " ..." : "",
                     roff(argument.description));
}

std::string usage(const CommandInfo& command) {
  std::string text = bold("ballast " + command.name);
  for (const CommandArgument& argument : command.arguments) {
    const std::string name = italic(argument.name) + (argument.repeats ? "..." : "");
    text += argument.required ? " " + name : " [" + name + "]";
  }
  return text + " [" + italic("OPTIONS") + "]";
}

std::string command_section(const CommandInfo& command) {
  std::string text = fmt::format(".SS {}\n{}\n.PP\n{}.\n", command.name, usage(command), roff(command.description));
  for (const CommandArgument& argument : command.arguments) text += argument_entry(argument);
  for (const CommandOption& option : command.options) {
    if (option.names.back() != "--help") text += option_entry(option);  // said once, above
  }
  return text + ".PP\n" + TextToRoff(".PP\n.B").convert(command.footer);
}

std::string man_page(const std::vector<CommandInfo>& all) {
  const CommandInfo& program = all.front();
  std::string text = fmt::format(
      ".\\\" Made by `ballast man`.\n"
      ".TH BALLAST 1 \"\" \"ballast {}\" \"User Commands\"\n.SH NAME\nballast \\- {}\n.SH SYNOPSIS\n",
      version(), roff(program.description.substr(0, program.description.find_last_not_of('.') + 1)));
  for (size_t i = 1; i < all.size(); ++i) text += usage(all[i]) + "\n.br\n";
  text += ".SH OPTIONS\n";
  for (const CommandOption& option : program.options) text += option_entry(option);
  text += ".SH COMMANDS\n";
  for (size_t i = 1; i < all.size(); ++i) text += command_section(all[i]);
  text += ".SH TOPICS\n";
  for (const Topic& topic : all_topics()) {
    text += fmt::format(".SS {}\n{}.\n.PP\n{}", roff(topic.name), roff(topic.summary),
                        TextToRoff(".PP\n.B").convert(topic.text));
  }
  return text + TextToRoff(".SH").convert(program.footer);
}

}  // namespace

RunCommand add_man(CLI::App& program, Console& console) {
  Command command(program, "man", "Print the manual page");
  command.footer(
      "Packages and `cmake --install` put the page where man looks.\n"
      "\n"
      "Examples:\n"
      "  ballast man > ballast.1\n"
      "  ballast man | man -l -\n");
  return [&program, &console] {
    console.out() += man_page(read_command_tree(program));
    return kExitYes;
  };
}

}  // namespace ballast::cli
