// Layers that are built alike, shown once.
#include <algorithm>
#include <unordered_map>

#include "apps/ballast/output/tree.h"

namespace ballast::cli {

namespace {

// "12.weight": 12 and ".weight".
struct NumberedLabel {
  std::string_view number;
  std::string_view rest;
};

NumberedLabel split_label(std::string_view label) {
  const size_t digits = std::min(label.find_first_not_of("0123456789"), label.size());
  return {label.substr(0, digits), label.substr(digits)};
}

// "0-3, 7, 9-11" of numbers in ascending order; texts because they may exceed any type.
std::string ranges_text(const std::vector<std::string_view>& numbers) {
  const auto follows = [](std::string_view a, std::string_view b) {
    if (a.size() > 18 || b.size() > 18) return false;
    return std::stoull(std::string(a)) + 1 == std::stoull(std::string(b));
  };
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t last = begin;
    while (last + 1 < numbers.size() && follows(numbers[last], numbers[last + 1])) ++last;
    text += text.empty() ? "" : ", ";
    text += numbers[begin];
    if (last > begin) text.append(last == begin + 1 ? ", " : "-").append(numbers[last]);
    begin = last + 1;
  }
  return text;
}

class Folder {
 public:
  Folder(const std::vector<TreeLine>& lines, const ItemsAlike& alike) : lines_(lines), alike_(alike) { find_ends(); }

  std::vector<TreeLine> run() {
    push(siblings(0, lines_.size()));
    while (!pending_.empty()) {
      TreeLine line = std::move(pending_.back().line);
      const size_t at = pending_.back().at;
      pending_.pop_back();
      out_.push_back(std::move(line));
      push(siblings(at + 1, ends_[at]));
    }
    return std::move(out_);
  }

 private:
  struct Pending {
    size_t at;  // of the line that is shown, and whose children follow
    TreeLine line;
  };

  // Where the lines below each line end.
  void find_ends() {
    ends_.assign(lines_.size(), lines_.size());
    std::vector<size_t> open;
    for (size_t i = 0; i < lines_.size(); ++i) {
      while (!open.empty() && lines_[open.back()].depth >= lines_[i].depth) {
        ends_[open.back()] = i;
        open.pop_back();
      }
      open.push_back(i);
    }
  }

  bool same_items(const TreeLine& a, const TreeLine& b) const {
    if (a.item.has_value() != b.item.has_value()) return false;
    return !a.item || alike_(*a.item, *b.item);
  }

  bool same_below(size_t a, size_t b) const {
    const size_t length = ends_[a] - a;
    if (ends_[b] - b != length || !same_items(lines_[a], lines_[b])) return false;
    for (size_t i = 1; i < length; ++i) {
      const TreeLine &one = lines_[a + i], &other = lines_[b + i];
      if (one.depth != other.depth || one.label != other.label || !same_items(one, other)) return false;
    }
    return true;
  }

  // The children between two lines, those that are alike together.
  std::vector<std::vector<size_t>> siblings(size_t begin, size_t end) const {
    std::vector<std::vector<size_t>> groups;
    std::unordered_map<std::string_view, std::vector<size_t>> by_rest;  // positions in `groups`
    for (size_t at = begin; at < end; at = ends_[at]) {
      const NumberedLabel label = split_label(lines_[at].label);
      if (label.number.empty()) {
        groups.push_back({at});
        continue;
      }
      std::vector<size_t>& candidates = by_rest[label.rest];
      const auto found = std::ranges::find_if(candidates, [&](size_t i) { return same_below(groups[i].front(), at); });
      if (found != candidates.end()) {
        groups[*found].push_back(at);
      } else if (candidates.size() < kMostShapes) {
        candidates.push_back(groups.size());
        groups.push_back({at});
      } else {
        groups.push_back({at});
      }
    }
    return groups;
  }

  TreeLine folded_line(const std::vector<size_t>& group) const {
    TreeLine line = lines_[group.front()];
    if (group.size() == 1) return line;
    std::vector<std::string_view> numbers;
    line.bytes = 0;
    for (const size_t at : group) {
      numbers.push_back(split_label(lines_[at].label).number);
      line.bytes += lines_[at].bytes;
    }
    line.folded = ranges_text(numbers);
    line.folded += split_label(line.label).rest;
    line.repeats = group.size();
    return line;
  }

  void push(const std::vector<std::vector<size_t>>& groups) {
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      pending_.push_back({group->front(), folded_line(*group)});
    }
  }

  static constexpr size_t kMostShapes = 64;  // different kinds of layers looked at; a file may hold millions

  const std::vector<TreeLine>& lines_;
  const ItemsAlike& alike_;
  std::vector<size_t> ends_;
  std::vector<Pending> pending_;
  std::vector<TreeLine> out_;
};

}  // namespace

std::vector<TreeLine> fold_repeats(const std::vector<TreeLine>& lines, const ItemsAlike& alike) {
  return Folder(lines, alike).run();
}

}  // namespace ballast::cli
