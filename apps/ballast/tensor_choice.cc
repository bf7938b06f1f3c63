#include "apps/ballast/tensor_choice.h"

#include <fmt/format.h>

#include <numeric>

#include "apps/ballast/text.h"
#include "ballast/archive/pattern.h"

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
std::vector<std::string> names_like(const Archive& archive, std::string_view name) {
  std::vector<std::string> found;
  if (name.empty() || name.size() > kLongestCompared) return found;
  std::vector<std::string_view> short_names;
  for (const TensorInfo& tensor : archive.tensors()) {
    if (tensor.name.find(name) != std::string::npos && found.size() < kSuggested) found.push_back(tensor.name);
    if (tensor.name.size() <= kLongestCompared) short_names.push_back(tensor.name);
  }
  if (!found.empty()) return found;
  const std::string_view best = nearest(name, short_names);
  if (!best.empty()) found.emplace_back(best);
  return found;
}

}  // namespace

Error no_such_tensor(const Archive& archive, const std::string& path, std::string_view name) {
  std::string text = fmt::format("{}: no tensor is called \"{}\"", path, name);
  std::vector<std::string> near = names_like(archive, name);
  for (std::string& candidate : near) candidate = '"' + candidate + '"';
  if (near.empty()) text += fmt::format("; `ballast inspect {}` lists the names", path);
  else text += fmt::format("; did you mean {}?", fmt::join(near, " or "));
  return make_error(ErrorCode::kNotFound, std::move(text));
}

}  // namespace ballast::cli
