#include "ballast/archive/tied.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "ballast/archive/write.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"

namespace ballast {

namespace {

// Everything that decides what bytes a tensor gets from its file.
auto place(const StoredExtent& extent) {
  return std::tuple(extent.source, extent.offset, extent.length, extent.member_prefix, extent.deflated,
                    extent.big_endian, extent.fortran_order, extent.view.get());
}

// -1, 0 or 1 over size, dtype, shape and scheme: no texts are made for what a hundred thousand tensors must answer.
int compare_kinds(const TensorInfo& a, const TensorInfo& b) {
  if (a.byte_size != b.byte_size) return a.byte_size < b.byte_size ? -1 : 1;
  if (a.dtype != b.dtype) return a.dtype < b.dtype ? -1 : 1;
  const auto dims_a = a.shape.dims();
  const auto dims_b = b.shape.dims();
  const auto order = std::lexicographical_compare_three_way(dims_a.begin(), dims_a.end(), dims_b.begin(), dims_b.end());
  if (order != 0) return order < 0 ? -1 : 1;
  const int schemes = a.scheme().compare(b.scheme());
  return schemes < 0 ? -1 : schemes > 0 ? 1 : 0;
}

using Group = std::vector<size_t>;

// Sorts `members` by `less` and cuts them where neighbours differ; each group ascends.
template <typename Less>
std::vector<Group> group_by(Group members, const Less& less) {
  std::ranges::stable_sort(members, less);
  std::vector<Group> groups;
  for (size_t i = 0; i < members.size(); ++i) {
    if (i == 0 || less(members[i - 1], members[i])) groups.emplace_back();
    groups.back().push_back(members[i]);
  }
  return groups;
}

Group tensors_with_bytes(const Archive& archive) {
  Group found;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    if (archive.tensors()[i].byte_size != 0) found.push_back(i);
  }
  return found;
}

std::vector<Group> group_by_extent(const Archive& archive) {
  return group_by(tensors_with_bytes(archive), [&](size_t a, size_t b) {
    const auto place_a = place(archive.extent(a));
    const auto place_b = place(archive.extent(b));
    if (place_a != place_b) return place_a < place_b;
    return compare_kinds(archive.tensors()[a], archive.tensors()[b]) < 0;
  });
}

// Most files keep their payloads in order, one after the other: then nothing is shared and nothing need be sorted.
bool payloads_ascend(const Archive& archive) {
  const StoredExtent* before = nullptr;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    if (archive.tensors()[i].byte_size == 0) continue;
    const StoredExtent& extent = archive.extent(i);
    if (before && std::tie(extent.source, extent.offset) <= std::tie(before->source, before->offset)) return false;
    before = &extent;
  }
  return true;
}

std::vector<TiedGroup> in_order(std::vector<TiedGroup> groups) {
  std::ranges::sort(groups, {}, [](const TiedGroup& group) { return group.tensors.front(); });
  return groups;
}

TiedGroup make_group(const Archive& archive, Group members) {
  std::ranges::sort(members);
  const auto first = place(archive.extent(members.front()));
  const bool same = std::ranges::all_of(members, [&](size_t i) { return place(archive.extent(i)) == first; });
  return {std::move(members), same};
}

// A digest of bytes from all over a payload. What must be inflated or reordered gives none: that costs the whole.
constexpr uint64_t kSamples = 8;
constexpr uint64_t kSampleBytes = 64;

Result<Digest> sample(const Archive& archive, size_t index) {
  const StoredExtent& extent = archive.extent(index);
  if (!extent.is_canonical()) return Digest{};
  const uint64_t size = archive.tensors()[index].byte_size;
  const uint64_t length = std::min(size, kSampleBytes);
  Blake3 hasher;
  std::array<std::byte, kSampleBytes> buffer;
  const MutableByteSpan bytes(buffer.data(), static_cast<size_t>(length));
  for (uint64_t i = 0; i < kSamples; ++i) {
    BALLAST_CHECK(archive.read_range(index, (size - length) / (kSamples - 1) * i, bytes));
    hasher.update(bytes);
  }
  return hasher.finish();
}

class ContentSearch {
 public:
  ContentSearch(const Archive& archive, unsigned threads, const Progress& progress)
      : archive_(archive), threads_(threads), progress_(progress) {}

  Result<std::vector<TiedGroup>> run() {
    Group firsts;  // one tensor per extent
    for (Group& group : group_by_extent(archive_)) {
      firsts.push_back(group.front());
      sharing_.push_back(std::move(group));
    }
    std::ranges::sort(sharing_, {}, [](const Group& group) { return group.front(); });
    BALLAST_TRY(const Group sampled, equal_in_samples(firsts));
    BALLAST_TRY(const std::vector<Group> equal, equal_in_full(sampled));
    return collect(equal);
  }

