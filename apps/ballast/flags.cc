#include "apps/ballast/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/ballast/model_cache.h"

namespace ballast::cli {

namespace {

// The parser's own conversion takes -1 for the largest number there is.
std::string check_count(const std::string& text, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end) return fmt::format("\"{}\" is no whole number", text);
  if (value >= least && value <= most) return {};
  if (most == UINT64_MAX) return fmt::format("{} is below {}", value, least);
  return fmt::format("{} is not between {} and {}", value, least, most);
}

std::string check_real(const std::string& text, double least) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end || std::isnan(value)) return fmt::format("\"{}\" is no number", text);
  return value >= least ? "" : fmt::format("{} is below {}", text, least);
}

}  // namespace

Flag Flag::excludes(Flag other) {
  option_->excludes(other.option_);
  return *this;
}

Flag Flag::needs(Flag other) {
  option_->needs(other.option_);
  return *this;
}

Flag Flag::required() {
  option_->required();
  return *this;
}

Flag Flag::or_model() {
  const auto resolve = [](std::string& word) -> std::string {
    auto path = resolve_model_name(word);
    if (!path) return path.error().message;
    word = std::move(*path);
    return "";
  };
  option_->transform(CLI::Validator(resolve, ""));
  return *this;
}

Command::Command(CLI::App& program, const std::string& name, const std::string& summary)
    : app_(*program.add_subcommand(name, summary)) {}

Flag Command::path(const std::string& name, std::string& path, const std::string& help) {
  return Flag(app_.add_option(name, path, help)->required()->option_text(" "));
}

Flag Command::paths(const std::string& name, std::vector<std::string>& paths, const std::string& help) {
  return Flag(app_.add_option(name, paths, help)->required()->option_text("..."));
}

Flag Command::optional_path(const std::string& name, std::string& path, const std::string& help) {
  return Flag(app_.add_option(name, path, help)->option_text(" "));
}

Flag Command::optional_texts(const std::string& name, std::vector<std::string>& texts, const std::string& help) {
  return Flag(app_.add_option(name, texts, help)->option_text("..."));
}

Flag Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Flag(app_.add_flag(name, value, help));
}

Flag Command::text(const std::string& name, const std::string& placeholder, std::string& value,
                   const std::string& help) {
  return Flag(app_.add_option(name, value, help)->option_text(placeholder));
}

Flag Command::texts(const std::string& name, const std::string& placeholder, std::vector<std::string>& values,
                    const std::string& help) {
  return Flag(app_.add_option(name, values, help)->option_text(placeholder)->allow_extra_args(false));
}

Flag Command::count(const std::string& name, const std::string& placeholder, uint64_t& value, const std::string& help,
                    uint64_t least, uint64_t most) {
  return Flag(app_.add_option(name, value, help)->option_text(placeholder)->check([=](const std::string& text) {
    return check_count(text, least, most);
  }));
}

Flag Command::real(const std::string& name, const std::string& placeholder, double& value, const std::string& help,
                   double least) {
  return Flag(app_.add_option(name, value, help)->option_text(placeholder)->check([=](const std::string& text) {
    return check_real(text, least);
  }));
}

Flag Command::size(const std::string& name, uint64_t& bytes, const std::string& help) {
  return Flag(
      app_.add_option(name, bytes, help)->option_text("SIZE")->transform(CLI::AsSizeValue(/*kb_is_1000=*/true)));
}

// Words are taken in any case: people write Q8_0 and F16 as well.
Flag Command::word(const std::string& name, const std::string& placeholder, std::vector<std::string> words,
                   std::function<void(size_t)> choose, const std::string& help) {
  const auto find = [words, choose = std::move(choose)](const std::string& word) {
    const auto is_meant = [&](const std::string& known) {
      return CLI::detail::to_lower(known) == CLI::detail::to_lower(word);
    };
    choose(static_cast<size_t>(std::ranges::find_if(words, is_meant) - words.begin()));
  };
  return Flag(app_.add_option_function<std::string>(name, find, help)
                  ->option_text(placeholder)
                  ->check(CLI::IsMember(words, CLI::ignore_case)));
}

Flag Command::json(bool& value) {
  return flag("--json", value, "Print one JSON object for programs (docs/command.md)");
}

Flag Command::threads(unsigned& value) {
  return Flag(app_.add_option("--threads", value, "Use at most N threads; all processors unless given")
                  ->option_text("N")
                  ->check([](const std::string& text) { return check_count(text, 1, 1024); }));
}

std::vector<std::string> Command::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_.parse_order()) names.push_back(option->get_name());
  return names;
}

void Command::footer(const std::string& text) { app_.footer(text); }

}  // namespace ballast::cli
