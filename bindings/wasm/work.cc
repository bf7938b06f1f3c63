// Work over payloads, a few pieces a step: statistics, digests, verifying, comparing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/archive/diff.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/payload_check.h"
#include "ballast/archive/verify.h"
#include "ballast/tensor/elements.h"
#include "ballast/tensor/statistics.h"
#include "bindings/wasm/session.h"

namespace ballast::wasm {

namespace {

// ---------------------------------------------------------------- statistics

void write_real(JsonWriter& json, std::string_view key, double value) {
  json.key(key);
  if (std::isnan(value)) json.null();
  else json.real(value);
}

class StatsWork final : public Work {
 public:
  StatsWork(Session& session, ChosenTensor chosen, size_t bins)
      : dtype_(chosen.info().dtype), pieces_(session, *chosen.archive, chosen.index), bins_(bins) {
    total = pieces_.size();
  }

  Result<bool> step(Answer& answer) override {
    BALLAST_TRY(const bool there, pieces_.ready());
    if (!there) return false;
    BALLAST_CHECK(pieces_.take([&](ByteSpan bytes) -> Status {
      const Measured piece = measure(dtype_, bytes);
      if (piece.statistics.non_finite() != 0) note_places(bytes);
      measured_.merge(piece);
      numbers_ += piece.statistics.count;
      return {};
    }));
    done = pieces_.at();
    if (!pieces_.at_end()) return false;
    write(answer.json);
    return true;
  }

 private:
  static constexpr size_t kPlaces = 16;

  void note_places(ByteSpan bytes) {
    if (nan_.size() == kPlaces && infinity_.size() == kPlaces) return;
    const size_t components = component_count(dtype_);
    std::vector<double> values(static_cast<size_t>(elements_in(dtype_, bytes.size())) * components);
    to_doubles(dtype_, bytes, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t place = (numbers_ + i) / components;
      if (std::isnan(values[i]) && nan_.size() < kPlaces) nan_.push_back(place);
      if (std::isinf(values[i]) && infinity_.size() < kPlaces) infinity_.push_back(place);
    }
  }

  void write(JsonWriter& json) const {
    const Statistics& s = measured_.statistics;
    json.key("result").begin_object().key("count").number(s.count);
    write_real(json, "min", s.min);
    write_real(json, "max", s.max);
    write_real(json, "mean", s.mean);
    write_real(json, "std", s.std());
    write_real(json, "absMax", s.abs_max());
    json.key("zeros").number(s.zeros).key("denormals").number(s.denormals).key("nan").number(s.nan);
    json.key("positiveInfinity").number(s.positive_infinity).key("negativeInfinity").number(s.negative_infinity);
    json.key("firstNan").numbers(nan_).key("firstInfinity").numbers(infinity_);
    const Histogram histogram = measured_.values.to_histogram(s, bins_);
    json.key("histogram");
    if (histogram.counts.empty()) {
      json.null();
    } else {
      json.begin_object().key("low").real(histogram.low).key("high").real(histogram.high);
      json.key("below").number(histogram.below).key("above").number(histogram.above);
      json.key("counts").numbers(histogram.counts).end_object();
    }
    json.end_object();
  }

  DType dtype_;
  Pieces pieces_;
  size_t bins_;
  Measured measured_;
  uint64_t numbers_ = 0;
  std::vector<uint64_t> nan_;
  std::vector<uint64_t> infinity_;
};

// ---------------------------------------------------------------- digest

class DigestWork final : public Work {
 public:
  DigestWork(Session& session, ChosenTensor chosen)
      : hasher_(chosen.info()), pieces_(session, *chosen.archive, chosen.index) {
    total = pieces_.size();
  }

  Result<bool> step(Answer& answer) override {
    BALLAST_TRY(const bool there, pieces_.ready());
    if (!there) return false;
    BALLAST_CHECK(pieces_.take([&](ByteSpan bytes) -> Status {
      hasher_.update(bytes);
      return {};
    }));
    done = pieces_.at();
    if (!pieces_.at_end()) return false;
    answer.json.key("result").string(to_hex(hasher_.finish()));
    return true;
  }

