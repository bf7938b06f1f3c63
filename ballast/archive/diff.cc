#include "ballast/archive/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "ballast/archive/archive_read_ahead.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/memory_gate.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/archive/transpose.h"
#include "ballast/archive/write.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"
#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

// Of one side. Small enough that two fit the second-level cache of most cores while they are compared twice (bytes,
// then values), large enough that handing them out costs nothing.
constexpr uint64_t kDiffChunk = uint64_t{1} << 20;

// Two tensors of the same name. Their entry in the report stands where A has its tensor.
struct Pair {
  size_t a;
  size_t b;
};

// Part of a pair of the same shape: the same elements on both sides.
struct Piece {
  size_t pair;
  uint64_t begin_a;
  uint64_t begin_b;
  uint64_t size_a;
  uint64_t size_b;
};

struct PieceOutcome {
  ElementDifference difference;
  bool bytes_differ = false;
};

class Comparer {
 public:
  Comparer(const Archive& a, const Archive& b, const DiffOptions& options)
      : a_(a),
        b_(b),
        options_(options),
        tolerance_{options.rtol, options.atol},
        ahead_a_(a),
        ahead_b_(b),
        found_in_b_(b.tensors().size(), false) {}

  Result<DiffReport> run_on_namesakes() {
    BALLAST_CHECK(compare_namesakes());
    return std::move(report_);
  }

  Result<DiffReport> run() {
    BALLAST_CHECK(compare_namesakes());
    BALLAST_CHECK(find_renamed());
    BALLAST_CHECK(find_renamed_and_transposed());
    for (const size_t index : only_in_b_) {
      if (found_in_b_[index]) continue;
      report_.entries.push_back({DiffKind::kOnlyInB, "", b_.tensors()[index].name, "", {}});
    }
    return std::move(report_);
  }

 private:
  const TensorInfo& tensor_a(const Pair& pair) const { return a_.tensors()[pair.a]; }
  const TensorInfo& tensor_b(const Pair& pair) const { return b_.tensors()[pair.b]; }
  DiffEntry& entry_of(const Pair& pair) { return report_.entries[pair.a]; }

  Status compare_namesakes() {
    pair_by_name();
    BALLAST_CHECK(compare_pairs());
    return find_transposed_pairs();
  }

  // ---- who belongs to whom

  void pair_by_name() {
    std::vector<bool> paired(b_.tensors().size(), false);
    for (size_t i = 0; i < a_.tensors().size(); ++i) {
      const std::string& name = a_.tensors()[i].name;
      const auto found = b_.find(name);
      if (found) {
        paired[*found] = true;
        pairs_.push_back({i, *found});
      } else {
        only_in_a_.push_back(i);
      }
      report_.entries.push_back({found ? DiffKind::kSame : DiffKind::kOnlyInA, name, found ? name : "", "", {}});
    }
    for (size_t i = 0; i < paired.size(); ++i) {
      if (!paired[i]) only_in_b_.push_back(i);
    }
  }

  // body(0) ... body(count - 1) on all threads; size_of(i) is what i adds to the progress.
  template <typename SizeOf, typename Body>
  Status for_each(std::string_view activity, size_t count, const SizeOf& size_of, const Body& body) const {
    uint64_t total = 0;
    for (size_t i = 0; i < count; ++i) total += size_of(i);
    SharedProgress progress(options_.progress, activity, total);
    BALLAST_CHECK(progress.add(0));
    BALLAST_CHECK(parallel_for(count, options_.threads, [&](size_t i) -> Status {
      BALLAST_CHECK(body(i));
      return progress.add(size_of(i));
    }));
    return progress.add(0);
  }

  // ---- comparing what is paired

  Status compare_pairs() {
    for (size_t i = 0; i < pairs_.size(); ++i) describe_pair(i);
    std::vector<PieceOutcome> outcomes(pieces_.size());
    const auto size_of = [&](size_t i) { return pieces_[i].size_a + pieces_[i].size_b; };
    BALLAST_CHECK(for_each("comparing", pieces_.size(), size_of,
                           [&](size_t i) { return compare_piece(pieces_[i], outcomes[i]); }));
    for (size_t i = 0; i < pieces_.size(); ++i) {
      DiffEntry& entry = entry_of(pairs_[pieces_[i].pair]);
      entry.change.merge(outcomes[i].difference);
      if (outcomes[i].bytes_differ) entry.kind = DiffKind::kChanged;
    }
    for (const Pair& pair : pairs_) settle(pair);
    return {};
  }

