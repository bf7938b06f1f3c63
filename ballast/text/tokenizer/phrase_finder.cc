#include "ballast/text/tokenizer/phrase_finder.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ballast {

PhraseFinder::PhraseFinder(std::span<const Phrase> phrases, Reading reading) {
  nodes_.emplace_back();
  children_.resize(16);
  for (const Phrase& phrase : phrases) {
    if (!phrase.text.empty()) add(phrase, reading);
  }
  connect();
}

size_t PhraseFinder::slot_of(State state, unsigned char byte, size_t mask) {
  const uint64_t mixed = (uint64_t{state} << 8 | byte) * 0x9E3779B97F4A7C15U;
  return (mixed >> 29) & mask;
}

PhraseFinder::State PhraseFinder::child(State state, unsigned char byte) const {
  const size_t mask = children_.size() - 1;
  for (size_t at = slot_of(state, byte, mask); children_[at] != 0; at = (at + 1) & mask) {
    const Node& node = nodes_[children_[at]];
    if (node.parent == state && node.byte == byte) return children_[at];
  }
  return kStart;
}

PhraseFinder::State PhraseFinder::add_child(State state, unsigned char byte) {
  const auto place = [this](State node) {
    const size_t mask = children_.size() - 1;
    size_t at = slot_of(nodes_[node].parent, nodes_[node].byte, mask);
    while (children_[at] != 0) at = (at + 1) & mask;
    children_[at] = node;
  };
  const auto added = static_cast<State>(nodes_.size());
  nodes_.push_back({.parent = state,
                    .fallback = 0,
                    .longest = 0,
                    .depth = nodes_[state].depth + 1,
                    .value = 0,
                    .byte = byte,
                    .is_phrase = false});
  if (nodes_.size() * 2 > children_.size()) {
    children_.assign(children_.size() * 2, 0);
    for (State node = 1; node < nodes_.size(); ++node) place(node);
  } else {
    place(added);
  }
  return added;
}

void PhraseFinder::add(const Phrase& phrase, Reading reading) {
  State state = kStart;
  for (size_t i = 0; i < phrase.text.size(); ++i) {
    const size_t at = reading == Reading::kForward ? i : phrase.text.size() - 1 - i;
    const auto byte = static_cast<unsigned char>(phrase.text[at]);
    const State known = child(state, byte);
    state = known != kStart ? known : add_child(state, byte);
  }
  nodes_[state].is_phrase = true;
  nodes_[state].value = phrase.value;
}

// Fallbacks of the shallow states first: those of the deeper ones are among them.
void PhraseFinder::connect() {
  std::vector<State> order(nodes_.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::ranges::stable_sort(order, {}, [this](State state) { return nodes_[state].depth; });
  for (const State state : order) {
    Node& node = nodes_[state];
    if (node.depth == 1) first_[node.byte] = state;
    else node.fallback = next(nodes_[node.parent].fallback, static_cast<char>(node.byte));
    node.longest = node.is_phrase ? state : nodes_[node.fallback].longest;
  }
}

PhraseFinder::State PhraseFinder::next(State state, char c) const {
  const auto byte = static_cast<unsigned char>(c);
  while (state != kStart) {
    if (const State found = child(state, byte); found != kStart) return found;
    state = nodes_[state].fallback;
  }
  return first_[byte];
}

}  // namespace ballast
