#include "apps/ballast/flags/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

// "A requires B" cut at the word; empty where the parser says something else.
struct TwoNames {
  std::string_view first, second;
};
TwoNames cut_at(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return {};
  return {text.substr(0, at), text.substr(at + word.size())};
}

const CLI::Option* find_option(const CLI::App& app, std::string_view name) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == name || option->get_name(/*positional=*/true) == name) return option;
  }
  return nullptr;
}

std::string value_of(const CLI::Option* option) {
  std::string text = option == nullptr ? "" : option->get_option_text();
  CLI::detail::trim(text);
  return text.empty() ? "VALUE" : text;
}

std::string missing_text(const CLI::App& chosen, std::string_view text) {
  const auto [name, rest] = cut_at(text, " is required");
  const CLI::Option* option = find_option(chosen, name);
  if (option == nullptr) return "something is missing";
  return fmt::format("{} is missing: {}", name, option->get_description());
}

// A value is missing or stands where none belongs, or an option stands on the line more often than it may.
std::string mismatch_text(const CLI::App& chosen, std::string_view text) {
  // The parser gives this name without its dashes.
  if (const auto [flag, rest] = cut_at(text, " was given a disallowed flag override"); !flag.empty())
    return fmt::format("{}{} takes no value", flag.size() == 1 ? "-" : "--", flag);
  const size_t colon = text.find(": ");
  const std::string_view name = text.substr(0, colon);
  const CLI::Option* option = find_option(chosen, name);
  if (text.find("At Most") != std::string_view::npos || text.find("At most") != std::string_view::npos)
    return fmt::format("{} is given more than once", name);
  return fmt::format("{} needs a value: {} {}", name, name, value_of(option));
}

std::string unknown_text(const CLI::App& chosen, const std::string& word) {
  if (!word.starts_with('-') || word == "-") return fmt::format("\"{}\" is one argument too many", word);
  std::vector<std::string> names;
  for (const CLI::Option* option : chosen.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string_view meant = nearest(word.substr(0, word.find('=')), names);
  return meant.empty() ? fmt::format("there is no option {}", word)
                       : fmt::format("there is no option {}; did you mean {}?", word, meant);
}

// "--x: what is wrong", where the second half is ours; the parser's own half is replaced.
std::string value_text(std::string_view text) {
  if (const auto [member, name] = cut_at(text, " is not an allowed value for "); !name.empty())
    return fmt::format("{}: not a valid value", name);
  if (text.starts_with("Could not convert: ")) {
    const auto [name, value] = cut_at(text.substr(text.find(": ") + 2), " = ");
    return fmt::format("{}: \"{}\" is not a valid value", name, value);
  }
  const size_t colon = text.find(": ");
  if (text.find("Should be true/false") != std::string_view::npos || text.find("flag") != std::string_view::npos)
    return fmt::format("{} takes no value", text.substr(0, colon));
  return std::string(text);
}

}  // namespace

std::string usage_error_text(const CLI::ParseError& error, const CLI::App& program, const CLI::App& chosen) {
  const std::string text = error.what();
  const auto remaining = program.remaining(/*recurse=*/true);
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError: return unknown_text(chosen, remaining.empty() ? "" : remaining.front());
    case CLI::ExitCodes::RequiredError:
      // An unknown option in front is what keeps the command from being found.
      return remaining.empty() ? missing_text(chosen, text) : unknown_text(chosen, remaining.front());
    case CLI::ExitCodes::ArgumentMismatch: return mismatch_text(chosen, text);
    case CLI::ExitCodes::ExcludesError: {
      const auto [first, second] = cut_at(text, " excludes ");
      return fmt::format("{} and {} cannot be combined", first, second);
    }
    case CLI::ExitCodes::RequiresError: {
      const auto [first, second] = cut_at(text, " requires ");
      return fmt::format("{} needs {}", first, second);
    }
    case CLI::ExitCodes::ConversionError:
    case CLI::ExitCodes::InvalidError: return value_text(text);
    default: return text;  // ValidationError: the check's own words, which are ours
  }
}

}  // namespace ballast::cli