 private:
  TensorHasher hasher_;
  Pieces pieces_;
};

// ---------------------------------------------------------------- verifying

std::string_view severity_name(Severity severity) {
  return severity == Severity::kError ? "error" : severity == Severity::kWarning ? "warning" : "note";
}

class VerifyWork final : public Work {
 public:
  VerifyWork(Session& session, const OpenRequest& request, VerifyLevel level)
      : session_(session), request_(request), level_(level) {}

  Result<bool> step(Answer& answer) override {
    if (!archive_ && !opened_) {
      BALLAST_CHECK(open());
      return false;
    }
    if (check_ && next_ < archive_->tensors().size()) {
      BALLAST_CHECK(check_some());
      return false;
    }
    if (check_) {
      BALLAST_CHECK(level_ == VerifyLevel::kContent ? check_->report_content(digests_) : check_->report_damage());
    }
    write(answer.json);
    return true;
  }

 private:
  Status open() {
    BALLAST_TRY(const FormatReader* reader, detect_reader(request_, all_readers()));
    Findings findings = Findings::collect_all();
    auto archive = reader->open(request_, findings);
    if (!session_.missing().empty()) return {};
    if (!archive) {
      if (archive.error().code != ErrorCode::kCorrupt) return std::move(archive).error();
      BALLAST_CHECK(findings.error("unreadable", 0, "", archive.error().message));
    }
    format_ = reader->name;
    findings_.emplace(std::move(findings));
    opened_ = true;
    if (!archive) return {};
    format_ = archive->description().format;
    archive_.emplace(std::move(*archive));
    if (findings_->has_errors()) return {};
    check_.emplace(*archive_, *findings_);
    if (level_ == VerifyLevel::kContent) plan_ = check_->scanning_plan();
    for (const TensorInfo& tensor : archive_->tensors()) total += tensor.byte_size;
    return {};
  }

  bool reads(size_t index) const { return level_ == VerifyLevel::kContent || archive_->extent(index).crc32; }

  // As many tensors as a step should read, of which all bytes are asked for together.
  Status check_some() {
    constexpr uint64_t kPerStep = uint64_t{16} << 20;
    size_t end = next_;
    bool all = true;
    for (uint64_t sum = 0; end < archive_->tensors().size() && sum < kPerStep; ++end) {
      if (!reads(end)) continue;
      sum += archive_->extent(end).length;
      BALLAST_TRY(const bool there, session_.has_stored(*archive_, end));
      all = all && there;
    }
    if (!all) return {};
    for (; next_ < end; ++next_) {
      if (reads(next_)) BALLAST_CHECK(check_one());
      done += archive_->tensors()[next_].byte_size;
    }
    return {};
  }

  Status check_one() {
    if (level_ == VerifyLevel::kStructure) return check_->check_crc(next_);
    WritePlan one;
    one.add_tensor(plan_.description.tensors[next_], plan_.providers[next_]);
    BALLAST_TRY(const auto digests, digest_plan(one));
    digests_.push_back(digests.front());
    return {};
  }

  void write(JsonWriter& json) const {
    const VerifyReport report = make_verify_report(format_, *findings_);
    json.key("result").begin_object().key("format").string(report.format).key("sound").boolean(report.sound());
    json.key("findings").begin_array();
    for (const Finding& finding : report.findings) {
      json.begin_object().key("level").string(severity_name(finding.severity)).key("code").string(finding.code);
      json.key("offset").number(finding.offset).key("where").string(finding.tensor);
      json.key("text").string(finding.message).end_object();
    }
    json.end_array().end_object();
  }

