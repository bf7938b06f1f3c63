#include "ballast/edit/renumber.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ballast/archive/pattern.h"
#include "ballast/edit/rename.h"

namespace ballast {

namespace {

std::optional<uint64_t> as_number(std::string_view component) {
  if (component.empty() || (component[0] == '0' && component.size() > 1)) return std::nullopt;
  uint64_t number = 0;
  const char* end = component.data() + component.size();
  const auto [stop, error] = std::from_chars(component.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// The names as a tree of components, so that memory is in proportion to the names however deep they are.
class NameTree {
 public:
  void add(std::string_view name) {
    size_t node = 0;
    for_components(name, [&](std::string_view component, size_t) {
      if (const auto number = as_number(component)) nodes_[node].numbers.emplace(*number, *number);
      node = child(node, component);
    });
  }

  // What stands below a path that `keep` finds is not renumbered.
  Status close_gaps(const std::vector<Pattern>& keep, std::string_view name) {
    size_t node = 0;
    Status status;
    for_components(name, [&](std::string_view component, size_t at) {
      Node& here = nodes_[node];
      if (!here.settled && !here.numbers.empty() && status) status = settle(here, keep, name.substr(0, at));
      node = child(node, component);
    });
    return status;
  }

  std::string renumbered(std::string_view name) {
    std::string result;
    size_t node = 0;
    for_components(name, [&](std::string_view component, size_t at) {
      if (at != 0) result += '.';
      const auto number = as_number(component);
      if (number) result += std::to_string(nodes_[node].numbers.at(*number));
      else result += component;
      node = child(node, component);
    });
    return result;
  }

 private:
  struct Node {
    std::map<uint64_t, uint64_t> numbers;  // among its children: old -> new
    bool settled = false;
  };
  struct Edge {
    size_t from;
    std::string_view component;
    bool operator==(const Edge&) const = default;
  };
  struct EdgeHash {
    size_t operator()(const Edge& edge) const {
      return std::hash<std::string_view>()(edge.component) * 31 + edge.from * 0x9E3779B97F4A7C15U;
    }
  };

  // Calls visit(component, position of its first byte).
  template <typename Visit>
  static void for_components(std::string_view name, Visit&& visit) {
    size_t begin = 0;
    while (true) {
      const size_t end = std::min(name.find('.', begin), name.size());
      visit(name.substr(begin, end - begin), begin);
      if (end == name.size()) return;
      begin = end + 1;
    }
  }

  size_t child(size_t node, std::string_view component) {
    const auto [found, is_new] = edges_.emplace(Edge{node, component}, nodes_.size());
    if (is_new) nodes_.emplace_back();
    return found->second;
  }

  static Status settle(Node& node, const std::vector<Pattern>& keep, std::string_view prefix) {
    node.settled = true;
    if (prefix.ends_with('.')) prefix.remove_suffix(1);
    BALLAST_TRY(const bool kept, any_found(keep, prefix));
    if (kept) return {};
    uint64_t next = 0;
    for (auto& [before, after] : node.numbers) after = next++;
    return {};
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::unordered_map<Edge, size_t, EdgeHash> edges_;
};

}  // namespace

PlanEdit renumber_tensors(RenumberOptions options) {
  return [options = std::move(options)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    BALLAST_TRY(const std::vector<Pattern> keep, Pattern::compile_all(options.except));
    std::vector<std::string> names;
    {
      NameTree tree;
      const std::vector<TensorInfo>& tensors = plan.description.tensors;
      for (const TensorInfo& tensor : tensors) tree.add(tensor.name);
      for (const TensorInfo& tensor : tensors) BALLAST_CHECK(tree.close_gaps(keep, tensor.name));
      for (const TensorInfo& tensor : tensors) names.push_back(tree.renumbered(tensor.name));
    }
    BALLAST_TRY(const size_t changed, set_names(plan, std::move(names)));
    notes.push_back(fmt::format("renumbered {} of {} tensors", changed, plan.description.tensors.size()));
    return {};
  };
}

}  // namespace ballast
