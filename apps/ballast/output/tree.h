// Tensor names as a tree: "blocks.0.attention.w_qkv" stands under "blocks.", "0.", "attention.".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::cli {

// Positions of the names in their order, in which numbers inside names compare as numbers: blocks.2 before blocks.10.
std::vector<size_t> natural_order(std::span<const std::string_view> names);

// Brings positions into that order of the names that `name_of` gives for them.
template <typename NameOf>
void sort_naturally(std::vector<size_t>& positions, NameOf&& name_of) {
  std::vector<std::string_view> names;
  for (const size_t position : positions) names.push_back(name_of(position));
  std::vector<size_t> order = natural_order(names);
  for (size_t& rank : order) rank = positions[rank];
  positions = std::move(order);
}

struct TreeItem {
  std::string_view name;
  uint64_t bytes;
  size_t rank;  // where the item stands in the order wanted, for TreeOrder::kByRank
};

enum class TreeOrder : unsigned char {
  kByName,
  kBySize,  // largest first, groups by what they hold
  kByRank,  // groups by the first of their items
};

struct TreeLine {
  size_t depth;
  // Part of the name. A group's ends with the separator ('.', ':' or '/') that joins it to what stands below, so that
  // the labels on the way to a tensor put together are its name.
  std::string_view label;
  std::optional<size_t> item;  // absent for a group
  size_t items;                // in the group
  uint64_t bytes;
  // Of a line that stands for several: "0-29." and how many. `items` is then that of one, `bytes` of all together.
  std::string folded = {};
  size_t repeats = 1;
};

// One line per item and per group of two or more, top down. The labels point into the names of `items`.
std::vector<TreeLine> make_tree(std::span<const TreeItem> items, TreeOrder order);

// Siblings whose labels are a number and the same rest, and below which the same lines stand, become one line
// ("0-3, 7-29."), with what stands below the first of them. `alike` tells whether two items count as the same.
using ItemsAlike = std::function<bool(size_t a, size_t b)>;
std::vector<TreeLine> fold_repeats(const std::vector<TreeLine>& lines, const ItemsAlike& alike);

}  // namespace ballast::cli
