#include "ballast/archive/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "ballast/archive/manifest.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/archive/tied.h"
#include "ballast/archive/write.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"
#include "ballast/tensor/elements.h"
#include "ballast/tensor/whole_units.h"

namespace ballast {

namespace {

// What reading a payload told about it.
struct PayloadCheck {
  std::optional<Error> damage;
  NonFinite non_finite;
};

// Damage becomes a finding; anything else (I/O, memory, cancelling) ends the work.
Status keep_damage(Status status, PayloadCheck& check) {
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

class ArchiveCheck {
 public:
  ArchiveCheck(const std::string& path, const Archive& archive, const VerifyOptions& options, Findings& findings)
      : path_(path), archive_(archive), options_(options), findings_(findings), checks_(archive.tensors().size()) {}

  Status check_structure() {
    BALLAST_CHECK(check_checksums());
    return report_damage();
  }

  // Reads every payload once; that checks the checksums too.
  Status check_content() {
    BALLAST_TRY(const auto digests, digest_and_scan());
    BALLAST_CHECK(report_damage());
    for (size_t i = 0; i < checks_.size(); ++i) report_non_finite(i);
    report_duplicates(digests);
    return check_manifest(digests);
  }

 private:
  const TensorInfo& tensor(size_t index) const { return archive_.tensors()[index]; }
  const std::string& source_name(size_t index) const {
    return archive_.sources()[archive_.extent(index).source]->name();
  }

  Status check_checksums() {
    std::vector<size_t> checked;
    uint64_t total = 0;
    for (size_t i = 0; i < checks_.size(); ++i) {
      if (!archive_.extent(i).crc32) continue;
      checked.push_back(i);
      total += archive_.extent(i).length;
    }
    SharedProgress progress(options_.progress, "checking", total);
    BALLAST_CHECK(progress.add(0));
    BALLAST_CHECK(parallel_for(checked.size(), options_.threads, [&](size_t position) -> Status {
      const size_t index = checked[position];
      BALLAST_CHECK(keep_damage(archive_.check_crc(index), checks_[index]));
      return progress.add(archive_.extent(index).length);
    }));
    return progress.add(0);
  }

  Result<std::vector<TensorDigest>> digest_and_scan() {
    WritePlan plan = make_plan(archive_);
    for (size_t i = 0; i < checks_.size(); ++i) {
      plan.providers[i] = [draw = std::move(plan.providers[i]), dtype = tensor(i).dtype,
                           &check = checks_[i]](ByteSink& sink) -> Status {
        ScanningSink scanning(dtype, check.non_finite, sink);
        BALLAST_CHECK(keep_damage(draw(scanning), check));
        return scanning.finish();
      };
    }
    return digest_plan(plan, {.sha256 = false, .threads = options_.threads, .progress = options_.progress});
  }

  Status report_damage() {
    for (size_t i = 0; i < checks_.size(); ++i) {
      if (!checks_[i].damage) continue;
      BALLAST_CHECK(findings_.error("checksum", archive_.extent(i).offset, tensor(i).name, checks_[i].damage->message));
    }
    return {};
  }

  void report_non_finite(size_t index) {
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

  void report_duplicates(const std::vector<TensorDigest>& digests) {
    for (TiedGroup& group : tied_by_digest(archive_, digests)) {
      std::erase_if(group.tensors, [&](size_t i) { return checks_[i].damage.has_value(); });
      if (group.tensors.size() > 1) report_equal_tensors(group.tensors);
    }
  }

  void report_equal_tensors(std::span<const size_t> group) {
    constexpr size_t kNamed = 8;
    const size_t index = group.front();
    findings_.note("duplicate_payload", archive_.extent(index).offset, tensor(index).name, [&] {
      std::vector<std::string> names;
      for (const size_t i : group.first(std::min(group.size(), kNamed))) names.push_back('"' + tensor(i).name + '"');
      if (group.size() > kNamed) names.push_back(fmt::format("and {} more", group.size() - kNamed));
      return fmt::format("{}: {} tensors hold the same {} bytes: {}; that is right for tied weights",
                         source_name(index), group.size(), tensor(index).byte_size, fmt::join(names, ", "));
    });
  }

  Status check_manifest(const std::vector<TensorDigest>& digests) {
    if (path_.empty()) return {};
    const std::string manifest_file = manifest_path(path_);
    const auto expected = read_manifest(path_);
    if (!expected) {
      const Error& error = expected.error();
      if (error.code == ErrorCode::kCorrupt) return findings_.error("manifest", 0, "", error.message);
      if (error.code != ErrorCode::kNotFound) return error;
      findings_.note("no_manifest", 0, "", [&] {
        return fmt::format("{}: does not exist, so there were no digests to compare with", manifest_file);
      });
      return {};
    }
    for (const auto& [name, message] : manifest_differences(*expected, make_manifest(archive_, digests))) {
      const auto index = archive_.find(name);
      if (index && checks_[*index].damage) continue;  // told already
      BALLAST_CHECK(findings_.error("manifest", index ? archive_.extent(*index).offset : 0, name,
                                    fmt::format("{}: {}", manifest_file, message)));
    }
    return {};
  }

  const std::string& path_;  // empty: there is no place for a manifest
  const Archive& archive_;
  const VerifyOptions& options_;
  Findings& findings_;
  std::vector<PayloadCheck> checks_;
};

VerifyReport make_report(std::string_view format, const Findings& findings) {
  VerifyReport report{std::string(format), findings.items()};
  std::ranges::stable_sort(report.findings, {}, &Finding::offset);
  if (findings.dropped() != 0) {
    report.findings.push_back({findings.worst_dropped(), "more_findings", report.findings.back().offset, "",
                               fmt::format("{} more findings were left out", findings.dropped())});
  }
  return report;
}

Result<VerifyReport> verify(const OpenRequest& request, const std::string& path, const VerifyOptions& options) {
  const auto detected = detect_format(request);
  if (!detected) return explain_unreadable(request, detected.error());
  const FormatDriver* const driver = *detected;
  Findings findings = Findings::collect_all();
  const auto archive = driver->open(request, findings);
  if (!archive) {
    if (archive.error().code != ErrorCode::kCorrupt) return explain_unreadable(request, archive.error());
    BALLAST_CHECK(findings.error("unreadable", 0, "", archive.error().message));
  } else if (!findings.has_errors()) {
    ArchiveCheck check(path, *archive, options, findings);
    BALLAST_CHECK(options.level == VerifyLevel::kContent ? check.check_content() : check.check_structure());
  }
  return make_report(archive ? std::string_view(archive->description().format) : driver->name, findings);
}

}  // namespace

bool VerifyReport::sound() const {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.severity != Severity::kNote; });
}

Result<VerifyReport> verify_archive(const std::string& path, const VerifyOptions& options) {
  return guarded([&]() -> Result<VerifyReport> {
    BALLAST_TRY(const ResolvedPath resolved, resolve_path(path, {.access = FileAccess::kPositional}));
    return verify(resolved.request, path, options);
  });
}

Result<VerifyReport> verify_archive(const OpenRequest& request, const VerifyOptions& options) {
  return guarded([&] { return verify(request, "", options); });
}

}  // namespace ballast
