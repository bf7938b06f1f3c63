#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ballast/base/checked.h"
#include "ballast/io/guard.h"
#include "ballast/io/list_folder.h"
#include "ballast/io/parallel.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

struct PictureFile {
  std::string path;
  uint32_t label = 0;
};

struct Listing {
  std::vector<std::string> classes;
  std::vector<PictureFile> files;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// Names in a folder that `keep` takes; hidden ones are nobody's pictures.
template <typename Keep>
Result<std::vector<std::string>> list_names(const std::string& folder, const Keep& keep) {
  BALLAST_TRY(const std::vector<std::string> all, names_in_folder(folder));
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (name.starts_with('.')) continue;
    BALLAST_TRY(const bool is_kept, keep((fs::path(folder) / name).string()));
    if (is_kept) names.push_back(name);
  }
  return names;
}

Result<Listing> list_pictures(const std::string& path) {
  Listing listing;
  BALLAST_TRY(listing.classes,
              list_names(path, [](const std::string& entry) { return is_folder(os_file_system(), entry); }));
  for (uint32_t label = 0; label < listing.classes.size(); ++label) {
    const std::string folder = (fs::path(path) / listing.classes[label]).string();
    BALLAST_TRY(const auto names, list_names(folder, [](const std::string& entry) {
                  return is_picture(entry) ? is_file(os_file_system(), entry) : Result<bool>(false);
                }));
    if (names.empty()) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: no .png, .jpg or .jpeg file in this folder, which stands for a class", folder));
    }
    for (const std::string& name : names) listing.files.push_back({(fs::path(folder) / name).string(), label});
  }
  if (!listing.files.empty()) return listing;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: no folders inside; a set of pictures has one for each class", path));
}

Status decode(const PictureFile& file, const PictureReader& read, const ImageFolderOptions& options,
              MutableByteSpan out) {
  BALLAST_TRY(const Picture picture, read(file.path));
  std::vector<float> planes(out.size());
  auto status = picture_to_planes(picture, options.channels, options.size, options.size, planes);
  if (!status) return std::move(status).error().with_context(file.path);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(std::lround(std::clamp(planes[i], 0.0F, 255.0F)));
  return {};
}

// Pictures are decoded in groups, between which the caller hears of it and may cancel.
Result<ByteVector> decode_all(const Listing& listing, const PictureReader& read, const ImageFolderOptions& options,
                              uint64_t each, const Progress& progress) {
  constexpr size_t kGroup = 64;
  const auto total = checked_mul(each, listing.files.size());
  if (!total) return make_error(ErrorCode::kOutOfMemory, "more bytes of pictures than memory can have");
  ByteVector bytes(static_cast<size_t>(*total));
  for (size_t begin = 0; begin < listing.files.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, listing.files.size() - begin);
    BALLAST_CHECK(parallel_for(count, options.threads, [&](size_t i) {
      return decode(listing.files[begin + i], read, options, MutableByteSpan(bytes).subspan((begin + i) * each, each));
    }));
    BALLAST_CHECK(report_progress(progress, {"decoding pictures", (begin + count) * each, *total}));
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_image_folder(const std::string& path, const PictureReader& read,
                                                         const ImageFolderOptions& options, const Progress& progress) {
  return guarded([&]() -> Result<std::shared_ptr<const Dataset>> {
    constexpr uint64_t kMostSize = 4096;
    if (options.size == 0 || options.size > kMostSize || (options.channels != 1 && options.channels != 3)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: pictures of {} x {} with {} channels; sizes go from 1 to {}, channels are 1 or 3", path,
                      options.size, options.size, options.channels, kMostSize));
    }
    BALLAST_TRY(Listing listing, list_pictures(path));
    const uint64_t each = options.size * options.size * options.channels;
    BALLAST_TRY(ByteVector pixels, decode_all(listing, read, options, each, progress));
    const uint64_t count = listing.files.size();
    ByteVector labels(count * sizeof(uint32_t));
    for (size_t i = 0; i < count; ++i) store_le(labels.data() + i * sizeof(uint32_t), listing.files[i].label);
    ArrayOptions array;
    array.target = TargetForm::kClasses;
    array.classes = listing.classes.size();
    array.divide_by = options.divide_by;
    BALLAST_TRY(auto arrays,
                make_array_dataset(path,
                                   {"pictures",
                                    DType::kU8,
                                    {count, options.channels, options.size, options.size},
                                    BytesOrView(std::move(pixels))},
                                   ArrayColumn{"labels", DType::kU32, {count}, BytesOrView(std::move(labels))}, array));
    return with_class_names(std::move(arrays), std::move(listing.classes));
  });
}

}  // namespace ballast
