// GPTRSTEN: "GPTRSTEN" | u32 version | u32 length, index | payloads.
#include <algorithm>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gptrs/gptrs_index.h"

namespace ballast {

namespace {

// The format has no free metadata: the origin is an i32 vector of this name whose bytes are the text, padded with zero
// bytes to whole words. It stands behind all other tensors and never shows as one.
constexpr std::string_view kOriginTensor = "ballast.origin";
constexpr size_t kWord = 4;

SniffMatch sniff_gptrs_tensors(const SniffInput& input) { return sniff_gptrs(kGptrsTensors, input); }

// ---------------------------------------------------------------- reading

// The text in an origin tensor; nullopt where the tensor is somebody else's of the same name.
std::optional<std::string> decode_origin_words(ByteSpan words) {
  std::string_view text = as_text(words);
  const size_t end = text.find_last_not_of('\0');
  const size_t length = end == std::string_view::npos ? 0 : end + 1;
  if (length == 0 || text.size() - length >= kWord) return std::nullopt;
  text = text.substr(0, length);
  if (text.find('\0') != std::string_view::npos || !is_valid_utf8(text)) return std::nullopt;
  return std::string(text);
}

Status take_origin(const ByteSource& source, Description& description, std::vector<StoredExtent>& extents) {
  const auto found = std::ranges::find(description.tensors, kOriginTensor, &TensorInfo::name);
  if (found == description.tensors.end() || found->dtype != DType::kI32 || found->shape.rank() != 1) return {};
  const auto extent = extents.begin() + (found - description.tensors.begin());
  BALLAST_TRY(const BytesOrView words, BytesOrView::of(source, extent->offset, extent->length));
  description.origin = decode_origin_words(words.bytes());
  if (!description.origin) return {};
  extents.erase(extent);
  description.tensors.erase(found);
  return {};
}

Result<Archive> open_gptrs_tensors(const OpenRequest& request, Findings& findings) {
  const ByteSource& source = *request.source;
  BALLAST_TRY(const uint32_t version, read_gptrs_version(source, kGptrsTensors));
  BALLAST_TRY(GptrsContents contents, parse_gptrs_contents(source, kGptrsTensors, version, kGptrsHeadSize, findings));
  Description description;
  description.format = kGptrsTensors.format;
  description.version = std::to_string(version);
  description.tensors = std::move(contents.tensors);
  if (contents.is_aligned) description.stored_form = kGptrsAlignedForm;
  BALLAST_CHECK(take_origin(source, description, contents.extents));
  return Archive(std::move(description), std::move(contents.extents), {request.source});
}

// ---------------------------------------------------------------- writing

std::vector<Loss> find_gptrs_tensors_losses(const Description& description, const WriteOptions& options) {
  std::vector<Loss> losses = find_gptrs_losses(kGptrsTensors, description, options);
  for (const TensorInfo& tensor : description.tensors) {
    if (tensor.name != kOriginTensor) continue;
    losses.push_back({.tensor = tensor.name,
                      .what = "this library keeps the name for a value of its own; the tensor would be left out",
                      .drop = true});
  }
  return losses;
}

GptrsExtraTensor origin_tensor(const Description& description) {
  if (!description.origin) return {};
  const ByteSpan text = as_bytes(*description.origin);
  ByteVector words(text.begin(), text.end());
  words.resize((words.size() + kWord - 1) / kWord * kWord);
  return {kOriginTensor, std::move(words)};
}

Result<std::unique_ptr<PlannedWrite>> plan_gptrs_tensors(const WriteRequest& request) {
  BALLAST_CHECK(refuse_gptrs_losses(find_gptrs_tensors_losses(request.description, request.options)));
  std::string head(kGptrsTensors.magic);
  append_le<uint32_t>(head, kGptrsIndexed);
  return plan_gptrs_write(kGptrsTensors, request, std::move(head), origin_tensor(request.description));
}

constexpr std::string_view kGptrsTensorsExtensions[] = {".gptrsten", ".gten"};

}  // namespace

constexpr FormatReader kGptrsTensorsReader = {
    .name = kGptrsTensors.format,
    .summary = "gpt.rs tensor archive (GPTRSTEN): named tensors, such as inputs, logits and traces",
    .extensions = kGptrsTensorsExtensions,
    .sniff = sniff_gptrs_tensors,
    .open = open_gptrs_tensors,
};

constexpr FormatWriter kGptrsTensorsWriter = {
    .find_losses = find_gptrs_tensors_losses,
    .plan_write = plan_gptrs_tensors,
    .can_allow_half = true,
    .can_tie = true,
};

const FormatDriver kGptrsTensorsDriver = {kGptrsTensorsReader, kGptrsTensorsWriter};

}  // namespace ballast
