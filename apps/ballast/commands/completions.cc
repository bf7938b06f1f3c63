// `ballast completions`: scripts that let a shell complete commands, flags and their values.
#include <fmt/format.h>

#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/command_tree.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/terminal/console.h"

namespace ballast::cli {

namespace {

using Commands = std::vector<CommandInfo>;

// 'text' for a shell, whatever it holds.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string with_escapes(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::vector<std::string> option_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const CommandOption& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// Words that stand for an argument of the command; empty where arguments are paths.
std::vector<std::string> argument_words(const CommandInfo& command, const Commands& all) {
  std::vector<std::string> words;
  for (const CommandArgument& argument : command.arguments) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
    if (argument.name != "TOPIC") continue;
    for (size_t i = 1; i < all.size(); ++i) words.push_back(all[i].name);  // commands are topics too
  }
  return words;
}

// ---------------------------------------------------------------- bash

std::string bash_option_cases(const CommandInfo& command) {
  std::string text;
  for (const CommandOption& option : command.options) {
    if (option.value.empty()) continue;
    std::string pattern;
    for (const std::string& name : option.names) {
      pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : "|", command.name, name);
    }
    if (option.takes_file) text += fmt::format("    {}) kind=files ;;\n", pattern);
    else
      text += fmt::format("    {}) kind=words words={} ;;\n", pattern,
                          shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
  }
  return text;
}

std::string bash_command_case(const CommandInfo& command, const Commands& all) {
  const std::vector<std::string> words = argument_words(command, all);
  const bool files = words.empty() && !command.arguments.empty();
  return fmt::format("      {}) options={} words={} {};;\n", command.name,
                     shell_quoted(fmt::format("{}", fmt::join(option_names(command), " "))),
                     shell_quoted(fmt::format("{}", fmt::join(words, " "))), files ? "kind=files " : "");
}

// Plain bash, without the bash-completion package.
std::string bash_script(const Commands& all) {
  std::string options;
  std::string commands;
  std::vector<std::string> names;
  for (size_t i = 1; i < all.size(); ++i) {
    options += bash_option_cases(all[i]);
    commands += bash_command_case(all[i], all);
    names.push_back(all[i].name);
  }
  return fmt::format(
      R"(# bash completion for ballast
_ballast() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= kind= words= options= i
  # bash splits --flag=value into three words.
  if [ "$word" = "=" ]; then
    word=
  elif [ "$before" = "=" ] && [ "$COMP_CWORD" -gt 1 ]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      -*) ;;
      *) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$command $before" in
{}  esac
  if [ -z "$kind" ]; then
    kind=words
    case $command in
      '') options={} words={} ;;
{}    esac
    if [ "${{word#-}}" != "$word" ]; then
      kind=words words=$options
    fi
  fi
  COMPREPLY=()
  local found
  if [ "$kind" = files ]; then
    compopt -o filenames 2> /dev/null
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$word")
  else
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -W "$words" -- "$word")
  fi
}}
complete -F _ballast ballast
)",
      options, shell_quoted(fmt::format("{}", fmt::join(option_names(all[0]), " "))),
      shell_quoted(fmt::format("{}", fmt::join(names, " "))), commands);
}

// ---------------------------------------------------------------- zsh

std::string zsh_value(const CommandOption& option) {
  if (option.value.empty()) return "";
  const std::string name = with_escapes(option.value, ":");
  if (option.takes_file) return fmt::format(":{}:_files", name);
  if (!option.choices.empty()) return fmt::format(":{}:({})", name, fmt::join(option.choices, " "));
  return fmt::format(":{}: ", name);
}

// An _arguments specification: '(-h --help)'{-h,--help}'[Print this help]'. A value may follow as -oVALUE or
// --out=VALUE.
std::string zsh_option(const CommandOption& option) {
  std::vector<std::string> names = option.names;
  for (std::string& name : names) {
    if (!option.value.empty()) name += name.starts_with("--") ? "=" : "+";
  }
  const std::string rest =
      shell_quoted(fmt::format("[{}]{}", with_escapes(option.description, "[]:"), zsh_value(option)));
  const bool one = names.size() == 1;
  const std::string spelled = one ? names.front() : fmt::format("{{{}}}", fmt::join(names, ","));
  if (option.repeats) return "'*'" + spelled + rest;
  return one ? spelled + rest : fmt::format("'({})'{}{}", fmt::join(option.names, " "), spelled, rest);
}

