#include "ballast/archive/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/manifest.h"
#include "ballast/archive/payload_check.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"

namespace ballast {

namespace {

// The container's checksums, of the tensors that have one.
Status check_structure(const Archive& archive, const VerifyOptions& options, ArchiveCheck& check) {
  std::vector<size_t> checked;
  uint64_t total = 0;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    if (!archive.extent(i).crc32) continue;
    checked.push_back(i);
    total += archive.extent(i).length;
  }
  SharedProgress progress(options.progress, "checking", total);
  BALLAST_CHECK(progress.add(0));
  BALLAST_CHECK(parallel_for(checked.size(), options.threads, [&](size_t position) -> Status {
    BALLAST_CHECK(check.check_crc(checked[position]));
    return progress.add(archive.extent(checked[position]).length);
  }));
  BALLAST_CHECK(progress.add(0));
  return check.report_damage();
}

// `path` empty: there is no place for a manifest.
Status check_manifest(const std::string& path, const Archive& archive, const std::vector<TensorDigest>& digests,
                      const ArchiveCheck& check, Findings& findings) {
  if (path.empty()) return {};
  const std::string manifest_file = manifest_path(path);
  const auto expected = read_manifest(path);
  if (!expected) {
    const Error& error = expected.error();
    if (error.code == ErrorCode::kCorrupt) return findings.error("manifest", 0, "", error.message);
    if (error.code != ErrorCode::kNotFound) return error;
    findings.note("no_manifest", 0, "", [&] {
      return fmt::format("{}: does not exist, so there were no digests to compare with", manifest_file);
    });
    return {};
  }
  for (const auto& [name, message] : manifest_differences(*expected, make_manifest(archive, digests))) {
    const auto index = archive.find(name);
    if (index && check.is_damaged(*index)) continue;  // told already
    BALLAST_CHECK(findings.error("manifest", index ? archive.extent(*index).offset : 0, name,
                                 fmt::format("{}: {}", manifest_file, message)));
  }
  return {};
}

// Reads every payload once; that checks the checksums too.
Status check_content(const std::string& path, const Archive& archive, const VerifyOptions& options, ArchiveCheck& check,
                     Findings& findings) {
  const DigestOptions all{.sha256 = false, .threads = options.threads, .progress = options.progress};
  BALLAST_TRY(const auto digests, digest_plan(check.scanning_plan(), all));
  BALLAST_CHECK(check.report_content(digests));
  return check_manifest(path, archive, digests, check, findings);
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
    ArchiveCheck check(*archive, findings);
    BALLAST_CHECK(options.level == VerifyLevel::kContent ? check_content(path, *archive, options, check, findings)
                                                         : check_structure(*archive, options, check));
  }
  return make_verify_report(archive ? std::string_view(archive->description().format) : driver->name, findings);
}

}  // namespace

VerifyReport make_verify_report(std::string_view format, const Findings& findings) {
  VerifyReport report{std::string(format), findings.items()};
  std::ranges::stable_sort(report.findings, {}, &Finding::offset);
  if (findings.dropped() != 0) {
    report.findings.push_back({findings.worst_dropped(), "more_findings", report.findings.back().offset, "",
                               fmt::format("{} more findings were left out", findings.dropped())});
  }
  return report;
}

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
