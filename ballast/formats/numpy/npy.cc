#include "ballast/formats/numpy/npy.h"

#include <fmt/format.h>

#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

constexpr std::string_view kOnlyName = "arr_0";  // what numpy.savez calls an array without a name

SniffMatch sniff_npy(const SniffInput& input) {
  return as_text(input.head).starts_with(kNpyMagic) ? SniffMatch::kCertain : SniffMatch::kNo;
}

Result<Archive> open_npy(const OpenRequest& request, Findings& findings) {
  const ByteSource& source = *request.source;
  const auto read_prefix = [&](uint64_t length) { return BytesOrView::of(source, 0, length); };
  auto header = read_npy_header(read_prefix, source.size(), kMaxNpyHeader, source.name());
  if (!header) {
    Error error = std::move(header).error();
    // There is nothing in the file besides this array, so nothing can be opened without it.
    BALLAST_CHECK(findings.error(error.code == ErrorCode::kUnsupported ? "unsupported" : "npy_header", 0, "",
                                 error.message, error.code));
    return error;
  }
  TensorInfo tensor = npy_tensor(std::string(kOnlyName), *header);
  if (!header->is_canonical) tensor.set_stored_form(header->spelling);
  Description description;
  description.format = kNpyReader.name;
  description.version = header->version;
  description.tensors.push_back(std::move(tensor));
  const StoredExtent extent{.offset = header->length,
                            .length = header->payload_size,
                            .big_endian = header->type.big_endian,
                            .fortran_order = header->fortran_order};
  return Archive(std::move(description), {extent}, {request.source});
}

void add_loss(std::vector<Loss>& losses, const std::string& tensor, std::string what) {
  losses.push_back({.tensor = tensor, .what = std::move(what), .acceptable = true});
}

std::vector<Loss> find_npy_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  if (description.tensors.size() != 1) {
    losses.push_back({.tensor = "",
                      .what = fmt::format("npy holds exactly one array, and there are {} tensors; write npz, or choose "
                                          "one",
                                          description.tensors.size()),
                      .remedies = Remedy::kSelectTensors});
    return losses;
  }
  const TensorInfo& tensor = description.tensors.front();
  if (tensor.name != kOnlyName) add_loss(losses, tensor.name, "npy stores no name; readers will see arr_0");
  if (tensor.param_id) add_loss(losses, tensor.name, "npy stores no parameter id");
  if (tensor.requires_grad.value_or(false)) add_loss(losses, tensor.name, "npy does not store requires_grad");
  if (!description.metadata.empty()) add_loss(losses, "", "npy stores no metadata");
  if (description.config) add_loss(losses, "", "npy stores no model config");
  find_npy_type_losses(description, kNpyReader.name, losses);
  return losses;
}

class NpyWrite final : public PlannedWrite {
 public:
  NpyWrite(NpyLayout layout, uint64_t payload_size)
      : layout_(std::move(layout)), files_{{"", layout_.header.size() + payload_size}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }
  Status emit(size_t, ByteSink& sink, TensorFeed& feed) const override {
    BALLAST_CHECK(sink.write_text(layout_.header));
    return feed.emit(0, layout_.form, sink);
  }

 private:
  NpyLayout layout_;
  std::vector<PlannedFile> files_;
};

Result<std::unique_ptr<PlannedWrite>> plan_npy(const WriteRequest& request) {
  const auto& tensors = request.description.tensors;
  if (tensors.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("npy holds exactly one array, and there are {} tensors", tensors.size()));
  }
  const bool keep_form = request.options.keep_form && request.description.format == kNpyReader.name;
  BALLAST_TRY(NpyLayout layout, npy_layout(tensors.front(), keep_form ? tensors.front().stored_form() : std::string()));
  return std::unique_ptr<PlannedWrite>(std::make_unique<NpyWrite>(std::move(layout), tensors.front().byte_size));
}

constexpr std::string_view kNpyExtensions[] = {".npy"};

}  // namespace

constexpr FormatReader kNpyReader = {
    .name = "npy",
    .summary = "One NumPy array (numpy.save)",
    .extensions = kNpyExtensions,
    .sniff = sniff_npy,
    .open = open_npy,
};

constexpr FormatWriter kNpyWriter = {
    .find_losses = find_npy_losses,
    .plan_write = plan_npy,
    .stores_origin = false,
};

const FormatDriver kNpyDriver = {kNpyReader, kNpyWriter};

}  // namespace ballast
