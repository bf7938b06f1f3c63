#include "bindings/python/module/tools.h"

#include <nanobind/stl/string.h>

#include <filesystem>

#include "ballast/archive/diff.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/doctor.h"
#include "ballast/archive/manifest.h"
#include "ballast/archive/stats.h"
#include "ballast/archive/verify.h"
#include "ballast/formats/format.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/progress.h"

namespace ballast::python {

namespace {

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::object(nb::none()) : to_python_text(text);
}

// ---------------------------------------------------------------- verify and doctor

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "";
}

nb::list finding_rows(const std::vector<Finding>& findings) {
  nb::list rows;
  for (const Finding& finding : findings) {
    nb::dict row;
    row["severity"] = severity_name(finding.severity);
    row["code"] = finding.code;
    row["offset"] = finding.offset;
    row["tensor"] = text_or_none(finding.tensor);
    row["message"] = to_python_text(finding.message);
    rows.append(row);
  }
  return rows;
}

nb::dict verify(const std::string& path, bool content, unsigned threads, nb::object progress) {
  const VerifyReport report = run_long(std::move(progress), [&](Watch& watch) {
    const VerifyLevel level = content ? VerifyLevel::kContent : VerifyLevel::kStructure;
    return verify_archive(path, {.level = level, .threads = threads, .progress = watch.progress()});
  });
  nb::dict made;
  made["format"] = report.format;
  made["sound"] = report.sound();
  made["findings"] = finding_rows(report.findings);
  return made;
}

nb::list lost_rows(const std::vector<LostTensor>& lost) {
  nb::list rows;
  for (const LostTensor& tensor : lost) {
    nb::dict row;
    row["name"] = to_python_text(tensor.name);
    row["code"] = tensor.code;
    row["why"] = to_python_text(tensor.why);
    rows.append(row);
  }
  return rows;
}

nb::dict diagnosis_dict(const Diagnosis& diagnosis) {
  nb::dict made;
  made["verdict"] = nb::str(verdict_name(diagnosis.verdict).data(), verdict_name(diagnosis.verdict).size());
  made["format"] = text_or_none(diagnosis.format);
  made["content"] = diagnosis.foreign ? text_or_none(diagnosis.foreign->kind) : nb::object(nb::none());
  made["what"] = to_python_text(diagnosis.what);
  made["cause"] = text_or_none(diagnosis.cause);
  made["advice"] = text_or_none(diagnosis.advice);
  made["size"] = diagnosis.size;
  made["offset"] = diagnosis.offset ? nb::object(nb::int_(*diagnosis.offset)) : nb::object(nb::none());
  made["findings"] = finding_rows(diagnosis.findings);
  made["sound_tensors"] = diagnosis.sound_tensors;
  made["sound_bytes"] = diagnosis.sound_bytes;
  made["lost"] = lost_rows(diagnosis.lost);
  made["complete"] = diagnosis.is_complete();
  return made;
}

nb::dict doctor(const std::string& path, unsigned threads, nb::object progress) {
  return diagnosis_dict(run_long(std::move(progress), [&](Watch& watch) {
    return diagnose(path, {.threads = threads, .progress = watch.progress()});
  }));
}

nb::dict rescue_to(const std::string& path, const std::string& destination, const std::string& format_name,
                   bool overwrite, unsigned threads, nb::object progress) {
  const FormatDriver& format = *unwrap(choose_format(format_name));
  const RescueReport report = run_long(std::move(progress), [&](Watch& watch) {
    ConvertOptions options;
    options.threads = threads;
    options.write.commit.overwrite = overwrite;
    options.write.progress = watch.progress();
    return rescue(path, destination, format, options);
  });
  nb::dict made = diagnosis_dict(report.diagnosis);
  nb::list files;
  for (const std::string& file : report.written.written.files) files.append(to_python_text(file));
  made["files"] = files;
  return made;
}

// ---------------------------------------------------------------- diff

const char* diff_name(DiffKind kind) {
  switch (kind) {
    case DiffKind::kSame: return "same";
    case DiffKind::kOnlyInA: return "only_in_a";
    case DiffKind::kOnlyInB: return "only_in_b";
    case DiffKind::kChanged: return "changed";
    case DiffKind::kRenamed: return "renamed";
    case DiffKind::kTransposed: return "transposed";
  }
  return "";
}

