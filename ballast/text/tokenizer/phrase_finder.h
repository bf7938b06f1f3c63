// Finds a fixed set of phrases in text, in time linear in the text whatever the phrases are.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ballast {

// Aho and Corasick's automaton. It takes bytes one at a time; after each, the phrases that end there are at hand, the
// longest first. Fed with a text from its end to its beginning (Reading::kBackward) it knows those that begin there.
class PhraseFinder {
 public:
  enum class Reading : uint8_t { kForward, kBackward };
  struct Phrase {
    std::string_view text;
    uint32_t value;
  };

  // Of two equal phrases the last counts; an empty one is never found. Together they have less than 4 GiB.
  PhraseFinder(std::span<const Phrase> phrases, Reading reading);

  using State = uint32_t;
  static constexpr State kStart = 0;

  State next(State state, char byte) const;

  // for (State m = longest(state); m != kStart; m = shorter(m)) { length(m), value(m) }
  State longest(State state) const { return nodes_[state].longest; }
  State shorter(State match) const { return nodes_[nodes_[match].fallback].longest; }
  uint32_t length(State match) const { return nodes_[match].depth; }
  uint32_t value(State match) const { return nodes_[match].value; }

  bool empty() const { return nodes_.size() == 1; }

 private:
  struct Node {
    State parent = 0;
    State fallback = 0;  // of the longest proper suffix that is a state too
    State longest = 0;   // itself or the nearest along the fallbacks that is a phrase
    uint32_t depth = 0;
    uint32_t value = 0;
    unsigned char byte = 0;
    bool is_phrase = false;
  };

  static size_t slot_of(State state, unsigned char byte, size_t mask);
  State child(State state, unsigned char byte) const;
  State add_child(State state, unsigned char byte);
  void add(const Phrase& phrase, Reading reading);
  void connect();

  std::vector<Node> nodes_;
  std::vector<State> children_;  // open addressing by parent and byte; a power of two, at most half full; 0: free
  std::array<State, 256> first_{};
};

}  // namespace ballast