  Session& session_;
  const OpenRequest& request_;
  VerifyLevel level_;
  bool opened_ = false;
  std::string format_;
  std::optional<Findings> findings_;
  std::optional<Archive> archive_;
  std::optional<ArchiveCheck> check_;
  WritePlan plan_;
  std::vector<TensorDigest> digests_;
  size_t next_ = 0;
};

// ---------------------------------------------------------------- comparing

// Two tensors as two archives of one: names do not matter.
class CompareWork final : public Work {
 public:
  CompareWork(Session& session, ChosenTensor a, ChosenTensor b, double rtol, double atol)
      : session_(session), a_(a), b_(b) {
    options_.rtol = rtol;
    options_.atol = atol;
    total = a.info().byte_size + b.info().byte_size;
  }

  Result<bool> step(Answer& answer) override {
    // Nothing is read of tensors that can be neither compared nor transposed.
    if (a_.info().shape == b_.info().shape || a_.info().byte_size == b_.info().byte_size) {
      BALLAST_TRY(const bool has_a, session_.has_stored(*a_.archive, a_.index));
      BALLAST_TRY(const bool has_b, session_.has_stored(*b_.archive, b_.index));
      if (!has_a || !has_b) return false;
    }
    const Archive a = alone(*a_.archive, a_.index, a_.info().name);
    const Archive b = alone(*b_.archive, b_.index, a_.info().name);
    BALLAST_TRY(const DiffReport report, diff_namesakes(a, b, options_));
    done = total;
    write(answer.json, report.entries.front());
    return true;
  }

 private:
  static void write(JsonWriter& json, const DiffEntry& entry) {
    const std::string_view kind = entry.kind == DiffKind::kSame         ? "same"
                                  : entry.kind == DiffKind::kTransposed ? "transposed"
                                                                        : "changed";
    json.key("result").begin_object().key("kind").string(kind).key("note").string(entry.note);
    if (entry.change.comparable) {
      json.key("change").begin_object().key("elements").number(entry.change.elements);
      json.key("differing").number(entry.change.differing).key("maxAbs").real(entry.change.max_abs);
      json.key("maxRel").real(entry.change.max_rel).key("maxUlp").real(static_cast<double>(entry.change.max_ulp));
      json.key("withinTolerance").boolean(entry.change.within_tolerance).end_object();
    }
    json.end_object();
  }

  Session& session_;
  ChosenTensor a_;
  ChosenTensor b_;
  DiffOptions options_;
};

}  // namespace

Result<std::unique_ptr<Work>> start_stats(Session& session, const JsonObject& request) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  BALLAST_TRY(const uint64_t bins, request.count_or("bins", 24));
  if (bins < 1 || bins > 4096) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} bins: a histogram has from 1 to 4096", bins));
  }
  if (!is_arithmetic(chosen.info().dtype)) {
    return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\" is {}, a type without statistics",
                                                           chosen.info().name, chosen.info().type_name()));
  }
  return std::unique_ptr<Work>(std::make_unique<StatsWork>(session, chosen, static_cast<size_t>(bins)));
}

Result<std::unique_ptr<Work>> start_digest(Session& session, const JsonObject& request) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  return std::unique_ptr<Work>(std::make_unique<DigestWork>(session, chosen));
}

Result<std::unique_ptr<Work>> start_verify(Session& session, const JsonObject& request) {
  BALLAST_TRY(const uint64_t id, request.count("archive"));
  BALLAST_TRY(const OpenedArchive* opened, session.archive(id));
  BALLAST_TRY(const std::string level, request.text_or("level", "structure"));
  return std::unique_ptr<Work>(std::make_unique<VerifyWork>(
      session, opened->request, level == "content" ? VerifyLevel::kContent : VerifyLevel::kStructure));
}

Result<std::unique_ptr<Work>> start_compare(Session& session, const JsonObject& request) {
  BALLAST_TRY(const ChosenTensor a, choose_tensor(session, request, "archive", "tensor"));
  BALLAST_TRY(const ChosenTensor b, choose_tensor(session, request, "otherArchive", "otherTensor"));
  BALLAST_TRY(const double rtol, request.number_or("rtol", 0));
  BALLAST_TRY(const double atol, request.number_or("atol", 0));
  return std::unique_ptr<Work>(std::make_unique<CompareWork>(session, a, b, rtol, atol));
}

}  // namespace ballast::wasm
