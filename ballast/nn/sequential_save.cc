#include <fmt/format.h>

#include <filesystem>

#include "ballast/formats/drivers.h"
#include "ballast/io/guard.h"
#include "ballast/nn/sequential_file.h"

namespace ballast::nn {

Status create_parents(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) return {};
  std::error_code failure;
  std::filesystem::create_directories(parent, failure);
  if (!failure) return {};
  return make_error(ErrorCode::kIo, fmt::format("{}: the folder \"{}\" cannot be created: {}", path, parent.string(),
                                                failure.message()));
}

Result<SaveReport> save_safetensors(const Sequential& model, const std::string& path, bool sync, bool overwrite) {
  return guarded([&]() -> Result<SaveReport> {
    WritePlan plan;
    plan.description.metadata.push_back({std::string(kSequentialKey), sequential_json(model, "ballast.sequential")});
    for (const NamedTensor& tensor : model.state_dict()) plan.add_tensor(tensor.info, tensor.bytes);
    BALLAST_CHECK(create_parents(path));
    WriteSettings settings;
    settings.commit = {.overwrite = overwrite, .sync = sync};
    settings.accept_losses = true;  // which tensors train: the layers say so again
    BALLAST_TRY(const WriteReport written, write_archive(path, kSafetensorsDriver, plan, settings));
    return SaveReport{{}, written.bytes};
  });
}

}  // namespace ballast::nn