 private:
  bool same_kind_less(size_t a, size_t b) const {
    return compare_kinds(archive_.tensors()[a], archive_.tensors()[b]) < 0;
  }

  // Those of `candidates` that have a companion, by the order that `less` gives.
  template <typename Less>
  static Group accompanied(const Group& candidates, const Less& less) {
    Group kept;
    for (const Group& group : group_by(candidates, less)) {
      if (group.size() > 1) kept.insert(kept.end(), group.begin(), group.end());
    }
    return kept;
  }

  Result<Group> equal_in_samples(const Group& candidates) const {
    const Group alike = accompanied(candidates, [&](size_t a, size_t b) { return same_kind_less(a, b); });
    std::vector<Digest> samples(archive_.tensors().size());
    BALLAST_CHECK(parallel_for(alike.size(), threads_, [&](size_t i) -> Status {
      return assign(samples[alike[i]], sample(archive_, alike[i]));
    }));
    // A deflated tensor may equal one that is not, so it stays whenever its kind has one.
    const auto unsampled = [&](size_t i) { return !archive_.extent(i).is_canonical(); };
    Group kept;
    for (const Group& kind : group_by(alike, [&](size_t a, size_t b) { return same_kind_less(a, b); })) {
      const Group more = std::ranges::any_of(kind, unsampled)
                             ? kind
                             : accompanied(kind, [&](size_t a, size_t b) { return samples[a] < samples[b]; });
      kept.insert(kept.end(), more.begin(), more.end());
    }
    std::ranges::sort(kept);
    return kept;
  }

  Result<std::vector<Group>> equal_in_full(const Group& candidates) const {
    WritePlan all = make_plan(archive_);
    WritePlan plan;
    for (const size_t i : candidates) plan.add_tensor(archive_.tensors()[i], std::move(all.providers[i]));
    BALLAST_TRY(const auto digests, digest_plan(plan, {.sha256 = false, .threads = threads_, .progress = progress_}));
    Group positions(candidates.size());
    std::iota(positions.begin(), positions.end(), size_t{0});
    std::vector<Group> groups =
        group_by(positions, [&](size_t a, size_t b) { return digests[a].blake3 < digests[b].blake3; });
    for (Group& group : groups) {
      for (size_t& member : group) member = candidates[member];
    }
    return groups;
  }

  // Equal tensors, each with those that share its extent, and extents that are shared but equal no other.
  std::vector<TiedGroup> collect(const std::vector<Group>& equal) const {
    std::vector<bool> taken(sharing_.size(), false);
    std::vector<TiedGroup> groups;
    const auto sharing_of = [&](size_t first) {
      const auto found =
          std::ranges::lower_bound(sharing_, first, {}, [](const Group& group) { return group.front(); });
      return static_cast<size_t>(found - sharing_.begin());
    };
    for (const Group& group : equal) {
      if (group.size() < 2) continue;
      Group members;
      for (const size_t first : group) {
        const size_t position = sharing_of(first);
        taken[position] = true;
        members.insert(members.end(), sharing_[position].begin(), sharing_[position].end());
      }
      groups.push_back(make_group(archive_, std::move(members)));
    }
    for (size_t i = 0; i < sharing_.size(); ++i) {
      if (!taken[i] && sharing_[i].size() > 1) groups.push_back(make_group(archive_, sharing_[i]));
    }
    return in_order(std::move(groups));
  }

  const Archive& archive_;
  unsigned threads_;
  const Progress& progress_;
  std::vector<Group> sharing_;  // by extent, in the order of their first tensors; alone where nobody shares
};

}  // namespace

std::vector<TiedGroup> tied_by_extent(const Archive& archive) {
  std::vector<TiedGroup> groups;
  if (payloads_ascend(archive)) return groups;
  for (Group& group : group_by_extent(archive)) {
    if (group.size() > 1) groups.push_back({std::move(group), true});
  }
  return in_order(std::move(groups));
}

Result<std::vector<TiedGroup>> tied_by_content(const Archive& archive, unsigned threads, const Progress& progress) {
  return guarded([&] { return ContentSearch(archive, threads, progress).run(); });
}

std::vector<TiedGroup> tied_by_digest(const Archive& archive, std::span<const TensorDigest> digests) {
  std::vector<TiedGroup> groups;
  const auto less = [&](size_t a, size_t b) { return digests[a].blake3 < digests[b].blake3; };
  for (Group& group : group_by(tensors_with_bytes(archive), less)) {
    if (group.size() > 1) groups.push_back(make_group(archive, std::move(group)));
  }
  return in_order(std::move(groups));
}

}  // namespace ballast