  // What the descriptions alone tell, and which payloads have to be read for the rest.
  void describe_pair(size_t index) {
    const Pair& pair = pairs_[index];
    const TensorInfo& a = tensor_a(pair);
    const TensorInfo& b = tensor_b(pair);
    DiffEntry& entry = entry_of(pair);
    const std::string type_a = a.type_name();
    const std::string type_b = b.type_name();
    if (type_a != type_b) note_change(entry, "dtype", type_a, type_b);
    note_shapes(entry, a.shape, b.shape);
    if (entry.note.empty() && a.byte_size != b.byte_size) note_change(entry, "bytes", a.byte_size, b.byte_size);
    if (!entry.note.empty()) entry.kind = DiffKind::kChanged;
    entry.change.comparable = a.shape == b.shape && are_comparable(a.dtype, b.dtype);
    if (entry.change.comparable || entry.note.empty()) cut_into_pieces(index);
  }

  template <typename Value>
  static void note_change(DiffEntry& entry, std::string_view what, const Value& before, const Value& after) {
    entry.note += fmt::format("{}{} {} -> {}", entry.note.empty() ? "" : ", ", what, before, after);
  }

  static void note_shapes(DiffEntry& entry, const Shape& before, const Shape& after) {
    if (!(before == after)) note_change(entry, "shape", before.to_string(), after.to_string());
  }

  bool must_read_whole(const Pair& pair) const {
    return !a_.extent(pair.a).is_canonical() || !b_.extent(pair.b).is_canonical();
  }

  void cut_into_pieces(size_t index) {
    const Pair& pair = pairs_[index];
    const TensorInfo& a = tensor_a(pair);
    const TensorInfo& b = tensor_b(pair);
    if (must_read_whole(pair)) {
      pieces_.push_back({index, 0, 0, a.byte_size, b.byte_size});
      return;
    }
    // As many elements as are whole units on both sides.
    const ElementUnit unit_a = element_unit(a.dtype);
    const ElementUnit unit_b = element_unit(b.dtype);
    const uint64_t elements = std::lcm(unit_a.elements, unit_b.elements);
    const uint64_t group_a = elements / unit_a.elements * unit_a.bytes;
    const uint64_t group_b = elements / unit_b.elements * unit_b.bytes;
    const uint64_t groups = kDiffChunk / std::max(group_a, group_b);
    uint64_t at_a = 0;
    uint64_t at_b = 0;
    while (at_a < a.byte_size) {
      const uint64_t size_a = std::min(groups * group_a, a.byte_size - at_a);
      const uint64_t size_b = std::min(groups * group_b, b.byte_size - at_b);
      pieces_.push_back({index, at_a, at_b, size_a, size_b});
      at_a += size_a;
      at_b += size_b;
    }
  }

  Status compare_piece(const Piece& piece, PieceOutcome& outcome) {
    const Pair& pair = pairs_[piece.pair];
    std::optional<MemoryGate::Pass> pass;
    if (must_read_whole(pair)) pass.emplace(gate_, piece.size_a + piece.size_b);
    ahead_a_.reading(pair.a, piece.begin_a);
    ahead_b_.reading(pair.b, piece.begin_b);
    BALLAST_TRY(const Payload a, read(a_, pair.a, piece.begin_a, piece.size_a));
    BALLAST_TRY(const Payload b, read(b_, pair.b, piece.begin_b, piece.size_b));
    const DType type_a = tensor_a(pair).dtype;
    const DType type_b = tensor_b(pair).dtype;
    const bool same_type = entry_of(pair).note.empty();
    if (same_type && same_bytes(a.bytes(), b.bytes())) return {};
    outcome.bytes_differ = same_type;
    if (are_comparable(type_a, type_b)) {
      outcome.difference = compare_elements(type_a, a.bytes(), type_b, b.bytes(), tolerance_);
    }
    return {};
  }

  static bool same_bytes(ByteSpan a, ByteSpan b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
  }

  // Container checksums are not checked where that would cost a pass of its own: bytes that equal the other file's are
  // equal, damaged or not, and others are reported as different. `verify` is there to find damage.
  static Result<Payload> read(const Archive& archive, size_t index, uint64_t offset, uint64_t size) {
    const StoredExtent& extent = archive.extent(index);
    if (!extent.is_canonical()) return archive.payload(index);
    return Payload::of(*archive.sources()[extent.source], extent.offset + offset, size);
  }

