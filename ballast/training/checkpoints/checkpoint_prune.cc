#include "ballast/training/checkpoints/checkpoint_prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ballast/training/checkpoints/checkpoint_manifest.h"

namespace ballast {

namespace {

void add_reason(std::string& reasons, std::string_view reason) {
  if (!reasons.empty()) reasons += ", ";
  reasons += reason;
}

std::optional<double> metric_of(const CheckpointManifest& checkpoint, std::string_view name) {
  for (const auto& [key, value] : checkpoint.metrics) {
    if (key == name && !std::isnan(value)) return value;
  }
  return std::nullopt;
}

// Positions of the candidates, best first; of equals the newer first.
std::vector<size_t> order_by_metric(std::span<const CheckpointManifest> checkpoints, const CheckpointPolicy& policy) {
  std::vector<std::pair<double, size_t>> candidates;
  for (size_t i = checkpoints.size(); i-- > 0;) {
    const auto value = metric_of(checkpoints[i], policy.metric);
    if (value) candidates.emplace_back(policy.larger_is_better ? -*value : *value, i);
  }
  std::ranges::stable_sort(candidates, {}, [](const auto& candidate) { return candidate.first; });
  std::vector<size_t> order;
  for (const auto& [value, position] : candidates) order.push_back(position);
  return order;
}

std::set<std::string> named_files(std::span<const CheckpointManifest> checkpoints) {
  std::set<std::string> names;
  for (const CheckpointManifest& checkpoint : checkpoints) {
    for (const CheckpointFile& file : checkpoint.files) names.insert(file.name);
  }
  return names;
}

// What nobody needs once only `remaining` is left.
std::vector<std::string> find_unnamed(const std::vector<std::string>& in_folder, const CheckpointList& remaining,
                                      const std::set<std::string>& formerly_named) {
  const std::set<std::string> named = named_files(remaining.checkpoints);
  std::vector<std::string> unnamed;
  for (const std::string& name : in_folder) {
    if (!is_checkpoint_file_name(name) || named.contains(name)) continue;
    if (remaining.damaged.empty() || formerly_named.contains(name)) unnamed.push_back(name);
  }
  return unnamed;
}

}  // namespace

std::vector<std::string> find_kept(std::span<const CheckpointManifest> checkpoints, const CheckpointPolicy& policy) {
  std::vector<std::string> reasons(checkpoints.size());
  const size_t count = checkpoints.size();
  for (size_t i = 0; i < count; ++i) {
    if (policy.keep_last == 0) add_reason(reasons[i], "all");
    else if (count - i <= policy.keep_last) add_reason(reasons[i], "last");
  }
  if (policy.keep_best > 0) {
    const std::vector<size_t> order = order_by_metric(checkpoints, policy);
    for (size_t i = 0; i < std::min<uint64_t>(order.size(), policy.keep_best); ++i) {
      add_reason(reasons[order[i]], fmt::format("best {}", policy.metric));
    }
  }
  for (size_t i = 0; i < count && policy.keep_every > 0; ++i) {
    if (checkpoints[i].step % policy.keep_every == 0) {
      add_reason(reasons[i], fmt::format("every {}", policy.keep_every));
    }
  }
  return reasons;
}

Result<PruneReport> prune_checkpoints(const WorkFolder& folder, CheckpointList& list, const std::vector<bool>& keep,
                                      const std::vector<std::string>& forgotten, const PruneSettings& settings) {
  PruneReport report;
  CheckpointList remaining;
  remaining.damaged = list.damaged;
  std::set<std::string> formerly_named(forgotten.begin(), forgotten.end());
  for (size_t i = 0; i < list.checkpoints.size(); ++i) {
    CheckpointManifest& checkpoint = list.checkpoints[i];
    if (keep[i]) {
      remaining.checkpoints.push_back(settings.dry_run ? checkpoint : std::move(checkpoint));
      continue;
    }
    report.steps.push_back(checkpoint.step);
    for (const CheckpointFile& file : checkpoint.files) formerly_named.insert(file.name);
  }
  if (!settings.dry_run) list = remaining;
  BALLAST_TRY(const std::vector<std::string> in_folder, folder.list());
  if (!settings.dry_run && !report.steps.empty()) {
    for (const uint64_t step : report.steps) BALLAST_CHECK(folder.remove(checkpoint_manifest_name(step)));
    if (settings.sync) BALLAST_CHECK(folder.sync());
  }
  for (const std::string& name : find_unnamed(in_folder, remaining, formerly_named)) {
    const auto size = folder.size_of(name);
    const Status removed = settings.dry_run ? Status() : folder.remove(name);
    if (!removed) {
      report.notes.push_back(removed.error().message);
      continue;
    }
    report.files.push_back(name);
    report.bytes += size && *size ? **size : 0;
  }
  return report;
}

}  // namespace ballast
