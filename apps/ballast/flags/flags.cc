#include "apps/ballast/flags/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "apps/ballast/flags/parse_size.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

bool is_negative_whole(std::string_view text) {
  return text.size() > 1 && text.front() == '-' && text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// The parser's own conversion takes -1 for the largest number there is.
std::string check_count(const std::string& text, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  const bool too_large = failure == std::errc::result_out_of_range && stop == end;
  if (is_negative_whole(text)) return fmt::format("{} is below {}", text, least);
  if (!too_large && (failure != std::errc() || stop != end)) return fmt::format("\"{}\" is not a whole number", text);
  if (!too_large && value >= least && value <= most) return {};
  if (most != UINT64_MAX) return fmt::format("{} is not between {} and {}", text, least, most);
  return too_large ? fmt::format("{} is too large: at most {}", text, most)
                   : fmt::format("{} is below {}", text, least);
}

std::string check_real(const std::string& text, double least) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end || std::isnan(value)) return fmt::format("\"{}\" is not a number", text);
  return value >= least ? "" : fmt::format("{} is below {}", text, least);
}

std::string refuse_empty_value(const std::string& text) { return text.empty() ? "the value is empty" : ""; }

std::string refuse_empty_path(const std::string& text) { return text.empty() ? "the path is empty" : ""; }

std::string refuse_stream(const std::string& path, std::string_view kind) {
  if (path == "-") return fmt::format("writes a {0}, not standard output; ./- is a {0} named \"-\"", kind);
  return refuse_empty_path(path);
}

bool may_be_empty(const std::string& placeholder) {
  return placeholder == "TEXT" || placeholder == "KEY" || placeholder == "IDS";
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
  return Flag(app_.add_option(name, path, help)->required()->option_text(" ")->check(refuse_empty_path));
}

Flag Command::paths(const std::string& name, std::vector<std::string>& paths, const std::string& help) {
  return Flag(app_.add_option(name, paths, help)->required()->option_text("...")->check(refuse_empty_path));
}

Flag Command::optional_path(const std::string& name, std::string& path, const std::string& help) {
  return Flag(app_.add_option(name, path, help)->option_text(" ")->check(refuse_empty_path));
}

Flag Command::optional_paths(const std::string& name, std::vector<std::string>& paths, const std::string& help) {
  return Flag(app_.add_option(name, paths, help)->option_text("...")->check(refuse_empty_path));
}

Flag Command::optional_texts(const std::string& name, std::vector<std::string>& texts, const std::string& help) {
  return Flag(app_.add_option(name, texts, help)->option_text("..."));
}

Flag Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Flag(app_.add_flag(name, value, help)->disable_flag_override());
}

Flag Command::text(const std::string& name, const std::string& placeholder, std::string& value,
                   const std::string& help) {
  CLI::Option* const option = app_.add_option(name, value, help)->option_text(placeholder);
  if (!may_be_empty(placeholder)) option->check(refuse_empty_value);
  return Flag(option);
}

Flag Command::written_file(const std::string& name, std::string& path, const std::string& help) {
  return Flag(app_.add_option(name, path, help)->option_text("FILE")->check([](const std::string& given) {
    return refuse_stream(given, "file");
  }));
}

Flag Command::written_folder(const std::string& name, const std::string& placeholder, std::string& path,
                             const std::string& help) {
  return Flag(app_.add_option(name, path, help)->option_text(placeholder)->check([](const std::string& given) {
    return refuse_stream(given, "folder");
  }));
}

Flag Command::texts(const std::string& name, const std::string& placeholder, std::vector<std::string>& values,
                    const std::string& help) {
  CLI::Option* const option = app_.add_option(name, values, help)->option_text(placeholder)->allow_extra_args(false);
  if (!may_be_empty(placeholder)) option->check(refuse_empty_value);
  return Flag(option);
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

Flag Command::seed(const std::string& name, uint64_t& value, bool& random, const std::string& help) {
  const auto draw = [&random](std::string& text) -> std::string {
    if (text == "random") {
      random = true;
      text = std::to_string(std::random_device()());
    }
    return check_count(text, 0, UINT64_MAX);
  };
  return Flag(app_.add_option(name, value, help)->option_text("N")->transform(CLI::Validator(draw, "")));
}

Flag Command::size(const std::string& name, uint64_t& bytes, const std::string& help) {
  const auto in_bytes = [](std::string& text) -> std::string {
    const auto size = parse_size(text);
    if (!size) return fmt::format("\"{}\" is not a size of one byte or more; write 500MB or 2GiB", text);
    text = std::to_string(*size);
    return "";
  };
  return Flag(app_.add_option(name, bytes, help)->option_text("SIZE")->transform(CLI::Validator(in_bytes, "")));
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
  const auto check = [words](std::string& word) -> std::string {
    const auto is_meant = [&](const std::string& known) {
      return CLI::detail::to_lower(known) == CLI::detail::to_lower(word);
    };
    if (std::ranges::any_of(words, is_meant)) return "";
    const std::string_view meant = nearest(word, words);
    return meant.empty() ? fmt::format("\"{}\" is not one of {}", word, fmt::join(words, ", "))
                         : fmt::format("there is no \"{}\"; did you mean \"{}\"?", word, meant);
  };
  // The description is where completions find the words.
  CLI::Validator member(check, fmt::format("{{{}}}", fmt::join(words, ",")));
  return Flag(app_.add_option_function<std::string>(name, find, help)->option_text(placeholder)->check(member));
}

Flag Command::json(bool& value) { return flag("--json", value, "Print the result as JSON (see: ballast help json)"); }

Flag Command::threads(unsigned& value) {
  return Flag(app_.add_option("--threads", value, "Use at most N threads (default: all processors)")
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
