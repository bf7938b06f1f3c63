#include "apps/ballast/flags/tensor_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/ballast/output/text.h"
#include "ballast/archive/pattern.h"
#include "ballast/formats/id_index.h"

namespace ballast::cli {

Result<std::vector<size_t>> select_tensors(const Archive& archive, const std::vector<std::string>& only) {
  std::vector<size_t> selected;
  if (only.empty()) {
    selected.resize(archive.tensors().size());
    std::iota(selected.begin(), selected.end(), 0);
    return selected;
  }
  std::vector<Pattern> patterns;
  for (const std::string& expression : only) {
    BALLAST_TRY(Pattern pattern, Pattern::compile(expression));
    patterns.push_back(std::move(pattern));
  }
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    for (const Pattern& pattern : patterns) {
      BALLAST_TRY(const bool found, pattern.found_in(archive.tensors()[i].name));
      if (!found) continue;
      selected.push_back(i);
      break;
    }
  }
  return selected;
}

namespace {

constexpr size_t kLongestCompared = 512;  // comparing two names costs the product of their lengths
constexpr size_t kSuggested = 5;

// Names that end as `name` does ("w_qkv" for "blocks.0.attention.w_qkv") say more than those spelled alike.
std::vector<std::string> names_like(std::span<const TensorInfo> tensors, std::string_view name) {
  std::vector<std::string> found;
  if (name.empty() || name.size() > kLongestCompared) return found;
  std::vector<std::string_view> short_names;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.find(name) != std::string::npos && found.size() < kSuggested) found.push_back(tensor.name);
    if (tensor.name.size() <= kLongestCompared) short_names.push_back(tensor.name);
  }
  if (!found.empty()) return found;
  const std::string_view best = nearest(name, short_names);
  if (!best.empty()) found.emplace_back(best);
  return found;
}

// So many hexadecimal digits that a name is unlikely: an id, perhaps with a digit too many or too few.
bool looks_like_id(std::string_view word) {
  constexpr size_t kFewest = 24, kMost = 40;
  return word.size() >= kFewest && word.size() <= kMost &&
         word.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

Error no_such_id(std::span<const TensorInfo> tensors, const std::string& path, std::string_view digits) {
  std::string text = fmt::format("{}: no tensor has the id {}", path, digits);
  const auto id = Id128::from_bytes_hex(digits);
  const auto meant = id ? nearest_id(tensors, BaseParamId{*id}) : std::nullopt;
  if (!id) text += fmt::format(", which has {} digits, not 32", digits.size());
  if (meant) {
    const std::string& name = tensors[*meant].name;
    text += fmt::format("; did you mean {}, the id of \"{}\"?", base_param_id(name).to_bytes_hex(), name);
  } else {
    text += fmt::format("; `ballast inspect --json {}` lists them as \"base_id\"", path);
  }
  return make_error(ErrorCode::kNotFound, std::move(text));
}

}  // namespace

std::optional<size_t> find_tensor(std::span<const TensorInfo> tensors, std::string_view name_or_id) {
  const auto named = std::ranges::find(tensors, name_or_id, &TensorInfo::name);
  if (named != tensors.end()) return static_cast<size_t>(named - tensors.begin());
  const auto id = Id128::from_bytes_hex(name_or_id);
  return id ? IdIndex().find(tensors, BaseParamId{*id}) : std::nullopt;
}

Error no_such_tensor(std::span<const TensorInfo> tensors, const std::string& path, std::string_view name) {
  if (looks_like_id(name)) return no_such_id(tensors, path, name);
  std::string text = fmt::format("{}: no tensor is called \"{}\"", path, name);
  std::vector<std::string> near = names_like(tensors, name);
  for (std::string& candidate : near) candidate = '"' + candidate + '"';
  if (near.empty()) text += fmt::format("; `ballast inspect {}` lists the names", path);
  else text += fmt::format("; did you mean {}?", fmt::join(near, " or "));
  return make_error(ErrorCode::kNotFound, std::move(text));
}

}  // namespace ballast::cli
