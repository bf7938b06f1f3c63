#include "ballast/formats/gguf/gguf.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

struct GgufType {
  uint32_t number;
  DType dtype;
};
// 4, 5, 31 to 33 and 36 to 38 were types once.
constexpr std::array kGgufTypes = {
    GgufType{0, DType::kF32},    GgufType{1, DType::kF16},     GgufType{2, DType::kQ4_0},
    GgufType{3, DType::kQ4_1},   GgufType{6, DType::kQ5_0},    GgufType{7, DType::kQ5_1},
    GgufType{8, DType::kQ8_0},   GgufType{9, DType::kQ8_1},    GgufType{10, DType::kQ2K},
    GgufType{11, DType::kQ3K},   GgufType{12, DType::kQ4K},    GgufType{13, DType::kQ5K},
    GgufType{14, DType::kQ6K},   GgufType{15, DType::kQ8K},    GgufType{16, DType::kIQ2XXS},
    GgufType{17, DType::kIQ2XS}, GgufType{18, DType::kIQ3XXS}, GgufType{19, DType::kIQ1S},
    GgufType{20, DType::kIQ4NL}, GgufType{21, DType::kIQ3S},   GgufType{22, DType::kIQ2S},
    GgufType{23, DType::kIQ4XS}, GgufType{24, DType::kI8},     GgufType{25, DType::kI16},
    GgufType{26, DType::kI32},   GgufType{27, DType::kI64},    GgufType{28, DType::kF64},
    GgufType{29, DType::kIQ1M},  GgufType{30, DType::kBF16},   GgufType{34, DType::kTQ1_0},
    GgufType{35, DType::kTQ2_0}, GgufType{39, DType::kMXFP4},  GgufType{40, DType::kNVFP4},
    GgufType{41, DType::kQ1_0},  GgufType{42, DType::kQ2_0},
};

constexpr std::array<std::string_view, 1> kGgufExtensions = {".gguf"};
constexpr std::array<std::string_view, 1> kGgufTargets = {"v3"};

SniffMatch sniff_gguf(const SniffInput& input) {
  return as_text(input.head).starts_with(kGgufMagic) ? SniffMatch::kCertain : SniffMatch::kNo;
}

Result<Archive> open_gguf(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(GgufFile file, parse_gguf(*request.source, findings));
  BALLAST_TRY(const GgufSplit split, find_gguf_split(file.description, request.source->name()));
  if (split.count > 1) return open_gguf_split(request, std::move(file), split, findings);
  file.description.stored_form = file.form.to_text();
  return Archive(std::move(file.description), std::move(file.extents), {request.source});
}

}  // namespace

std::optional<DType> gguf_dtype(uint32_t type) {
  const auto found = std::ranges::find(kGgufTypes, type, &GgufType::number);
  if (found == kGgufTypes.end()) return std::nullopt;
  return found->dtype;
}

std::optional<uint32_t> gguf_type(DType dtype) {
  const auto found = std::ranges::find(kGgufTypes, dtype, &GgufType::dtype);
  if (found == kGgufTypes.end()) return std::nullopt;
  return found->number;
}

bool is_gguf_alignment(uint64_t alignment) {
  return alignment != 0 && (alignment % 8 == 0 || std::has_single_bit(alignment));
}

const FormatDriver kGgufDriver = {
    .name = "gguf",
    .summary = "GGUF of llama.cpp and ggml: one file, or parts",
    .extensions = kGgufExtensions,
    .sniff = sniff_gguf,
    .open = open_gguf,
    .find_losses = find_gguf_losses,
    .plan_write = plan_gguf_write,
    .targets = kGgufTargets,
    .can_shard = true,
};

}  // namespace ballast
