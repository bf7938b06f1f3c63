#include "ballast/archive/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ballast/archive/foreign.h"
#include "ballast/archive/shared_progress.h"
#include "ballast/base/checked.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- which format

struct Recognised {
  const FormatDriver* driver = nullptr;
  bool by_content = false;
  std::string nearest;        // where not
  uint64_t bytes_before = 0;  // where the format's signature stands behind others
};

// A signature that does not stand at the beginning: something was put in front of the file.
std::optional<Recognised> find_shifted(const OpenRequest& request, ByteSpan head) {
  constexpr size_t kFurthest = 1024;
  for (size_t shift = 1; shift < std::min(head.size(), kFurthest); ++shift) {
    const SniffInput input{head.subspan(shift), request.source->size() - shift, request.file_name,
                           request.source.get()};
    for (const FormatDriver* driver : all_formats()) {
      if (driver->sniff(input) != SniffMatch::kCertain) continue;
      return Recognised{driver, false, fmt::format("its signature stands at byte {}", shift), shift};
    }
  }
  return std::nullopt;
}

Result<Recognised> recognise(const OpenRequest& request) {
  const auto detected = detect_format(request);
  if (detected) return Recognised{*detected, true, "", 0};
  if (detected.error().code != ErrorCode::kUnknownFormat) return detected.error();
  BALLAST_TRY(const ByteVector head,
              read_bytes(*request.source, 0, std::min<uint64_t>(request.source->size(), kSniffBytes)));
  if (auto shifted = find_shifted(request, head)) return *std::move(shifted);
  if (const FormatDriver* driver = format_for_extension(request.file_name)) {
    return Recognised{driver, false, "only its name says so", 0};
  }
  return Recognised{};
}

// ---------------------------------------------------------------- what is sound

struct Patient {
  Findings findings = Findings::rescue();
  std::optional<Archive> archive;  // what was understood
  std::vector<bool> sound;         // per tensor of it
};

// Belt and braces: whatever a driver says, nothing is read outside its source or under a doubtful size.
bool fits_its_source(const Archive& archive, size_t index) {
  const StoredExtent& extent = archive.extent(index);
  const TensorInfo& tensor = archive.tensors()[index];
  if (extent.source >= archive.sources().size()) return false;
  if (!range_fits(extent.offset, extent.length, archive.sources()[extent.source]->size())) return false;
  const auto expected = has_fixed_size(tensor.dtype) ? packed_size(tensor.shape, tensor.dtype) : tensor.byte_size;
  const uint64_t stored = extent.view ? extent.view->run_size : tensor.byte_size;
  return expected == tensor.byte_size && (extent.deflated || extent.length == stored);
}

std::vector<bool> find_sound(const Archive& archive, const Findings& findings) {
  std::vector<std::string_view> damaged(findings.damaged().begin(), findings.damaged().end());
  std::ranges::sort(damaged);
  std::vector<bool> sound(archive.tensors().size());
  for (size_t i = 0; i < sound.size(); ++i) {
    sound[i] = !std::ranges::binary_search(damaged, std::string_view(archive.tensors()[i].name)) &&
               fits_its_source(archive, i);
  }
  for (const size_t twin : find_duplicate_names(archive.tensors())) sound[twin] = false;
  for (const size_t twin : find_shadowed_names(archive.tensors())) sound[twin] = false;
  return sound;
}

Status check_checksums(Patient& patient, const DoctorOptions& options) {
  std::vector<size_t> checked;
  uint64_t total = 0;
  for (size_t i = 0; i < patient.sound.size(); ++i) {
    if (!patient.sound[i] || !patient.archive->extent(i).crc32) continue;
    checked.push_back(i);
    total += patient.archive->extent(i).length;
  }
  std::vector<std::optional<Error>> damage(checked.size());
  SharedProgress progress(options.progress, "checking", total);
  BALLAST_CHECK(progress.add(0));
  BALLAST_CHECK(parallel_for(checked.size(), options.threads, [&](size_t position) -> Status {
    Status status = patient.archive->check_crc(checked[position]);
    if (!status && status.error().code != ErrorCode::kCorrupt) return status;
    if (!status) damage[position] = std::move(status).error();
    return progress.add(patient.archive->extent(checked[position]).length);
  }));
  BALLAST_CHECK(progress.add(0));
  for (size_t position = 0; position < checked.size(); ++position) {
    if (!damage[position]) continue;
    const size_t i = checked[position];
    patient.sound[i] = false;
    BALLAST_CHECK(patient.findings.error("checksum", patient.archive->extent(i).offset,
                                         patient.archive->tensors()[i].name, damage[position]->message));
  }
  return {};
}

