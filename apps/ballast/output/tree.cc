#include "apps/ballast/output/tree.h"

#include <algorithm>
#include <bit>

#include "ballast/base/bytes.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kSeparators = ".:/";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_end(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// Bytes that both begin with.
size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t end = std::min(a.size(), b.size());
  const ByteSpan bytes_a = as_bytes(a), bytes_b = as_bytes(b);
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= end; at += sizeof(uint64_t)) {  // names share long beginnings
    const auto differing = load_le<uint64_t>(bytes_a.data() + at) ^ load_le<uint64_t>(bytes_b.data() + at);
    if (differing != 0) return at + static_cast<size_t>(std::countr_zero(differing)) / 8;
  }
  while (at < end && a[at] == b[at]) ++at;
  return at;
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t at = common_prefix(a, b);
  while (at > 0 && is_digit(a[at - 1])) --at;
  if (at == a.size() || at == b.size()) return a.size() < b.size();
  if (!is_digit(a[at]) || !is_digit(b[at])) {
    return static_cast<unsigned char>(a[at]) < static_cast<unsigned char>(b[at]);
  }
  const std::string_view run_a = a.substr(at, digits_end(a, at) - at), run_b = b.substr(at, digits_end(b, at) - at);
  const auto value = [](std::string_view run) { return run.substr(std::min(run.find_first_not_of('0'), run.size())); };
  const std::string_view value_a = value(run_a), value_b = value(run_b);
  if (value_a.size() != value_b.size()) return value_a.size() < value_b.size();
  if (value_a != value_b) return value_a < value_b;
  if (run_a.size() != run_b.size()) return run_a.size() < run_b.size();
  return a.substr(at + run_a.size()) < b.substr(at + run_b.size());  // they differ right behind the same number
}

// Where all names that begin alike stop doing so, not inside a number.
size_t shared_beginning(std::span<const std::string_view> names) {
  if (names.empty()) return 0;
  std::string_view shared = names.front();
  for (const std::string_view name : names) shared = shared.substr(0, common_prefix(shared, name));
  while (!shared.empty() && is_digit(shared.back())) shared.remove_suffix(1);
  return shared.size();
}

// A number that compares as the text does, as far as eight bytes tell: the value of a number, or the bytes up to one.
// Where two are the same, the texts themselves must be compared.
uint64_t natural_key(std::string_view text) {
  constexpr uint64_t kNumber = '0';  // all digits stand for a number here
  constexpr uint64_t kMostValue = (uint64_t{1} << 56) - 1;
  uint64_t key = 0;
  if (text.empty()) return key;
  if (is_digit(text.front())) {
    for (size_t at = 0; at < text.size() && is_digit(text[at]) && key < kMostValue; ++at) {
      key = std::min(kMostValue, key * 10 + static_cast<uint64_t>(text[at] - '0'));
    }
    return kNumber << 56 | key;
  }
  for (size_t at = 0; at < sizeof key; ++at) {
    const bool ended = at >= text.size() || (at > 0 && is_digit(text[at - 1]));
    if (ended) return key << 8 * (sizeof key - at);
    key = key << 8 | (is_digit(text[at]) ? kNumber : static_cast<unsigned char>(text[at]));
  }
  return key;
}

struct Node {
  std::string_view label;
  std::optional<size_t> item;
  size_t items = 0;
  uint64_t bytes = 0;
  size_t rank = 0;
  std::vector<size_t> children;  // positions in the list of nodes
};

