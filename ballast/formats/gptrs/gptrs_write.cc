// Writing GPTRSCHK and GPTRSTEN, version 2.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "ballast/base/checked.h"
#include "ballast/base/json.h"
#include "ballast/base/param_id.h"
#include "ballast/base/utf8.h"
#include "ballast/formats/gptrs/gptrs_index.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

std::optional<Loss> find_name_loss(const GptrsKind& kind, const TensorInfo& tensor) {
  if (kind.is_checkpoint && !is_ascii(tensor.name)) {
    return Loss{.tensor = tensor.name,
                .what = "names in a gptrs-checkpoint are ASCII; rename or exclude the tensor",
                .remedies = Remedy::kRenameTensors};
  }
  if (!is_valid_utf8(tensor.name)) {
    return Loss{.tensor = tensor.name,
                .what = "names in gptrs-tensors are UTF-8; rename or exclude the tensor",
                .remedies = Remedy::kRenameTensors};
  }
  return std::nullopt;
}

std::optional<Loss> find_dtype_loss(const GptrsKind& kind, const TensorInfo& tensor, bool allow_half) {
  if (is_half(tensor.dtype) && !allow_half) {
    return Loss{.tensor = tensor.name,
                .what = fmt::format("gpt.rs refuses to read {}; the values would become f32", dtype_name(tensor.dtype)),
                .cast_to = DType::kF32,
                .remedies = Remedy::kAllowHalf};
  }
  if (gptrs_dtype_tag(tensor.dtype)) return std::nullopt;
  return unsupported_dtype_loss(tensor, kind.format,
                                [](DType dtype) { return gptrs_dtype_tag(dtype) && !is_half(dtype); });
}

// ---------------------------------------------------------------- the layout

struct Record {
  std::string_view name;
  Id128 id;
  std::span<const uint64_t> dims;
  uint32_t dtype_tag;
  bool requires_grad;
  uint64_t byte_size;
};

// gpt.rs dies on a tensor without dimensions, so a scalar is stored as a vector of one.
constexpr std::array<uint64_t, 1> kScalarDims = {1};

Record make_record(const GptrsKind& kind, const TensorInfo& tensor, bool keep_form) {
  Record record;
  record.name = tensor.name;
  const bool zero_id = keep_form && form_without_tie(tensor.stored_form()) == kGptrsZeroIdForm;
  if (kind.is_checkpoint && !zero_id) record.id = base_param_id(tensor.name);
  record.dims = tensor.shape.rank() == 0 ? std::span<const uint64_t>(kScalarDims) : tensor.shape.dims();
  record.dtype_tag = *gptrs_dtype_tag(tensor.dtype);
  record.requires_grad = tensor.requires_grad.value_or(false);
  record.byte_size = tensor.byte_size;
  return record;
}

void append_record(std::string& index, const GptrsKind& kind, const Record& record, uint64_t offset) {
  append_le<uint32_t>(index, static_cast<uint32_t>(record.name.size()));
  index += record.name;
  if (kind.is_checkpoint) index += as_text(record.id.bytes);
  append_le<uint32_t>(index, static_cast<uint32_t>(record.dims.size()));
  for (const uint64_t dim : record.dims) append_le<uint64_t>(index, dim);
  append_le<uint32_t>(index, record.dtype_tag);
  append_le<uint8_t>(index, record.requires_grad ? 1 : 0);
  append_le<uint64_t>(index, offset);
  append_le<uint64_t>(index, record.byte_size);
}

std::vector<size_t> payload_order(const WriteRequest& request) {
  const auto& tensors = request.description.tensors;
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!request.options.keep_order) {
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return tensors[a].name < tensors[b].name; });
  }
  return order;
}

// A payload that is written: of which tensor, and how many zeros stand in front of it.
struct PlacedPayload {
  size_t tensor;
  uint64_t padding;
};

class GptrsWrite final : public PlannedWrite {
 public:
  GptrsWrite(std::string header, std::vector<PlacedPayload> payloads, PlacedPayload last, ByteVector last_payload,
             uint64_t size)
      : header_(std::move(header)),
        payloads_(std::move(payloads)),
        last_(last),
        last_payload_(std::move(last_payload)),
        files_{{"", size}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }

  Status emit(size_t, ByteSink& sink, TensorFeed& feed) const override {
    BALLAST_CHECK(sink.write_text(header_));
    for (const PlacedPayload& payload : payloads_) {
      BALLAST_CHECK(pad(sink, payload.padding));
      BALLAST_CHECK(feed.emit(payload.tensor, {}, sink));
    }
    BALLAST_CHECK(pad(sink, last_.padding));
    return sink.write(last_payload_);
  }

