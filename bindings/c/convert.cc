#include "ballast/exchange/write_model.h"
#include "bindings/c/output_format.h"
#include "bindings/c/reports.h"

namespace ballast::c {

namespace {

Result<std::optional<DType>> given_dtype(const char* name) {
  if (name == nullptr) return std::optional<DType>();
  const auto dtype = parse_dtype(name);
  if (!dtype) return make_error(ErrorCode::kInvalidArgument, std::string(name) + " is no element type");
  return dtype;
}

Result<ConvertOptions> given_convert(const ballast_convert_options& given) {
  BALLAST_TRY(ConvertOptions options, written_as(given));
  BALLAST_TRY(options.only, given_texts(given.only, given.only_count, "a pattern"));
  BALLAST_TRY(options.exclude, given_texts(given.exclude, given.exclude_count, "a pattern"));
  options.dry_run = given.dry_run;
  return options;
}

Result<ConvertModelOptions> convert_model_options(const ballast_convert_options* options) {
  BALLAST_TRY(const ballast_convert_options given, given_options(options));
  ConvertModelOptions made;
  made.format = text_or_empty(given.format);
  BALLAST_TRY(made.dequantize, given_dtype(given.dequantize));
  BALLAST_TRY(made.dtype, given_dtype(given.dtype));
  made.quantize = text_or_empty(given.quantize);
  made.container_only = given.container_only;
  BALLAST_TRY(made.convert, given_convert(given));
  return made;
}

// {NULL, 0} behind the end.
ballast_text text_at(const std::vector<std::string>& texts, size_t index) {
  return index < texts.size() ? to_text(texts[index]) : ballast_text{nullptr, 0};
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_convert(const char* source, const char* destination, const ballast_convert_options* options,
                               ballast_conversion** out) {
  return call([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    BALLAST_CHECK(need(source, "the source"));
    BALLAST_CHECK(need(destination, "the destination"));
    BALLAST_TRY(const ConvertModelOptions given, convert_model_options(options));
    BALLAST_TRY(ConvertReport report, convert_model(source, destination, given));
    for (const std::string& note : report.notes) log(BALLAST_LOG_INFO, note);
    if (out != nullptr) *out = hand_out<ballast_conversion>(std::make_shared<ConvertReport>(std::move(report)));
    return {};
  });
}
uint64_t ballast_conversion_tensors(const ballast_conversion* conversion) {
  return ask(conversion, uint64_t{0}, [](const ConvertReport& report) { return uint64_t{report.tensors}; });
}
uint64_t ballast_conversion_payload_bytes(const ballast_conversion* conversion) {
  return ask(conversion, uint64_t{0}, [](const ConvertReport& report) { return report.payload_bytes; });
}
ballast_text ballast_conversion_file(const ballast_conversion* conversion, size_t index) {
  return ask(conversion, ballast_text{nullptr, 0},
             [&](const ConvertReport& report) { return text_at(report.written.files, index); });
}
ballast_text ballast_conversion_note(const ballast_conversion* conversion, size_t index) {
  return ask(conversion, ballast_text{nullptr, 0},
             [&](const ConvertReport& report) { return text_at(report.notes, index); });
}
ballast_text ballast_conversion_loss(const ballast_conversion* conversion, size_t index) {
  return ask(conversion, ballast_text{nullptr, 0}, [&](const ConvertReport& report) {
    return index < report.losses.size() ? to_text(report.losses[index].what) : ballast_text{nullptr, 0};
  });
}
void ballast_conversion_close(ballast_conversion* conversion) { drop(conversion); }

}  // extern "C"
