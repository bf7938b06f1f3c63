#include "ballast/archive/diff.h"
#include "ballast/archive/digest.h"
#include "bindings/c/archive_object.h"
#include "bindings/c/reports.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_diff> {
  using Object = DiffReport;
  static constexpr HandleKind kKind = HandleKind::kDiff;
  static constexpr const char* kName = "diff";
};

namespace {

ballast_severity severity_of(Severity severity) {
  switch (severity) {
    case Severity::kNote: return BALLAST_FINDING_NOTE;
    case Severity::kWarning: return BALLAST_FINDING_WARNING;
    case Severity::kError: break;
  }
  return BALLAST_FINDING_ERROR;
}

ballast_finding finding_of(const Finding& found) {
  ballast_finding finding = {};
  finding.severity = severity_of(found.severity);
  finding.code = to_text(found.code);
  finding.offset = found.offset;
  finding.tensor = to_text(found.tensor);
  finding.message = to_text(found.message);
  return finding;
}

ballast_difference difference_of(DiffKind kind) {
  switch (kind) {
    case DiffKind::kSame: return BALLAST_SAME;
    case DiffKind::kOnlyInA: return BALLAST_ONLY_IN_A;
    case DiffKind::kOnlyInB: return BALLAST_ONLY_IN_B;
    case DiffKind::kChanged: return BALLAST_CHANGED;
    case DiffKind::kRenamed: return BALLAST_RENAMED;
    case DiffKind::kTransposed: break;
  }
  return BALLAST_TRANSPOSED;
}

ballast_diff_entry entry_of(const DiffEntry& found) {
  ballast_diff_entry entry = {};
  entry.difference = difference_of(found.kind);
  entry.name_a = to_text(found.name_a);
  entry.name_b = to_text(found.name_b);
  entry.note = to_text(found.note);
  entry.comparable = found.change.comparable;
  entry.within_tolerance = found.change.within_tolerance;
  entry.differing = found.change.differing;
  entry.elements = found.change.elements;
  entry.max_abs = found.change.max_abs;
  entry.max_rel = found.change.max_rel;
  return entry;
}

ballast_digest digest_of(const Digest& digest) {
  ballast_digest copy;
  std::memcpy(copy.bytes, digest.data(), digest.size());
  return copy;
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_verify(const char* path, bool content, const ballast_work_options* options,
                              ballast_findings** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(VerifyOptions verify, work_options<VerifyOptions>(options));
    verify.level = content ? VerifyLevel::kContent : VerifyLevel::kStructure;
    BALLAST_TRY(VerifyReport report, verify_archive(std::string(path), verify));
    *out = hand_out<ballast_findings>(std::make_shared<VerifyReport>(std::move(report)));
    return {};
  });
}
bool ballast_findings_sound(const ballast_findings* findings) {
  return ask(findings, false, [](const VerifyReport& report) { return report.sound(); });
}
size_t ballast_findings_count(const ballast_findings* findings) {
  return ask(findings, size_t{0}, [](const VerifyReport& report) { return report.findings.size(); });
}
ballast_error* ballast_findings_get(const ballast_findings* findings, size_t index, ballast_finding* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto report, use(findings));
    BALLAST_TRY(const Finding* finding, item_at(report->findings, index));
    return give(finding_of(*finding), out);
  });
}
void ballast_findings_close(ballast_findings* findings) { drop(findings); }

ballast_error* ballast_diff_archives(const ballast_archive* a, const ballast_archive* b, double rtol, double atol,
                                     const ballast_work_options* options, ballast_diff** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto first, use(a));
    BALLAST_TRY(const auto second, use(b));
    BALLAST_TRY(DiffOptions diff, work_options<DiffOptions>(options));
    diff.rtol = rtol;
    diff.atol = atol;
    BALLAST_TRY(DiffReport report, diff_archives(first->archive, second->archive, diff));
    *out = hand_out<ballast_diff>(std::make_shared<DiffReport>(std::move(report)));
    return {};
  });
}
bool ballast_diff_equal(const ballast_diff* diff) {
  return ask(diff, false, [](const DiffReport& report) { return report.equal(); });
}
size_t ballast_diff_count(const ballast_diff* diff) {
  return ask(diff, size_t{0}, [](const DiffReport& report) { return report.entries.size(); });
}
ballast_error* ballast_diff_get(const ballast_diff* diff, size_t index, ballast_diff_entry* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto report, use(diff));
    BALLAST_TRY(const DiffEntry* entry, item_at(report->entries, index));
    return give(entry_of(*entry), out);
  });
}
void ballast_diff_close(ballast_diff* diff) { drop(diff); }

ballast_error* ballast_archive_hash(const ballast_archive* archive, const ballast_work_options* options,
                                    ballast_digest* total, ballast_digest* tensors) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(archive));
    BALLAST_CHECK(need(total, "the pointer to the digest"));
    BALLAST_TRY(const DigestOptions digest, work_options<DigestOptions>(options));
    BALLAST_TRY(const std::vector<TensorDigest> digests, digest_tensors(object->archive, digest));
    *total = digest_of(archive_digest(object->archive.tensors(), digests));
    for (size_t i = 0; tensors != nullptr && i < digests.size(); ++i) tensors[i] = digest_of(digests[i].blake3);
    return {};
  });
}

}  // extern "C"
