#include "apps/ballast/models/hub_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/ballast/models/file_download.h"
#include "apps/ballast/models/writable_folder.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

bool is_file_of_size(const std::string& path, const std::optional<uint64_t>& bytes) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && (!bytes || fs::file_size(path, failure) == *bytes);
}

Status fetch_blob(Hub& hub, const HubCache& cache, const HubName& name, const HubPlan& plan, const HubFile& file,
                  const Progress& progress) {
  BALLAST_TRY(Url url, hub.url_of(name, plan.commit, file.path));
  const std::string blob = cache.blob(name.id, file.digest);
  FileDownload download{.url = std::move(url),
                        .name = fmt::format("{}:{}", name.id, printable(file.path)),
                        .unfinished = blob + ".incomplete",
                        .finished = blob,
                        .bytes = file.bytes,
                        .digest = FileDigest::of_blob_name(file.digest),
                        .refusal = [&](const HttpHead& head) { return hub.refusal(head, name, file.path); }};
  BALLAST_TRY([[maybe_unused]] const uint64_t bytes, download_file(hub.session(), download, progress));
  return {};
}

}  // namespace

uint64_t HubPlan::bytes() const {
  uint64_t sum = 0;
  for (const Item& item : items) sum += item.file.bytes.value_or(0);
  return sum;
}

uint64_t HubPlan::missing_bytes() const {
  uint64_t sum = 0;
  for (const Item& item : items) sum += item.is_here ? 0 : item.file.bytes.value_or(0);
  return sum;
}

Result<std::optional<std::string>> find_downloaded(const HubCache& cache, const HubName& name) {
  const std::optional<std::string> commit = cache.commit_of(name);
  if (!commit) return std::optional<std::string>();
  std::vector<HubFile> files;
  BALLAST_TRY(std::vector<std::string> paths, cache.files_of(name.id, *commit));
  for (std::string& path : paths) files.push_back({std::move(path), std::nullopt, ""});
  const auto choice = choose_hub_files(name.id, files, name.file);
  if (choice) return std::optional(cache.snapshot(name.id, *commit, choice->model));
  if (choice.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return choice.error();
}

Result<HubPlan> plan_download(Hub& hub, const HubCache& cache, const HubName& name, const HubListing& listing,
                              HubChoice choice, bool again) {
  HubPlan plan;
  plan.commit = listing.commit;
  plan.again = again;
  plan.path = cache.snapshot(name.id, plan.commit, choice.model);
  for (HubFile& file : choice.files) {
    HubPlan::Item item;
    const std::string pointer = cache.snapshot(name.id, plan.commit, file.path);
    item.is_here = !again && is_file_of_size(pointer, file.bytes);
    if (!item.is_here && (file.digest.empty() || !file.bytes)) {
      BALLAST_CHECK(assign(file, hub.describe(name, plan.commit, file.path)));
    }
    item.is_here = item.is_here || (!again && is_file_of_size(cache.blob(name.id, file.digest), file.bytes));
    item.file = std::move(file);
    plan.items.push_back(std::move(item));
  }
  return plan;
}

Status run_download(Hub& hub, const HubCache& cache, const HubName& name, const HubPlan& plan,
                    const Progress& progress) {
  BALLAST_CHECK(check_free_space(cache.folder(), plan.missing_bytes()));
  BALLAST_CHECK(cache.prepare(name.id));
  uint64_t done = 0;
  const Progress shown = [&](const ProgressUpdate& update) {
    const ProgressUpdate all{.activity = "downloading", .done = done + update.done, .total = plan.missing_bytes()};
    return report_progress(progress, all).has_value();
  };
  for (const auto& [file, is_here] : plan.items) {
    if (is_here && is_file_of_size(cache.snapshot(name.id, plan.commit, file.path), file.bytes)) continue;
    BALLAST_TRY(const OwnedFd lock, cache.lock(name.id, file.digest));
    // Another program may have fetched it while this one waited for the lock.
    const bool is_missing = !is_here && (plan.again || !is_file_of_size(cache.blob(name.id, file.digest), file.bytes));
    if (is_missing) BALLAST_CHECK(fetch_blob(hub, cache, name, plan, file, shown));
    BALLAST_CHECK(cache.link(name.id, plan.commit, file.path, file.digest));
    if (!is_here) done += file.bytes.value_or(0);
  }
  return cache.set_reference(name, plan.commit);
}

}  // namespace ballast::cli
