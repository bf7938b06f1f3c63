#include "tests/support/written_folder.h"

#include <filesystem>
#include <fstream>

#include "ballast/archive/open.h"

namespace ballast::testing {

Status write_as_folder(const std::string& source, const std::string& folder, const FolderOptions& options) {
  BALLAST_TRY(const Archive archive, open_archive(source));
  BALLAST_TRY(const ExchangePlan plan, plan_folder({source, archive}, options));
  std::filesystem::create_directories(folder);
  ConvertOptions convert;
  convert.edits = plan.edits;
  BALLAST_CHECK(convert_archive(archive, folder + "/model.safetensors", *find_format("safetensors"), convert));
  write_companions(plan.companions, folder);
  return {};
}

void write_companions(const std::vector<CompanionFile>& files, const std::string& folder) {
  for (const CompanionFile& file : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << file.contents;
  }
}

}  // namespace ballast::testing