// Opens as far as possible. The error, if any, is why nothing at all was understood.
Result<Status> examine(const OpenRequest& request, const FormatDriver& driver, const DoctorOptions& options,
                       Patient& patient) {
  auto opened = driver.open(request, patient.findings);
  if (!opened) {
    const ErrorCode code = opened.error().code;
    if (code != ErrorCode::kCorrupt && code != ErrorCode::kUnsupported) return std::move(opened).error();
    return Status(std::move(opened).error());
  }
  patient.archive = *std::move(opened);
  patient.sound = find_sound(*patient.archive, patient.findings);
  BALLAST_CHECK(check_checksums(patient, options));
  return Status();
}

// ---------------------------------------------------------------- the words for it

struct Cause {
  std::string_view code;
  std::string_view cause;
  std::string_view advice;
  Remedies remedies = {};
};

constexpr std::string_view kCut = "the file was cut short: a download or copy was interrupted, or the disk was full";
constexpr std::string_view kAgain = "download or copy it again, or save the tensors that are whole";
constexpr std::string_view kNothingLeft = "download or copy it again; nothing in it can be saved";
constexpr std::string_view kRewrite = "write a clean file from it";

// The first of these codes that occurs names the cause.
constexpr std::array kCauses = {
    Cause{kReadError, "the disk, or the network it is reached by, failed while the file was read",
          "try again, then check the disk; save the tensors that can be read", Remedy::kRescueTensors},
    Cause{"truncated", kCut, kAgain, Remedy::kRescueTensors},
    Cause{"missing_shard", "shards were not downloaded, or stand elsewhere",
          "bring the missing shards beside the index"},
    Cause{"checksum", "bytes were changed after the file was written: bad memory, a bad disk or a bad transfer", kAgain,
          Remedy::kRescueTensors},
    Cause{"unreadable", "the header was damaged, or the file was cut short", kAgain, Remedy::kRescueTensors},
    Cause{"size", "a writer with a fault, or the header was edited by hand", kRewrite, Remedy::kRescueTensors},
    Cause{"overlap", "a writer with a fault, or tied tensors in a format that forbids sharing bytes", kRewrite,
          Remedy::kRescueTensors},
    Cause{"hole", "a writer with a fault, or a tool that pads", kRewrite, Remedy::kRescueTensors},
    Cause{"trailing_bytes", "something was appended: two downloads into one file, or a longer old file underneath",
          kRewrite, Remedy::kRescueTensors},
    Cause{"duplicate_name", "a writer with a fault", ""},
    Cause{"base_id", "names were edited without their ids", ""},
};

void name_cause(Diagnosis& diagnosis) {
  for (const Cause& row : kCauses) {
    if (std::ranges::find(diagnosis.findings, row.code, &Finding::code) == diagnosis.findings.end()) continue;
    diagnosis.cause = row.cause;
    diagnosis.advice = row.advice;
    diagnosis.remedies = row.remedies;
    return;
  }
}

// What could not be read, since other findings may follow from that; else the first error, or else the first warning.
const Finding* worst_finding(const std::vector<Finding>& findings) {
  const auto unread = std::ranges::find(findings, kReadError, &Finding::code);
  if (unread != findings.end()) return &*unread;
  const Finding* worst = nullptr;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kNote && (worst == nullptr || finding.severity > worst->severity))
      worst = &finding;
  }
  return worst;
}

Status cut_excerpt(const ByteSource& source, uint64_t offset, Diagnosis& diagnosis) {
  constexpr uint64_t kBefore = 32;
  constexpr uint64_t kRow = 16;
  constexpr uint64_t kLength = 80;
  const uint64_t place = std::min(offset, source.size());
  diagnosis.offset = place;
  diagnosis.broken_file = source.name();
  diagnosis.excerpt_offset = (place - std::min(place, kBefore)) / kRow * kRow;
  const uint64_t length = std::min(kLength, source.size() - diagnosis.excerpt_offset);
  return assign(diagnosis.excerpt, read_bytes(source, diagnosis.excerpt_offset, length));
}

void list_lost(const Patient& patient, Diagnosis& diagnosis) {
  std::map<std::string_view, const Finding*> reasons;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.severity == Severity::kError && !finding.tensor.empty()) reasons.emplace(finding.tensor, &finding);
  }
  std::vector<std::string_view> names(patient.findings.damaged().begin(), patient.findings.damaged().end());
  for (size_t i = 0; i < patient.sound.size(); ++i) {
    const TensorInfo& tensor = patient.archive->tensors()[i];
    if (patient.sound[i]) {
      ++diagnosis.sound_tensors;
      diagnosis.sound_bytes += tensor.byte_size;
    } else {
      names.push_back(tensor.name);
    }
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  for (const std::string_view name : names) {
    const auto reason = reasons.find(name);
    if (reason != reasons.end())
      diagnosis.lost.push_back({std::string(name), reason->second->code, reason->second->message});
    else diagnosis.lost.push_back({std::string(name), "description", "its description contradicts itself"});
  }
}

