#include "ballast/archive/doctor.h"

#include "bindings/c/output_format.h"
#include "bindings/c/reports.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_diagnosis> {
  using Object = Diagnosis;
  static constexpr HandleKind kKind = HandleKind::kDiagnosis;
  static constexpr const char* kName = "diagnosis";
};

namespace {

// The order of both is their own: the C numbers are fixed for ever.
ballast_verdict verdict_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSound: return BALLAST_VERDICT_SOUND;
    case Verdict::kFlawed: return BALLAST_VERDICT_FLAWED;
    case Verdict::kDamaged: return BALLAST_VERDICT_DAMAGED;
    case Verdict::kUnreadable: return BALLAST_VERDICT_UNREADABLE;
    case Verdict::kUnsupported: return BALLAST_VERDICT_UNSUPPORTED;
    case Verdict::kForeign: return BALLAST_VERDICT_FOREIGN;
    case Verdict::kUnknown: break;
  }
  return BALLAST_VERDICT_UNKNOWN;
}

ballast_diagnosis_info info_of(const Diagnosis& diagnosis) {
  ballast_diagnosis_info info = {};
  info.verdict = verdict_of(diagnosis.verdict);
  info.verdict_name = verdict_name(diagnosis.verdict).data();  // a literal, which ends with a NUL
  info.format = to_text(diagnosis.format);
  info.content = diagnosis.foreign ? to_text(diagnosis.foreign->kind) : ballast_text{"", 0};
  info.what = to_text(diagnosis.what);
  info.cause = to_text(diagnosis.cause);
  info.advice = to_text(diagnosis.advice);
  info.size = diagnosis.size;
  info.has_offset = diagnosis.offset.has_value();
  info.offset = diagnosis.offset.value_or(0);
  info.sound_tensors = diagnosis.sound_tensors;
  info.sound_bytes = diagnosis.sound_bytes;
  info.lost_tensors = diagnosis.lost.size();
  info.complete = diagnosis.is_complete();
  return info;
}

ballast_lost_tensor lost_of(const LostTensor& tensor) {
  ballast_lost_tensor lost = {};
  lost.name = to_text(tensor.name);
  lost.code = to_text(tensor.code);
  lost.why = to_text(tensor.why);
  return lost;
}

void hand_out_diagnosis(Diagnosis diagnosis, ballast_diagnosis** out) {
  *out = hand_out<ballast_diagnosis>(std::make_shared<Diagnosis>(std::move(diagnosis)));
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_doctor(const char* path, const ballast_work_options* options, ballast_diagnosis** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const DoctorOptions doctor, work_options<DoctorOptions>(options));
    BALLAST_TRY(Diagnosis diagnosis, diagnose(std::string(path), doctor));
    hand_out_diagnosis(std::move(diagnosis), out);
    return {};
  });
}
ballast_error* ballast_diagnosis_get(const ballast_diagnosis* diagnosis, ballast_diagnosis_info* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(diagnosis));
    return give(info_of(*object), out);
  });
}
ballast_error* ballast_diagnosis_lost(const ballast_diagnosis* diagnosis, size_t index, ballast_lost_tensor* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(diagnosis));
    BALLAST_TRY(const LostTensor* lost, item_at(object->lost, index));
    return give(lost_of(*lost), out);
  });
}
ballast_error* ballast_diagnosis_findings(const ballast_diagnosis* diagnosis, ballast_findings** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(diagnosis));
    *out = hand_out<ballast_findings>(std::make_shared<VerifyReport>(VerifyReport{object->format, object->findings}));
    return {};
  });
}
void ballast_diagnosis_close(ballast_diagnosis* diagnosis) { drop(diagnosis); }

ballast_error* ballast_rescue(const char* path, const char* destination, const ballast_write_options* options,
                              ballast_diagnosis** diagnosis, ballast_conversion** out) {
  return call([&]() -> Status {
    if (diagnosis != nullptr) *diagnosis = nullptr;
    if (out != nullptr) *out = nullptr;
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_CHECK(need(destination, "the destination"));
    BALLAST_TRY(const ballast_write_options given, given_options(options));
    BALLAST_TRY(const FormatDriver* format, choose_format(text_or_empty(given.format), destination));
    BALLAST_TRY(const ConvertOptions convert, written_as(given));
    BALLAST_TRY(RescueReport report, rescue(std::string(path), destination, *format, convert));
    for (const std::string& note : report.written.notes) log(BALLAST_LOG_INFO, note);
    if (diagnosis != nullptr) hand_out_diagnosis(std::move(report.diagnosis), diagnosis);
    if (out != nullptr) *out = hand_out<ballast_conversion>(std::make_shared<ConvertReport>(std::move(report.written)));
    return {};
  });
}

}  // extern "C"
