// Telling Burn 0.19's layout from every later one: the version field says 1 in both.
//
// Burn 0.19 puts the data right behind the metadata and the tensors back to back. Since 0.20 data and tensors begin at
// multiples of 256. No single sign is enough: a file may have lost or gained bytes at its end, metadata is often copied
// from file to file, and a tensor may begin with zeros. What must never happen is that the end of a cut file is taken
// for another layout, because every tensor would then be shifted.
#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/formats/burnpack/burnpack.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

// Which writers could have put the tensors where they are.
enum class Geometry : uint8_t {
  kOnlyUnaligned,  // some tensor begins beside a multiple of 256
  kOnlyAligned,    // all begin at multiples of 256, with gaps
  kEither,
};

Geometry geometry_of(const std::vector<StoredExtent>& extents) {
  bool back_to_back = true;
  uint64_t end = 0;
  const StoredExtent none;
  const StoredExtent* previous = &none;
  for (const StoredExtent& extent : extents) {
    if (extent.offset % kBurnAlignment != 0) return Geometry::kOnlyUnaligned;
    // A tied tensor lies where the one before it does, in either layout.
    const bool is_tied = share_payload(extent, *previous);
    back_to_back = back_to_back && (is_tied || extent.offset == end);
    previous = &extent;
    end = std::max(end, extent.offset + extent.length);
  }
  return back_to_back ? Geometry::kEither : Geometry::kOnlyAligned;
}

// BurnpackStore, the only public writer of 0.19, leaves its version here unless told not to.
bool says_019(const Description& description) {
  return std::ranges::any_of(description.metadata, [](const MetaEntry& entry) {
    const auto* text = std::get_if<std::string>(&entry.value);
    return text != nullptr && entry.key == "version" && text->starts_with("0.19");
  });
}

Result<bool> has_zeros(const ByteSource& source, uint64_t begin, uint64_t end) {
  BALLAST_TRY(const ByteVector bytes, read_bytes(source, begin, end - begin));
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

Result<BurnLayout> find_burn_layout(const ByteSource& source, uint64_t metadata_end, const BurnMetadata& metadata) {
  const uint64_t aligned_start = metadata_end + (kBurnAlignment - metadata_end % kBurnAlignment) % kBurnAlignment;
  const BurnLayout aligned{.unaligned = false, .data_start = aligned_start};
  const BurnLayout unaligned{.unaligned = true, .data_start = metadata_end};
  const BurnLayout cut{.unaligned = false, .data_start = aligned_start, .looks_cut = true};
  const Geometry geometry = geometry_of(metadata.extents);
  // The two begin at the same place: only the spelling differs, and nothing can be misread.
  if (aligned_start == metadata_end) return geometry == Geometry::kOnlyUnaligned ? unaligned : aligned;

  uint64_t data_end = 0;
  for (const StoredExtent& extent : metadata.extents) data_end = std::max(data_end, extent.offset + extent.length);
  // No data, no mistake.
  if (data_end == 0) return source.size() == metadata_end ? unaligned : aligned;
  // Subtracting from the size cannot overflow, adding to an offset could.
  const uint64_t behind = source.size() - metadata_end;
  const uint64_t pad = aligned_start - metadata_end;
  // Too short for both: an error found later. What is still there must be read from where it is.
  if (data_end > behind) return geometry == Geometry::kOnlyUnaligned ? unaligned : aligned;
  const bool fits_aligned = behind >= pad && data_end <= behind - pad;
  const bool exact_unaligned = data_end == behind;
  // An exact size together with the fitting geometry leaves no doubt.
  if (fits_aligned && data_end == behind - pad && geometry != Geometry::kOnlyUnaligned) return aligned;
  if (exact_unaligned && geometry == Geometry::kOnlyUnaligned) return unaligned;
  if (geometry == Geometry::kOnlyAligned) return fits_aligned ? aligned : cut;
  // The bytes behind the metadata are padding, which is always zero, or the first tensor, which may be. Bytes other
  // than zero or the version decide where size or geometry already point to 0.19; where nothing does, both are needed.
  BALLAST_TRY(const bool zeros, has_zeros(source, metadata_end, std::min(aligned_start, source.size())));
  const bool old_version = says_019(metadata.description);
  const bool points_to_019 = exact_unaligned || geometry == Geometry::kOnlyUnaligned;
  if (points_to_019 ? (!zeros || old_version) : (!zeros && old_version)) return unaligned;
  return fits_aligned ? aligned : cut;
}

}  // namespace ballast