void take_findings(const Findings& findings, Diagnosis& diagnosis) {
  diagnosis.findings = findings.items();
  std::ranges::stable_sort(diagnosis.findings, {}, &Finding::offset);
  if (findings.dropped() == 0) return;
  diagnosis.findings.push_back({findings.worst_dropped(), "more_findings", diagnosis.findings.back().offset, "",
                                fmt::format("{} more findings were left out", findings.dropped())});
}

// What `recognised` made of the file, or could not.
Status describe_patient(const OpenRequest& request, const Recognised& recognised, const Patient& patient,
                        const Status& failure, Diagnosis& diagnosis) {
  take_findings(patient.findings, diagnosis);
  diagnosis.broken_off = patient.findings.was_broken_off();
  list_lost(patient, diagnosis);
  const ByteSource* place = request.source.get();
  if (patient.archive && patient.archive->sources().size() == 1) place = patient.archive->sources()[0].get();
  if (!failure) {
    diagnosis.verdict = failure.error().code == ErrorCode::kUnsupported ? Verdict::kUnsupported : Verdict::kDamaged;
    diagnosis.what = failure.error().message;
    const bool short_file = diagnosis.what.find("cut short") != std::string::npos;
    diagnosis.cause = short_file ? kCut : "";
    diagnosis.advice = short_file ? kNothingLeft : "";
    return cut_excerpt(*place, short_file ? place->size() : 0, diagnosis);
  }
  const Finding* worst = worst_finding(diagnosis.findings);
  if (worst == nullptr) {
    diagnosis.verdict = Verdict::kSound;
    diagnosis.what = fmt::format("nothing is wrong with this {} file", recognised.driver->name);
    return {};
  }
  diagnosis.verdict = worst->severity == Severity::kError ? Verdict::kDamaged : Verdict::kFlawed;
  diagnosis.what = worst->message;
  name_cause(diagnosis);
  if (worst->code == kReadError) {
    diagnosis.verdict = Verdict::kUnreadable;
    diagnosis.offset = worst->offset;  // without an excerpt: these bytes are what could not be read
    diagnosis.broken_file = place->name();
    return {};
  }
  if (diagnosis.sound_tensors == 0) {
    diagnosis.advice = kNothingLeft;
    diagnosis.remedies = {};
  }
  return cut_excerpt(*place, worst->code == "truncated" ? place->size() : worst->offset, diagnosis);
}

Status describe_unrecognised(const OpenRequest& request, const Recognised& recognised, Diagnosis& diagnosis) {
  diagnosis.nearest = recognised.nearest;
  if (recognised.bytes_before != 0) {
    diagnosis.verdict = Verdict::kDamaged;
    diagnosis.what = fmt::format("{} bytes stand in front of the {} file", recognised.bytes_before, diagnosis.format);
    diagnosis.cause = "a text editor, a web server or a tool put something in front of it";
    diagnosis.advice = fmt::format("tail -c +{} FILE > NEW", recognised.bytes_before + 1);
    return cut_excerpt(*request.source, recognised.bytes_before, diagnosis);
  }
  BALLAST_CHECK(assign(diagnosis.foreign, find_foreign_content(*request.source)));
  if (diagnosis.foreign) {
    diagnosis.verdict = Verdict::kForeign;
    diagnosis.what = fmt::format("this is {}", diagnosis.foreign->what);
    if (diagnosis.foreign->kind == "empty") diagnosis.what = "the file is empty";
    diagnosis.cause = diagnosis.foreign->cause;
    diagnosis.advice = diagnosis.foreign->advice;
  } else {
    diagnosis.what = diagnosis.format.empty()
                         ? "no format begins like this"
                         : fmt::format("its name says {}, but it does not begin like one",
                                       fmt::join(format_names_for_extension(request.file_name), " or "));
    diagnosis.cause = "its first bytes were overwritten, it is encrypted, or Ballast does not know its format";
  }
  return cut_excerpt(*request.source, 0, diagnosis);
}

// A zip without arrays is foreign, though npz takes every zip that no other format knows.
Result<bool> is_foreign_zip(const OpenRequest& request, const Status& failure, Diagnosis& diagnosis) {
  if (diagnosis.format != "npz" || failure || failure.error().code != ErrorCode::kUnsupported) return false;
  BALLAST_TRY(auto foreign, find_foreign_content(*request.source));
  if (!foreign || (foreign->kind != "keras" && foreign->kind != "zip")) return false;
  diagnosis.foreign = std::move(foreign);
  return true;
}