std::string zsh_command(const CommandInfo& command, const Commands& all) {
  std::string text = fmt::format("        {})\n          _arguments", command.name);
  for (const CommandOption& option : command.options) text += " \\\n            " + zsh_option(option);
  const std::vector<std::string> words = argument_words(command, all);
  if (!words.empty()) {
    text += " \\\n            " + shell_quoted(fmt::format("*:argument:({})", fmt::join(words, " ")));
  } else if (!command.arguments.empty()) {
    text += " \\\n            '*:file:_files'";
  }
  return text + "\n          ;;\n";
}

std::string zsh_script(const Commands& all) {
  std::string described;
  std::string cases;
  std::string flags;
  for (const CommandOption& option : all[0].options) flags += "    " + zsh_option(option) + " \\\n";
  for (size_t i = 1; i < all.size(); ++i) {
    described += "        " + shell_quoted(all[i].name + ":" + with_escapes(all[i].description, ":")) + "\n";
    cases += zsh_command(all[i], all);
  }
  return fmt::format(
      R"(#compdef ballast
_ballast() {{
  local context state line
  typeset -A opt_args
  _arguments -C \
{}    '1:command:->command' \
    '*::argument:->argument'
  case $state in
    command)
      local -a commands
      commands=(
{}      )
      _describe command commands
      ;;
    argument)
      case $line[1] in
{}      esac
      ;;
  esac
}}
if [ "$funcstack[1]" = "_ballast" ]; then
  _ballast "$@"
else
  compdef _ballast ballast
fi
)",
      flags, described, cases);
}

// ---------------------------------------------------------------- fish

// Inside '...' fish takes \' and \\ only.
std::string fish_quoted(std::string_view text) { return "'" + with_escapes(text, "'\\") + "'"; }

std::string fish_option(const std::string& condition, const CommandOption& option) {
  std::string text = "complete -c ballast -n " + fish_quoted(condition);
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.takes_file) text += " -r -F";
  else if (!option.value.empty()) text += " -x";
  if (!option.choices.empty()) text += " -a " + fish_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
  return text + " -d " + fish_quoted(option.description) + "\n";
}

std::string fish_script(const Commands& all) {
  std::string text = "# fish completion for ballast\ncomplete -c ballast -f\n";
  for (const CommandOption& option : all[0].options) text += fish_option("__fish_use_subcommand", option);
  for (size_t i = 1; i < all.size(); ++i) {
    text += fmt::format("complete -c ballast -n __fish_use_subcommand -a {} -d {}\n", all[i].name,
                        fish_quoted(all[i].description));
  }
  for (size_t i = 1; i < all.size(); ++i) {
    const std::string condition = "__fish_seen_subcommand_from " + all[i].name;
    for (const CommandOption& option : all[i].options) text += fish_option(condition, option);
    const std::vector<std::string> words = argument_words(all[i], all);
    if (all[i].arguments.empty()) continue;
    text += fmt::format("complete -c ballast -n {} {}\n", fish_quoted(condition),
                        words.empty() ? "-F" : "-a " + fish_quoted(fmt::format("{}", fmt::join(words, " "))));
  }
  return text;
}

// ---------------------------------------------------------------- the command

constexpr const char* kCompletionsFooter =
    "Packages and `cmake --install` install these scripts. To install one by hand:\n"
    "  bash  ballast completions bash > ~/.local/share/bash-completion/completions/ballast\n"
    "  zsh   ballast completions zsh > ~/.zfunc/_ballast    (with: fpath+=~/.zfunc before compinit in ~/.zshrc)\n"
    "  fish  ballast completions fish > ~/.config/fish/completions/ballast.fish\n"
    "\n"
    "Examples:\n"
    "  ballast completions bash > ballast.bash\n"
    "  source <(ballast completions bash)\n";

}  // namespace

RunCommand add_completions(CLI::App& program, Console& console) {
  Command command(program, "completions", "Print a shell completion script");
  using Script = std::string (*)(const Commands& all);
  auto script = std::make_shared<Script>();
  command
      .choice<Script>("SHELL", " ", *script, {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}},
                      "Which shell: bash, zsh or fish")
      .required();
  command.footer(kCompletionsFooter);
  return [script, &program, &console] {
    console.out() += (*script)(read_command_tree(program));
    return kExitYes;
  };
}

}  // namespace ballast::cli
