#include "ballast/formats/tie.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "ballast/base/sort_positions.h"

namespace ballast {

namespace {

constexpr std::string_view kTie = "tie=";
constexpr size_t kMostTied = 20'000;

// Where "tie=" begins: at the front, or behind a blank.
size_t find_tie(std::string_view form) {
  const size_t at = form.rfind(kTie);
  return at != std::string_view::npos && (at == 0 || form[at - 1] == ' ') ? at : std::string_view::npos;
}

// Positions of the tensors that share their extent with another, those of one extent behind each other and ascending.
std::vector<uint32_t> find_shared(std::span<const StoredExtent> extents) {
  std::vector<uint32_t> order = all_positions(extents.size());
  const auto place = [&](uint32_t i) {
    const StoredExtent& extent = extents[i];
    return std::tuple(extent.source, extent.offset, extent.length, extent.member_prefix, extent.member_suffix,
                      extent.view != nullptr);
  };
  sort_positions(order, [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  const auto same = [&](uint32_t a, uint32_t b) { return share_payload(extents[a], extents[b]); };
  std::vector<uint32_t> shared;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool before = i > 0 && same(order[i - 1], order[i]);
    const bool after = i + 1 < order.size() && same(order[i], order[i + 1]);
    if (before || after) shared.push_back(order[i]);
  }
  return shared;
}

}  // namespace

std::optional<uint64_t> tie_number(std::string_view stored_form) {
  const size_t at = find_tie(stored_form);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = stored_form.substr(at + kTie.size());
  uint64_t number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::string_view form_without_tie(std::string_view stored_form) {
  if (!tie_number(stored_form)) return stored_form;
  const size_t at = find_tie(stored_form);
  return stored_form.substr(0, at == 0 ? 0 : at - 1);
}

void set_tie_number(TensorInfo& tensor, std::optional<uint64_t> number) {
  std::string form(form_without_tie(tensor.stored_form()));
  if (number) form += (form.empty() ? "" : " ") + std::string(kTie) + std::to_string(*number);
  if (form != tensor.stored_form()) tensor.set_stored_form(std::move(form));
}

void mark_ties(std::span<TensorInfo> tensors, std::span<const StoredExtent> extents) {
  const std::vector<uint32_t> shared = find_shared(extents);
  if (shared.empty() || shared.size() > kMostTied) return;
  std::vector<uint32_t> firsts;  // of each group
  for (size_t i = 0; i < shared.size(); ++i) {
    if (i == 0 || !share_payload(extents[shared[i - 1]], extents[shared[i]])) firsts.push_back(shared[i]);
  }
  std::ranges::sort(firsts);
  uint64_t number = 0;
  for (size_t i = 0; i < shared.size(); ++i) {
    if (const auto first = std::ranges::lower_bound(firsts, shared[i]); first != firsts.end() && *first == shared[i]) {
      number = static_cast<uint64_t>(first - firsts.begin()) + 1;
    }
    set_tie_number(tensors[shared[i]], number);
  }
}

}  // namespace ballast