Result<Diagnosis> examine_and_describe(const OpenRequest& request, const DoctorOptions& options, Patient& patient) {
  Diagnosis diagnosis;
  diagnosis.size = request.source->size();
  BALLAST_TRY(const Recognised recognised, recognise(request));
  if (recognised.driver != nullptr) diagnosis.format = recognised.driver->name;
  if (!recognised.by_content) {
    BALLAST_CHECK(describe_unrecognised(request, recognised, diagnosis));
    return diagnosis;
  }
  BALLAST_TRY(const Status failure, examine(request, *recognised.driver, options, patient));
  BALLAST_TRY(const bool foreign_zip, is_foreign_zip(request, failure, diagnosis));
  if (foreign_zip) {
    BALLAST_CHECK(describe_unrecognised(request, {}, diagnosis));
    diagnosis.format.clear();
    return diagnosis;
  }
  BALLAST_CHECK(describe_patient(request, recognised, patient, failure, diagnosis));
  return diagnosis;
}

// ---------------------------------------------------------------- paths that lead nowhere

std::optional<Diagnosis> diagnose_dangling_link(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_symlink(path, none) || std::filesystem::exists(path, none)) return std::nullopt;
  const std::string target = std::filesystem::read_symlink(path, none).string();
  Diagnosis diagnosis;
  diagnosis.verdict = Verdict::kForeign;
  const bool annex = target.find("annex/objects/") != std::string::npos;
  diagnosis.foreign = {annex ? "git_annex_pointer" : "dangling_link",
                       annex ? "a git-annex link without its content" : "a link to nothing",
                       annex ? "the repository holds the file's key only; its content was not fetched"
                             : "the file it points to was moved or removed",
                       annex ? "git annex get FILE" : "find the file, or download it again"};
  diagnosis.what = fmt::format("a symbolic link to {}, which does not exist", target);
  diagnosis.cause = diagnosis.foreign->cause;
  diagnosis.advice = diagnosis.foreign->advice;
  return diagnosis;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSound: return "sound";
    case Verdict::kFlawed: return "flawed";
    case Verdict::kDamaged: return "damaged";
    case Verdict::kUnreadable: return "unreadable";
    case Verdict::kUnsupported: return "unsupported";
    case Verdict::kForeign: return "foreign";
    case Verdict::kUnknown: return "unknown";
  }
  return "";
}

Result<Diagnosis> diagnose(const OpenRequest& request, const DoctorOptions& options) {
  return guarded([&] {
    Patient patient;
    return examine_and_describe(request, options, patient);
  });
}

Result<Diagnosis> diagnose(const std::string& path, const DoctorOptions& options) {
  return guarded([&]() -> Result<Diagnosis> {
    if (auto dangling = diagnose_dangling_link(path)) return *std::move(dangling);
    BALLAST_TRY(const ResolvedPath resolved, resolve_path(path, {.access = FileAccess::kPositional}));
    return diagnose(resolved.request, options);
  });
}

Result<RescueReport> rescue(const std::string& path, const std::string& destination, const FormatDriver& format,
                            const ConvertOptions& options) {
  return guarded([&]() -> Result<RescueReport> {
    BALLAST_TRY(const ResolvedPath resolved, resolve_path(path, {.access = FileAccess::kPositional}));
    return rescue(resolved.request, destination, format, options);
  });
}

Result<RescueReport> rescue(const OpenRequest& request, const std::string& destination, const FormatDriver& format,
                            const ConvertOptions& options) {
  return guarded([&]() -> Result<RescueReport> {
    Patient patient;
    RescueReport report;
    BALLAST_TRY(
        report.diagnosis,
        examine_and_describe(request, {.threads = options.threads, .progress = options.write.progress}, patient));
    if (report.diagnosis.sound_tensors == 0) {
      const bool unread = report.diagnosis.verdict == Verdict::kUnreadable;
      return make_error(unread ? ErrorCode::kIo : ErrorCode::kCorrupt,
                        fmt::format("{}: nothing can be rescued: {}", request.source->name(), report.diagnosis.what));
    }
    const Archive& archive = *patient.archive;
    WritePlan all = make_plan(archive);
    WritePlan plan;
    plan.description = archive.description();
    plan.description.tensors.clear();
    if (!report.diagnosis.lost.empty()) plan.description.origin.reset();  // it speaks of tensors that are not there
    for (size_t i = 0; i < patient.sound.size(); ++i) {
      if (patient.sound[i]) plan.add_tensor(archive.tensors()[i], std::move(all.providers[i]));
    }
    ConvertOptions writing = options;
    writing.keep_order = plan.description.origin.has_value();
    BALLAST_TRY(report.written, convert_plan(std::move(plan), destination, format, writing));
    return report;
  });
}

}  // namespace ballast
