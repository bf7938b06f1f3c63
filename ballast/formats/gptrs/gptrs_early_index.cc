#include "ballast/formats/gptrs/gptrs_early_index.h"

#include <fmt/format.h>

#include "ballast/base/checked.h"
#include "ballast/base/param_id.h"
#include "ballast/formats/gptrs/gptrs_fields.h"

namespace ballast {

namespace {

constexpr uint64_t kProbeWindow = 4 * 1024;  // bytes to read ahead

class EarlyIndexProbe {
 public:
  EarlyIndexProbe(const ByteSource& source, const GptrsKind& kind, uint64_t begin, uint64_t end)
      : fields_(source, begin, end, kProbeWindow), kind_(kind), file_size_(source.size()) {}

  bool matches() {
    const auto first = entry_is_sound();
    return first && *first;
  }

 private:
  Result<bool> entry_is_sound() {
    BALLAST_TRY(const uint64_t count, fields_.take_le<uint64_t>("the count"));
    if (count == 0 || count >> 32 != 0) return false;
    BALLAST_TRY(const uint64_t name_length, fields_.take_le<uint64_t>("a length"));
    BALLAST_TRY([[maybe_unused]] const ByteSpan name, fields_.take(name_length, "a name"));
    const uint64_t id_size = kind_.is_checkpoint ? sizeof(Id128) : 0;
    BALLAST_TRY([[maybe_unused]] const ByteSpan id, fields_.take(id_size, "an id"));
    BALLAST_TRY(const uint64_t rank, fields_.take_le<uint64_t>("a rank"));
    if (rank > fields_.remaining() / sizeof(uint64_t)) return false;
    BALLAST_TRY(const ByteSpan dims, fields_.take(rank * sizeof(uint64_t), "a shape"));
    const Shape shape = load_gptrs_shape(dims);
    BALLAST_TRY(const uint32_t tag, fields_.take_le<uint32_t>("a dtype"));
    BALLAST_TRY([[maybe_unused]] const uint8_t flag, fields_.take_le<uint8_t>("a flag"));
    BALLAST_TRY(const uint64_t offset, fields_.take_le<uint64_t>("an offset"));
    BALLAST_TRY(const uint64_t length, fields_.take_le<uint64_t>("a length"));
    const auto dtype = gptrs_dtype(tag);
    return dtype && packed_size(shape, *dtype) == length && range_fits(offset, length, file_size_);
  }

  GptrsFields fields_;
  const GptrsKind& kind_;
  uint64_t file_size_;
};

}  // namespace

Status refuse_early_gptrs_index(const ByteSource& source, const GptrsKind& kind, uint64_t begin, uint64_t end) {
  if (end - begin < 2 * sizeof(uint32_t)) return {};
  BALLAST_TRY(const uint32_t first_name_length, read_gptrs_u32(source, begin + sizeof(uint32_t), "the index"));
  if (first_name_length != 0 || !EarlyIndexProbe(source, kind, begin, end).matches()) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: its index has the layout of one day's builds of gpt.rs (27 December 2025), which "
                                "is not supported; write it again with a later gpt.rs",
                                source.name()));
}

}  // namespace ballast
