#include "ballast/archive/payload_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/tied.h"
#include "ballast/tensor/elements.h"
#include "ballast/tensor/whole_units.h"

namespace ballast {

namespace {

// Damage becomes a finding; anything else (I/O, memory, cancelling) ends the work.
Status keep_damage(Status status, ArchiveCheck::Payload& check) {
  if (status || status.error().code != ErrorCode::kCorrupt) return status;
  check.damage = std::move(status).error();
  return {};
}

// Passes a payload on and looks for values that are not finite.
class ScanningSink final : public ByteSink {
 public:
  ScanningSink(DType dtype, NonFinite& found, ByteSink& next)
      : dtype_(dtype), found_(found), next_(next), units_(static_cast<size_t>(element_unit(dtype).bytes), kChunk) {}

  Status write(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ByteSpan now = bytes.first(std::min(bytes.size(), kChunk));
      BALLAST_CHECK(units_.add(now, [this](ByteSpan whole) { return scan(whole); }));
      BALLAST_CHECK(next_.write(now));
      bytes = bytes.subspan(now.size());
    }
    return {};
  }
  // Once all was written.
  Status finish() {
    return units_.finish([this](ByteSpan rest) { return scan(rest); });
  }
  Status patch(uint64_t offset, ByteSpan bytes) override { return next_.patch(offset, bytes); }
  uint64_t position() const override { return next_.position(); }

 private:
  static constexpr size_t kChunk = size_t{1} << 20;  // so that the next reader finds it in the cache

  Status scan(ByteSpan elements) {
    found_.append(find_non_finite(dtype_, elements), elements_in(dtype_, scanned_));
    scanned_ += elements.size();
    return {};
  }

  DType dtype_;
  NonFinite& found_;
  ByteSink& next_;
  WholeUnits units_;
  uint64_t scanned_ = 0;
};

}  // namespace

ArchiveCheck::ArchiveCheck(const Archive& archive, Findings& findings)
    : archive_(archive), findings_(findings), checks_(archive.tensors().size()) {}

Status ArchiveCheck::check_crc(size_t index) { return keep_damage(archive_.check_crc(index), checks_[index]); }

WritePlan ArchiveCheck::scanning_plan() {
  WritePlan plan = make_plan(archive_);
  for (size_t i = 0; i < checks_.size(); ++i) {
    plan.providers[i] = [draw = std::move(plan.providers[i]), dtype = tensor(i).dtype,
                         &check = checks_[i]](ByteSink& sink) -> Status {
      ScanningSink scanning(dtype, check.non_finite, sink);
      BALLAST_CHECK(keep_damage(draw(scanning), check));
      return scanning.finish();
    };
  }
  return plan;
}

Status ArchiveCheck::report_damage() {
  for (size_t i = 0; i < checks_.size(); ++i) {
    if (!checks_[i].damage) continue;
    BALLAST_CHECK(findings_.error("checksum", archive_.extent(i).offset, tensor(i).name, checks_[i].damage->message));
  }
  return {};
}

Status ArchiveCheck::report_content(const std::vector<TensorDigest>& digests) {
  BALLAST_CHECK(report_damage());
  for (size_t i = 0; i < checks_.size(); ++i) report_non_finite(i);
  report_duplicates(digests);
  return {};
}

void ArchiveCheck::report_non_finite(size_t index) {
  const NonFinite& found = checks_[index].non_finite;
  if (checks_[index].damage || !found.any()) return;
  const StoredExtent& extent = archive_.extent(index);
  const uint64_t inside = extent.is_canonical() ? byte_of_element(tensor(index).dtype, found.first) : 0;
  const uint64_t offset = extent.offset + inside;
  findings_.warning("non_finite", offset, tensor(index).name, [&] {
    return fmt::format("{}: tensor \"{}\" holds {} NaN, {} +Inf and {} -Inf; the first is element {}",
                       source_name(index), tensor(index).name, found.nan, found.positive_infinity,
                       found.negative_infinity, found.first);
  });
}

void ArchiveCheck::report_duplicates(const std::vector<TensorDigest>& digests) {
  for (TiedGroup& group : tied_by_digest(archive_, digests)) {
    std::erase_if(group.tensors, [&](size_t i) { return checks_[i].damage.has_value(); });
    if (group.tensors.size() > 1) report_equal_tensors(group.tensors);
  }
}

void ArchiveCheck::report_equal_tensors(std::span<const size_t> group) {
  constexpr size_t kNamed = 8;
  const size_t index = group.front();
  findings_.note("duplicate_payload", archive_.extent(index).offset, tensor(index).name, [&] {
    std::vector<std::string> names;
    for (const size_t i : group.first(std::min(group.size(), kNamed))) names.push_back('"' + tensor(i).name + '"');
    if (group.size() > kNamed) names.push_back(fmt::format("and {} more", group.size() - kNamed));
    return fmt::format("{}: {} tensors hold the same {} bytes: {}; that is right for tied weights", source_name(index),
                       group.size(), tensor(index).byte_size, fmt::join(names, ", "));
  });
}

}  // namespace ballast
