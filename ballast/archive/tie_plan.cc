#include "ballast/archive/tie_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ballast/archive/digest.h"
#include "ballast/archive/tied.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

using Groups = std::map<uint64_t, std::vector<size_t>>;

// The tensors that are large enough, as an archive of their own, and their positions in the whole one.
struct LargeTensors {
  Archive archive;
  std::vector<size_t> positions;
};

LargeTensors large_tensors(const Archive& archive) {
  Description description;
  std::vector<StoredExtent> extents;
  std::vector<size_t> positions;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    if (archive.tensors()[i].byte_size < kSmallestTie) continue;
    description.tensors.push_back(archive.tensors()[i]);
    extents.push_back(archive.extent(i));
    positions.push_back(i);
  }
  const auto sources = archive.sources();
  return {Archive(std::move(description), std::move(extents), {sources.begin(), sources.end()}), std::move(positions)};
}

// Groups of two and more, by the number that `number_of` gives; 0 is none.
template <typename NumberOf>
Groups group_by_number(const WritePlan& plan, const NumberOf& number_of) {
  Groups groups;
  for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
    if (const uint64_t number = number_of(plan.description.tensors[i]); number != 0) groups[number].push_back(i);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

// The same groups, cut where the tensors turn out to differ.
Result<std::vector<std::vector<size_t>>> equal_groups(const WritePlan& plan, const Groups& groups, bool trusted,
                                                      unsigned threads, const Progress& progress) {
  std::vector<std::vector<size_t>> equal;
  if (trusted) {
    for (const auto& [number, members] : groups) equal.push_back(members);
    return equal;
  }
  WritePlan suspects;
  for (const auto& [number, members] : groups) {
    for (const size_t i : members) suspects.add_tensor(plan.description.tensors[i], plan.providers[i]);
  }
  BALLAST_TRY(const auto digests, digest_plan(suspects, {.sha256 = false, .threads = threads, .progress = progress}));
  size_t next = 0;
  for (const auto& [number, members] : groups) {
    std::map<Digest, std::vector<size_t>> by_digest;
    for (const size_t i : members) by_digest[digests[next++].blake3].push_back(i);
    for (auto& [digest, same] : by_digest) {
      if (same.size() > 1) equal.push_back(std::move(same));
    }
  }
  return equal;
}

// Gives the groups, which stand in the order of their first tensors, the numbers that a reader of the file will give.
void renumber(std::vector<TensorInfo>& tensors, const std::vector<std::vector<size_t>>& groups) {
  std::vector<uint64_t> numbers(tensors.size(), 0);
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const size_t i : groups[group]) numbers[i] = group + 1;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    set_tie_number(tensors[i], numbers[i] == 0 ? std::nullopt : std::optional(numbers[i]));
  }
}

}  // namespace

Status mark_twins(const Archive& archive, WritePlan& plan, const FormatDriver& target, uint32_t& last, unsigned threads,
                  const Progress& progress) {
  if (!target.can_tie) return {};
  if (archive.description().format == target.name) {
    for (const TiedGroup& group : tied_by_extent(archive)) {
      ++last;
      for (const size_t i : group.tensors) plan.description.tensors[i].twin = last;
    }
    return {};
  }
  const LargeTensors large = large_tensors(archive);
  if (large.positions.size() < 2) return {};
  BALLAST_TRY(const auto groups, tied_by_content(large.archive, threads, progress));
  for (const TiedGroup& group : groups) {
    ++last;
    for (const size_t i : group.tensors) plan.description.tensors[large.positions[i]].twin = last;
  }
  return {};
}

Result<TieReport> find_ties(WritePlan& plan, const TieRequest& request, const Progress& progress) {
  TieReport report;
  plan.ties.clear();
  if (!request.format.can_tie) return report;
  auto& tensors = plan.description.tensors;
  const bool same_format = plan.description.format == request.format.name;
  Groups groups;
  if (request.wanted) {
    groups = same_format
                 ? group_by_number(plan, [](const TensorInfo& t) { return tie_number(t.stored_form()).value_or(0); })
                 : group_by_number(plan, [](const TensorInfo& t) { return uint64_t{t.twin}; });
  }
  const bool trusted = request.untouched && !same_format;
  BALLAST_TRY(auto equal, equal_groups(plan, groups, trusted, request.threads, progress));
  std::ranges::sort(equal, {}, [](const auto& group) { return group.front(); });
  if (same_format) renumber(tensors, equal);
  if (equal.empty()) return report;
  plan.ties.resize(tensors.size());
  std::iota(plan.ties.begin(), plan.ties.end(), 0U);
  for (const auto& group : equal) {
    for (const size_t i : group) plan.ties[i] = static_cast<uint32_t>(group.front());
    report.tensors += group.size() - 1;
    report.bytes += (group.size() - 1) * tensors[group.front()].byte_size;
  }
  return report;
}

}  // namespace ballast
