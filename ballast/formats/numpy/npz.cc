#include "ballast/formats/numpy/npz.h"

#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

constexpr std::string_view kTargetAligned = "aligned";
constexpr std::string_view kTargetNumpy = "numpy";

SniffMatch sniff_npz(const SniffInput& input) {
  if (!looks_like_zip(input.head)) return SniffMatch::kNo;
  bool any = false;
  bool any_array = false;
  const bool listed = for_each_zip_name(*input.source, [&](std::string_view name) {
    any = true;
    any_array = name.ends_with(kNpyEnding);
    return !any_array;
  });
  if (!listed) any_array = first_zip_name(input.head).ends_with(kNpyEnding);
  // numpy.savez without arrays writes an empty zip file.
  const bool empty = listed && !any;
  return any_array || empty ? SniffMatch::kCertain : SniffMatch::kLikely;
}

Result<Archive> open_npz(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(NpzContents contents, read_npz(request.source, findings));
  Description description;
  description.format = kNpzReader.name;
  description.version = std::move(contents.npy_version);
  description.stored_form = contents.form.to_text();
  if (contents.form.numpy) description.producer = "NumPy";
  description.origin = std::move(contents.origin);
  description.tensors = std::move(contents.tensors);
  return Archive(std::move(description), std::move(contents.extents), {request.source});
}

std::vector<Loss> find_all_npz_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  find_npz_losses(description, kNpzReader.name, losses);
  return losses;
}

Result<NpzForm> choose_form(const Description& description, const WriteOptions& options, bool keep_forms) {
  if (options.target == kTargetAligned && options.compress) {
    return make_error(ErrorCode::kInvalidArgument,
                      "compressed arrays cannot be mapped, so aligning them is pointless: choose compression or the "
                      "target aligned, not both");
  }
  if (options.target == kTargetNumpy) return NpzForm{.numpy = true, .compressed = options.compress};
  if (options.target == kTargetAligned) return NpzForm{};
  NpzForm form = keep_forms ? NpzForm::from_text(description.stored_form) : NpzForm{};
  if (options.compress) form.numpy = form.compressed = true;
  return form;
}

Result<std::unique_ptr<PlannedWrite>> plan_npz(const WriteRequest& request) {
  const Description& description = request.description;
  const bool keep_forms = request.options.keep_form && description.format == kNpzReader.name;
  BALLAST_TRY(const NpzForm form, choose_form(description, request.options, keep_forms));
  std::vector<NpzExtraMember> extras;
  if (description.origin) extras.push_back(npz_text_member(kOriginKey, *description.origin));
  BALLAST_TRY(NpzLayout layout, NpzLayout::plan(description.tensors, form, keep_forms, std::move(extras)));
  return make_npz_write(std::move(layout));
}

constexpr std::string_view kNpzExtensions[] = {".npz"};
constexpr std::string_view kTargets[] = {kTargetAligned, kTargetNumpy};

}  // namespace

constexpr FormatReader kNpzReader = {
    .name = "npz",
    .summary = "NumPy arrays in a zip file (numpy.savez)",
    .extensions = kNpzExtensions,
    .sniff = sniff_npz,
    .open = open_npz,
};

constexpr FormatWriter kNpzWriter = {
    .find_losses = find_all_npz_losses,
    .plan_write = plan_npz,
    .targets = kTargets,
    .can_compress = true,
};

const FormatDriver kNpzDriver = {kNpzReader, kNpzWriter};

}  // namespace ballast
