// How a command declares its flags. The parser's own header costs ten seconds a file, so only flags.cc includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ballast::cli {

// One declared flag.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  // Giving both is an error.
  Flag excludes(Flag other);
  // This one alone is an error.
  Flag needs(Flag other);
  // Leaving it out is an error.
  Flag required();
  // Where no such file is, the name of a model that `ballast get` fetched will do.
  Flag or_model();

 private:
  CLI::Option* option_;
};

// A subcommand being declared. What the flags set must live until the command has run.
class Command {
 public:
  Command(CLI::App& program, const std::string& name, const std::string& summary);

  // Arguments without a dash, required.
  Flag path(const std::string& name, std::string& path, const std::string& help);
  Flag paths(const std::string& name, std::vector<std::string>& paths, const std::string& help);
  // The same, but may be left out.
  Flag optional_path(const std::string& name, std::string& path, const std::string& help);
  Flag optional_paths(const std::string& name, std::vector<std::string>& paths, const std::string& help);
  Flag optional_texts(const std::string& name, std::vector<std::string>& texts, const std::string& help);

  Flag flag(const std::string& name, bool& value, const std::string& help);
  // `placeholder` is what help shows for the value: FILE, N, REGEX. An empty value is refused, unless it is a
  // TEXT, the KEY of metadata, or IDS, of which the commands say more.
  Flag text(const std::string& name, const std::string& placeholder, std::string& value, const std::string& help);
  // A file that the command writes beside its result. "-" is refused: standard output has the result.
  Flag written_file(const std::string& name, std::string& path, const std::string& help);
  Flag written_folder(const std::string& name, const std::string& placeholder, std::string& path,
                      const std::string& help);
  // May be given several times; each takes one value.
  Flag texts(const std::string& name, const std::string& placeholder, std::vector<std::string>& values,
             const std::string& help);
  Flag patterns(const std::string& name, std::vector<std::string>& patterns, const std::string& help) {
    return texts(name, "REGEX", patterns, help);
  }
  Flag count(const std::string& name, const std::string& placeholder, uint64_t& value, const std::string& help,
             uint64_t least = 0, uint64_t most = UINT64_MAX);
  Flag real(const std::string& name, const std::string& placeholder, double& value, const std::string& help,
            double least = 0);
  // A number, or "random" for one that is drawn now, which `random` tells.
  Flag seed(const std::string& name, uint64_t& value, bool& random, const std::string& help);
  // Bytes, as 500MB or 2GiB.
  Flag size(const std::string& name, uint64_t& bytes, const std::string& help);

  // One of several words, each with its value.
  template <typename Value>
  Flag choice(const std::string& name, const std::string& placeholder, Value& value,
              std::vector<std::pair<std::string, Value>> choices, const std::string& help) {
    std::vector<std::string> words;
    for (const auto& [word, meaning] : choices) words.push_back(word);
    return word(
        name, placeholder, std::move(words),
        [&value, choices = std::move(choices)](size_t chosen) { value = choices[chosen].second; }, help);
  }

  // Flags that several commands have, spelled once.
  Flag json(bool& value);
  Flag threads(unsigned& value);

  // Once the command line was parsed: the names of the flags on it, in their order, as often as they stand there.
  std::vector<std::string> given() const;

  // Stands below the flags in --help: what else to know, and examples.
  void footer(const std::string& text);

 private:
  Flag word(const std::string& name, const std::string& placeholder, std::vector<std::string> words,
            std::function<void(size_t)> choose, const std::string& help);

  CLI::App& app_;
};

}  // namespace ballast::cli