  void settle(const Pair& pair) {
    DiffEntry& entry = entry_of(pair);
    entry.change.elements = tensor_a(pair).shape.element_count().value_or(0);
    entry.change.within_tolerance = entry.change.comparable && !tolerance_.is_exact() && entry.change.differing == 0;
  }

  // ---- the same content under another name

  // Only content of a type and shape that both sides have left over can have been renamed; the rest is never read.
  using Likeness = std::pair<std::string, std::string>;
  static Likeness likeness(const TensorInfo& tensor) {
    return {tensor.type_name(), fmt::format("{} {}", tensor.byte_size, tensor.shape.to_string())};
  }

  static std::vector<size_t> alike(const Archive& archive, const std::vector<size_t>& indexes, const Archive& other,
                                   const std::vector<size_t>& others) {
    std::vector<Likeness> known;
    known.reserve(others.size());
    for (const size_t i : others) known.push_back(likeness(other.tensors()[i]));
    std::ranges::sort(known);
    std::vector<size_t> found;
    for (const size_t i : indexes) {
      if (std::ranges::binary_search(known, likeness(archive.tensors()[i]))) found.push_back(i);
    }
    return found;
  }

  Status find_renamed() {
    const std::vector<size_t> from = alike(a_, only_in_a_, b_, only_in_b_);
    if (from.empty()) return {};
    const std::vector<size_t> to = alike(b_, only_in_b_, a_, only_in_a_);
    WritePlan plan;
    add_to_plan(plan, a_, from);
    add_to_plan(plan, b_, to);
    BALLAST_TRY(const auto digests,
                digest_plan(plan, {.sha256 = false, .threads = options_.threads, .progress = options_.progress}));
    // Backwards, so that the first of several equal tensors is the last in its list and is taken first.
    std::map<Digest, std::vector<size_t>> available;
    for (size_t i = to.size(); i-- > 0;) available[digests[from.size() + i].blake3].push_back(to[i]);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto found = available.find(digests[i].blake3);
      if (found == available.end() || found->second.empty()) continue;
      mark_found(DiffKind::kRenamed, from[i], found->second.back());
      found->second.pop_back();
    }
    return {};
  }

  static void add_to_plan(WritePlan& plan, const Archive& archive, const std::vector<size_t>& indexes) {
    const WritePlan all = make_plan(archive);
    for (const size_t i : indexes) plan.add_tensor(all.description.tensors[i], all.providers[i]);
  }

  void mark_found(DiffKind kind, size_t a, size_t b) {
    DiffEntry& entry = report_.entries[a];
    entry.kind = kind;
    entry.name_b = b_.tensors()[b].name;
    entry.change.elements = a_.tensors()[a].shape.element_count().value_or(0);
    found_in_b_[b] = true;
  }

  // ---- the same content with its axes swapped

  Status find_transposed_pairs() {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const DiffEntry& entry = entry_of(pairs_[i]);
      const bool differs = entry.kind == DiffKind::kChanged && !entry.change.within_tolerance;
      if (differs && may_be_transposed(tensor_a(pairs_[i]), tensor_b(pairs_[i]))) candidates.push_back(i);
    }
    if (candidates.empty()) return {};
    std::vector<uint8_t> transposed(candidates.size());
    const auto size_of = [&](size_t i) { return 2 * tensor_a(pairs_[candidates[i]]).byte_size; };
    BALLAST_CHECK(for_each("transposing", candidates.size(), size_of, [&](size_t i) -> Status {
      const Pair& pair = pairs_[candidates[i]];
      return assign(transposed[i], is_transposed(a_, pair.a, b_, pair.b, gate_));
    }));
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (transposed[i] == 0) continue;
      DiffEntry& entry = entry_of(pairs_[candidates[i]]);
      entry.kind = DiffKind::kTransposed;
      entry.change = {};
      entry.change.elements = tensor_a(pairs_[candidates[i]]).shape.element_count().value_or(0);
    }
    return {};
  }

  // The type and the shape that the transpose has on the other side.
  static Likeness transposed_likeness(const TensorInfo& tensor) {
    return {tensor.type_name(), fmt::format("{} [{}, {}]", tensor.byte_size, tensor.shape[1], tensor.shape[0])};
  }

  static std::vector<size_t> alike_transposed(const Archive& archive, const std::vector<size_t>& indexes,
                                              const Archive& other, const std::vector<size_t>& others) {
    std::vector<Likeness> known;
    for (const size_t i : others) {
      if (is_matrix(other.tensors()[i])) known.push_back(transposed_likeness(other.tensors()[i]));
    }
    std::ranges::sort(known);
    std::vector<size_t> found;
    for (const size_t i : indexes) {
      const TensorInfo& tensor = archive.tensors()[i];
      if (is_matrix(tensor) && std::ranges::binary_search(known, likeness(tensor))) found.push_back(i);
    }
    return found;
  }

  Status find_renamed_and_transposed() {
    std::vector<size_t> left_a;
    for (const size_t i : only_in_a_) {
      if (report_.entries[i].kind == DiffKind::kOnlyInA) left_a.push_back(i);
    }
    std::vector<size_t> left_b;
    for (const size_t i : only_in_b_) {
      if (!found_in_b_[i]) left_b.push_back(i);
    }
    const std::vector<size_t> from = alike_transposed(a_, left_a, b_, left_b);
    if (from.empty()) return {};
    const std::vector<size_t> to = alike_transposed(b_, left_b, a_, left_a);
    BALLAST_TRY(const std::vector<uint64_t> prints_a, fingerprints(a_, from, /*swapped=*/false));
    BALLAST_TRY(const std::vector<uint64_t> prints_b, fingerprints(b_, to, /*swapped=*/true));
    std::map<uint64_t, std::vector<size_t>> available;  // backwards, as in find_renamed
    for (size_t i = to.size(); i-- > 0;) available[prints_b[i]].push_back(to[i]);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto found = available.find(prints_a[i]);
      if (found == available.end() || found->second.empty()) continue;
      const size_t b = found->second.back();
      if (!may_be_transposed(a_.tensors()[from[i]], b_.tensors()[b])) continue;
      BALLAST_TRY(const bool transposed, is_transposed(a_, from[i], b_, b, gate_));
      if (!transposed) continue;
      found->second.pop_back();
      mark_found(DiffKind::kTransposed, from[i], b);
      note_shapes(report_.entries[from[i]], a_.tensors()[from[i]].shape, b_.tensors()[b].shape);
    }
    return {};
  }

  Result<std::vector<uint64_t>> fingerprints(const Archive& archive, const std::vector<size_t>& indexes,
                                             bool swapped) const {
    const WritePlan all = make_plan(archive);
    std::vector<uint64_t> prints(indexes.size());
    const auto size_of = [&](size_t i) { return archive.tensors()[indexes[i]].byte_size; };
    BALLAST_CHECK(for_each("transposing", indexes.size(), size_of, [&](size_t i) -> Status {
      return assign(prints[i],
                    transpose_fingerprint(archive.tensors()[indexes[i]], all.providers[indexes[i]], swapped));
    }));
    return prints;
  }

  const Archive& a_;
  const Archive& b_;
  const DiffOptions& options_;
  Tolerance tolerance_;
  ArchiveReadAhead ahead_a_;
  ArchiveReadAhead ahead_b_;
  MemoryGate gate_;
  std::vector<Pair> pairs_;
  std::vector<Piece> pieces_;
  std::vector<size_t> only_in_a_;
  std::vector<size_t> only_in_b_;
  std::vector<bool> found_in_b_;
  DiffReport report_;
};

}  // namespace

size_t DiffReport::count(DiffKind kind) const {
  return static_cast<size_t>(std::ranges::count(entries, kind, &DiffEntry::kind));
}

bool DiffReport::equal() const {
  return std::ranges::all_of(entries, [](const DiffEntry& entry) {
    return entry.kind == DiffKind::kSame || (entry.kind == DiffKind::kChanged && entry.change.within_tolerance);
  });
}

namespace {

Status check_tolerance(const DiffOptions& options) {
  if (options.rtol >= 0 && options.atol >= 0) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("a tolerance cannot be negative: rtol {}, atol {}", options.rtol, options.atol));
}

}  // namespace

Result<DiffReport> diff_archives(const Archive& a, const Archive& b, const DiffOptions& options) {
  BALLAST_CHECK(check_tolerance(options));
  return guarded([&] { return Comparer(a, b, options).run(); });
}

Result<DiffReport> diff_namesakes(const Archive& a, const Archive& b, const DiffOptions& options) {
  BALLAST_CHECK(check_tolerance(options));
  return guarded([&] { return Comparer(a, b, options).run_on_namesakes(); });
}

}  // namespace ballast
