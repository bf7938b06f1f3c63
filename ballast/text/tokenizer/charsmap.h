// SentencePiece's table of replacements, the normalizer that its models carry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// A double-array trie of what is replaced and the replacements, each ended by a zero byte. Every index of the trie is
// checked when it is followed: a file may lie.
class Charsmap {
 public:
  // `bytes`: u32 size of the trie, the trie, the replacements. kCorrupt where the sizes do not fit.
  static Result<Charsmap> parse(std::string_view bytes);

  struct Replacement {
    size_t length;  // of what is replaced
    std::string_view text;
  };
  // What replaces the shortest or the longest beginning of `text` that is in the table.
  std::optional<Replacement> find_shortest(std::string_view text) const;
  std::optional<Replacement> find_longest(std::string_view text) const;

  // As Hugging Face does it: character by character as readers see them, short ones as a whole where possible.
  // Ends early, with more than `most` bytes, where the text grows that much.
  std::string replace_graphemes(std::string_view text, size_t most) const;

 private:
  struct Tables {
    std::vector<uint32_t> units;
    std::string replacements;
  };
  template <typename Found>
  void walk(std::string_view text, Found&& found) const;
  std::string_view replacement_at(uint32_t offset) const;

  explicit Charsmap(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

}  // namespace ballast