// Items in the order of names go in, a tree comes out. All loops run over the parts of names, none over depth times
// items: a hostile name may have a million parts.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::span<const TreeItem> items) : items_(items), nodes_(1) {
    nodes_.reserve(items.size() + items.size() / 2);
    path_.push_back({0, 0});
  }

  void add(size_t item) {
    const std::string_view name = items_[item].name;
    leave_until_prefix_of(name);
    size_t at = path_.back().end;
    for (;;) {
      const size_t separator = name.find_first_of(kSeparators, at);
      if (separator == std::string_view::npos || separator + 1 == name.size()) break;
      enter(name, at, separator + 1);
      at = separator + 1;
    }
    const size_t leaf = make_node(name.substr(at));
    nodes_[leaf] = {name.substr(at), item, 1, items_[item].bytes, items_[item].rank, {}};
    account(leaf);
    last_name_ = name;
  }

  std::vector<Node> finish() {
    while (path_.size() > 1) leave();
    return std::move(nodes_);
  }

 private:
  struct Open {
    size_t node;
    size_t end;  // of the group's prefix in the name
  };

  void leave_until_prefix_of(std::string_view name) {
    const size_t common = common_prefix(last_name_, name);
    while (path_.size() > 1 && path_.back().end > common) leave();
  }

  size_t make_node(std::string_view label) {
    nodes_.push_back({});
    nodes_.back().label = label;
    nodes_[path_.back().node].children.push_back(nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  void enter(std::string_view name, size_t begin, size_t end) {
    const size_t node = make_node(name.substr(begin, end - begin));
    path_.push_back({node, end});
  }

  // A finished group hands its totals to the group around it.
  void leave() {
    const size_t node = path_.back().node;
    path_.pop_back();
    account(node);
  }

  void account(size_t child) {
    Node& group = nodes_[path_.back().node];
    const Node& node = nodes_[child];
    group.rank = group.items == 0 ? node.rank : std::min(group.rank, node.rank);
    group.items += node.items;
    group.bytes += node.bytes;
  }

  std::span<const TreeItem> items_;
  std::vector<Node> nodes_;
  std::vector<Open> path_;
  std::string_view last_name_;
};

void sort_children(std::vector<Node>& nodes, TreeOrder order) {
  if (order == TreeOrder::kByName) return;
  for (Node& node : nodes) {
    std::ranges::stable_sort(node.children, [&](size_t a, size_t b) {
      return order == TreeOrder::kBySize ? nodes[a].bytes > nodes[b].bytes : nodes[a].rank < nodes[b].rank;
    });
  }
}

// A group that holds one thing only is written as part of that thing's label. Both labels were cut from the name of the
// same item, so they lie side by side.
std::string_view skip_lonely_groups(const std::vector<Node>& nodes, size_t& node) {
  const char* const begin = nodes[node].label.data();
  while (!nodes[node].item && nodes[node].children.size() == 1) {
    node = nodes[node].children.front();
  }
  const std::string_view last = nodes[node].label;
  return {begin, static_cast<size_t>(last.data() + last.size() - begin)};
}

}  // namespace

std::vector<size_t> natural_order(std::span<const std::string_view> names) {
  struct Keyed {
    uint64_t key;
    size_t position;
  };
  const size_t shared = shared_beginning(names);
  std::vector<Keyed> keyed;
  keyed.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) keyed.push_back({natural_key(names[i].substr(shared)), i});
  std::ranges::sort(keyed, [&](const Keyed& a, const Keyed& b) {
    return a.key != b.key ? a.key < b.key : natural_less(names[a.position], names[b.position]);
  });
  std::vector<size_t> order;
  order.reserve(names.size());
  for (const Keyed& entry : keyed) order.push_back(entry.position);
  return order;
}

std::vector<TreeLine> make_tree(std::span<const TreeItem> items, TreeOrder order) {
  std::vector<std::string_view> names;
  names.reserve(items.size());
  for (const TreeItem& item : items) names.push_back(item.name);
  TreeBuilder builder(items);
  for (const size_t item : natural_order(names)) builder.add(item);
  std::vector<Node> nodes = builder.finish();
  sort_children(nodes, order);

  struct Pending {
    size_t node;
    size_t depth;
  };
  std::vector<TreeLine> lines;
  lines.reserve(nodes.size());
  std::vector<Pending> pending;
  const auto push_children = [&](size_t node, size_t depth) {
    const auto& children = nodes[node].children;
    for (auto child = children.rbegin(); child != children.rend(); ++child) pending.push_back({*child, depth});
  };
  push_children(0, 0);
  while (!pending.empty()) {
    auto [node, depth] = pending.back();
    pending.pop_back();
    const std::string_view label = skip_lonely_groups(nodes, node);
    lines.push_back({depth, label, nodes[node].item, nodes[node].items, nodes[node].bytes});
    push_children(node, depth + 1);
  }
  return lines;
}

}  // namespace ballast::cli
