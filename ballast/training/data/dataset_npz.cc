#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ballast/archive/open.h"
#include "ballast/base/near_miss.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

Error no_such_array(const std::string& path, const Archive& archive, const std::string& name) {
  std::vector<std::string_view> names;
  constexpr size_t kShown = 8;
  for (const TensorInfo& tensor : archive.tensors()) names.push_back(tensor.name);
  const std::string_view near = nearest(name, names);
  const size_t hidden = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - hidden);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: has no array \"{}\"{}; it holds {}{}", path, name,
                                near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                                hidden == 0 ? "" : fmt::format(" and {} more", hidden)));
}

Result<ArrayColumn> take_array(const std::string& path, const std::shared_ptr<const Archive>& archive,
                               const std::string& name) {
  const auto index = archive->find(name);
  if (!index) return no_such_array(path, *archive, name);
  const TensorInfo& tensor = archive->tensors()[*index];
  BALLAST_TRY(Payload payload, archive->payload(*index));
  return ArrayColumn{name, tensor.dtype, tensor.shape, std::move(payload), archive};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_npz_dataset(const std::string& path, const NpzDatasetOptions& options) {
  BALLAST_TRY(Archive opened, open_archive(path));
  const auto archive = std::make_shared<const Archive>(std::move(opened));
  BALLAST_TRY(ArrayColumn features, take_array(path, archive, options.features));
  std::optional<ArrayColumn> targets;
  if (options.array.target != TargetForm::kNone) {
    BALLAST_TRY(targets, take_array(path, archive, options.targets));
  }
  return make_array_dataset(path, std::move(features), std::move(targets), options.array);
}

}  // namespace ballast