 private:
  static Status pad(ByteSink& sink, uint64_t bytes) {
    constexpr std::array<std::byte, kGptrsAlignment> kZeros = {};
    return sink.write(ByteSpan(kZeros).first(static_cast<size_t>(bytes)));
  }

  std::string header_;  // everything in front of the payloads
  std::vector<PlacedPayload> payloads_;
  PlacedPayload last_;  // in front of last_payload_
  ByteVector last_payload_;
  std::vector<PlannedFile> files_;
};

Error too_large(std::string_view what) {
  return make_error(ErrorCode::kUnsupported, fmt::format("{} exceeds what the format's numbers can hold", what));
}

// The index's length, its leading count included.
Result<uint32_t> index_length(const GptrsKind& kind, std::span<const Record> records) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  uint64_t length = sizeof(uint32_t);
  for (const Record& record : records) {
    length += gptrs_record_size(kind, record.name.size(), record.dims.size());
    if (length > kMost) return too_large("the index");
  }
  return static_cast<uint32_t>(length);
}

}  // namespace

bool writes_aligned(const GptrsKind& kind, const Description& description, const WriteOptions& options) {
  return options.keep_form && description.format == kind.format && description.stored_form.ends_with(kGptrsAlignedForm);
}

std::vector<Loss> find_gptrs_losses(const GptrsKind& kind, const Description& description,
                                    const WriteOptions& options) {
  std::vector<Loss> losses;
  // Whoever reads aligned payloads reads half types too.
  const bool allow_half = options.allow_half || writes_aligned(kind, description, options);
  for (const TensorInfo& tensor : description.tensors) {
    if (auto loss = find_name_loss(kind, tensor)) losses.push_back(std::move(*loss));
    if (auto loss = find_dtype_loss(kind, tensor, allow_half)) losses.push_back(std::move(*loss));
  }
  return losses;
}

Status refuse_gptrs_losses(const std::vector<Loss>& losses) {
  if (losses.empty()) return {};
  return make_error(ErrorCode::kLossy, fmt::format("tensor \"{}\": {}", losses[0].tensor, losses[0].what),
                    losses[0].remedies);
}

Result<std::unique_ptr<PlannedWrite>> plan_gptrs_write(const GptrsKind& kind, const WriteRequest& request,
                                                       std::string head, GptrsExtraTensor extra) {
  const bool keep_form = request.options.keep_form && request.description.format == kind.format;
  const std::vector<size_t> order = payload_order(request);
  std::vector<Record> records;
  records.reserve(order.size() + 1);
  for (const size_t i : order) records.push_back(make_record(kind, request.description.tensors[i], keep_form));
  const std::array<uint64_t, 1> extra_dims = {extra.words.size() / sizeof(uint32_t)};
  if (!extra.words.empty()) {
    records.push_back({extra.name, {}, extra_dims, *gptrs_dtype_tag(DType::kI32), false, extra.words.size()});
  }
  BALLAST_TRY(const uint32_t length, index_length(kind, records));

  std::string header = std::move(head);
  header.reserve(header.size() + sizeof length + length);
  uint64_t offset = header.size() + sizeof length + length;
  append_le<uint32_t>(header, length);
  append_le<uint32_t>(header, static_cast<uint32_t>(records.size()));
  const bool aligned = writes_aligned(kind, request.description, request.options);
  std::vector<std::optional<uint64_t>> placed(request.ties.size());  // by owner of the payload
  std::vector<PlacedPayload> drawn;
  drawn.reserve(order.size());
  PlacedPayload last{};
  for (size_t i = 0; i < records.size(); ++i) {
    const bool can_share = i < order.size() && !request.ties.empty();
    if (can_share && placed[request.ties[order[i]]]) {
      append_record(header, kind, records[i], *placed[request.ties[order[i]]]);
      continue;
    }
    const uint64_t padding = aligned ? (kGptrsAlignment - offset % kGptrsAlignment) % kGptrsAlignment : 0;
    const auto begin = checked_add(offset, padding);
    if (!begin) return too_large("the file");
    offset = *begin;
    if (can_share) placed[request.ties[order[i]]] = offset;
    if (i < order.size()) drawn.push_back({order[i], padding});
    else last = {i, padding};
    append_record(header, kind, records[i], offset);
    const auto end = checked_add(offset, records[i].byte_size);
    if (!end) return too_large("the file");
    offset = *end;
  }
  return std::unique_ptr<PlannedWrite>(
      std::make_unique<GptrsWrite>(std::move(header), std::move(drawn), last, std::move(extra.words), offset));
}

}  // namespace ballast