nb::dict diff(const ArchiveHandle& a, const ArchiveHandle& b, double rtol, double atol, unsigned threads,
              nb::object progress) {
  const auto first = a.get(), second = b.get();
  const DiffReport report = run_long(std::move(progress), [&](Watch& watch) {
    return diff_archives(*first, *second,
                         {.rtol = rtol, .atol = atol, .threads = threads, .progress = watch.progress()});
  });
  nb::list entries;
  for (const DiffEntry& entry : report.entries) {
    nb::dict row;
    row["kind"] = diff_name(entry.kind);
    row["name_a"] = text_or_none(entry.name_a);
    row["name_b"] = text_or_none(entry.name_b);
    row["note"] = text_or_none(entry.note);
    row["comparable"] = entry.change.comparable;
    row["within_tolerance"] = entry.change.within_tolerance;
    row["differing"] = entry.change.differing;
    row["elements"] = entry.change.elements;
    row["max_abs"] = entry.change.max_abs;
    row["max_rel"] = entry.change.max_rel;
    row["max_ulp"] = entry.change.max_ulp;
    entries.append(row);
  }
  nb::dict made;
  made["equal"] = report.equal();
  made["entries"] = entries;
  return made;
}

// ---------------------------------------------------------------- hash

nb::dict hash(const ArchiveHandle& file, bool sha256, unsigned threads, nb::object progress) {
  const auto archive = file.get();
  const auto digests = run_long(std::move(progress), [&](Watch& watch) {
    return digest_tensors(*archive, {.sha256 = sha256, .threads = threads, .progress = watch.progress()});
  });
  nb::list tensors;
  for (size_t i = 0; i < digests.size(); ++i) {
    tensors.append(nb::make_tuple(to_python_text(archive->tensors()[i].name), to_hex(digests[i].blake3),
                                  text_or_none(digests[i].sha256)));
  }
  nb::dict made;
  made["format"] = archive->description().format;
  made["digest"] = to_hex(archive_digest(archive->tensors(), digests));
  made["tensors"] = tensors;
  return made;
}

// ---------------------------------------------------------------- statistics

nb::object measured_dict(const TensorStatistics& measured) {
  if (!measured.measured) return nb::none();
  const Statistics& numbers = measured.statistics;
  nb::dict made;
  made["count"] = numbers.count;
  made["zeros"] = numbers.zeros;
  made["denormals"] = numbers.denormals;
  made["nan"] = numbers.nan;
  made["positive_infinity"] = numbers.positive_infinity;
  made["negative_infinity"] = numbers.negative_infinity;
  made["min"] = numbers.min;
  made["max"] = numbers.max;
  made["mean"] = numbers.mean;
  made["std"] = numbers.std();
  nb::list counts;
  for (const uint64_t count : measured.histogram.counts) counts.append(count);
  made["histogram"] = nb::make_tuple(measured.histogram.low, measured.histogram.high, measured.histogram.below,
                                     measured.histogram.above, counts);
  return made;
}

nb::dict statistics(const ArchiveHandle& file, nb::handle names, size_t bins, unsigned threads, nb::object progress) {
  const auto archive = file.get();
  const std::vector<size_t> chosen = chosen_tensors(file, names);
  const ArchiveStatistics measured = run_long(std::move(progress), [&](Watch& watch) {
    return measure_archive(*archive, chosen,
                           {.bins = bins, .total_bins = bins, .threads = threads, .progress = watch.progress()});
  });
  nb::list tensors;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const TensorInfo& info = archive->tensors()[chosen[i]];
    tensors.append(nb::make_tuple(to_python_text(info.name), to_python_text(info.type_name()), shape_tuple(info.shape),
                                  measured_dict(measured.tensors[i])));
  }
  nb::dict made;
  made["tensors"] = tensors;
  made["total"] = measured_dict(measured.total);
  return made;
}

}  // namespace

void bind_tools(nb::module_& module) {
  const auto threads = nb::arg("threads") = 0;
  const auto progress = nb::arg("progress") = nb::none();
  module.def("verify", &verify, nb::arg("path"), nb::arg("content"), threads, progress);
  module.def("doctor", &doctor, nb::arg("path"), threads, progress);
  module.def("rescue", &rescue_to, nb::arg("path"), nb::arg("destination"), nb::arg("format"), nb::arg("overwrite"),
             threads, progress);
  module.def("diff", &diff, nb::arg("a"), nb::arg("b"), nb::arg("rtol"), nb::arg("atol"), threads, progress);
  module.def("hash", &hash, nb::arg("file"), nb::arg("sha256"), threads, progress);
  module.def("statistics", &statistics, nb::arg("file"), nb::arg("names"), nb::arg("bins"), threads, progress);
}

}  // namespace ballast::python
