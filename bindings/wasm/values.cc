// Numbers, scales and bytes of parts of a tensor.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ballast/archive/slice.h"
#include "ballast/tensor/block_fields.h"
#include "ballast/tensor/elements.h"
#include "bindings/wasm/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kMostValues = uint64_t{1} << 26;

// Every number of these is one of f32.
bool fits_f32(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
    case DType::kI64:
    case DType::kI32:
    case DType::kU64:
    case DType::kU32: return false;
    default: return true;
  }
}

ByteVector as_numbers(DType dtype, ByteSpan in, uint64_t count, bool narrow) {
  constexpr uint64_t kAtATime = 4096;
  const size_t width = narrow ? sizeof(float) : sizeof(double);
  ByteVector out(static_cast<size_t>(count) * width);
  std::vector<double> some;
  for (uint64_t first = 0; first < count; first += kAtATime) {
    some.resize(static_cast<size_t>(std::min(kAtATime, count - first)));
    to_doubles(dtype, in, static_cast<size_t>(first), some);
    std::byte* to = out.data() + first * width;
    for (const double value : some) {
      if (narrow) store_le(to, std::bit_cast<uint32_t>(static_cast<float>(value)));
      else store_le(to, std::bit_cast<uint64_t>(value));
      to += width;
    }
  }
  return out;
}

// Which fields of a block its scales are.
struct ScaleFields {
  DType dtype;
  size_t scale;  // where the half is that multiplies
  size_t min;    // where the half is that is added (q4_1) or scales what is subtracted (q4_k); kNone: there is none
};
constexpr size_t kNone = SIZE_MAX;
constexpr ScaleFields kScaleFields[] = {
    {DType::kQ4_0, 0, kNone}, {DType::kQ4_1, 0, 2},      {DType::kQ5_0, 0, kNone},  {DType::kQ5_1, 0, 2},
    {DType::kQ8_0, 0, kNone}, {DType::kQ2K, 80, 82},     {DType::kQ3K, 108, kNone}, {DType::kQ4K, 0, 2},
    {DType::kQ5K, 0, 2},      {DType::kQ6K, 208, kNone},
};

}  // namespace

// "slice": "[0:4, ::2]". What lies between the runs that are read is not fetched.
Result<bool> values_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  BALLAST_TRY(const std::string text, request.text("slice"));
  BALLAST_TRY(const Slice slice, parse_slice(text));
  const TensorInfo& info = chosen.info();
  if (!is_arithmetic(info.dtype)) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("tensor \"{}\" is {}, a type without numbers: take its bytes", info.name, info.type_name()));
  }
  BALLAST_TRY(const Selection selection, select(info, slice));
  if (selection.elements > kMostValues) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": {} values are wanted at once, at most {} can be had: take a part",
                                  info.name, selection.elements, kMostValues));
  }
  if (chosen.archive->extent(chosen.index).is_canonical()) {
    session.missing().guesses = true;
  } else {
    BALLAST_TRY(const bool there, session.has_stored(*chosen.archive, chosen.index));
    if (!there) return false;
  }
  MemorySink sink;
  BALLAST_CHECK(stream_slice_values(*chosen.archive, chosen.index, selection, sink));
  if (!session.missing().empty()) return false;
  const DType dtype = is_block(info.dtype) ? DType::kF32 : info.dtype;
  const size_t components = component_count(dtype);
  const bool narrow = fits_f32(dtype);
  const ByteVector packed = sink.take();
  answer.bytes = as_numbers(dtype, packed, selection.elements * components, narrow);
  std::vector<uint64_t> shape(selection.shape.dims().begin(), selection.shape.dims().end());
  if (components == 2) shape.push_back(2);
  answer.json.key("shape").numbers(shape).key("narrow").boolean(narrow);
  return true;
}

// "begin" and "end": bytes of the canonical payload.
Result<bool> payload_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  BALLAST_TRY(const uint64_t begin, request.count("begin"));
  BALLAST_TRY(const uint64_t end, request.count("end"));
  const TensorInfo& info = chosen.info();
  if (begin > end || end > info.byte_size || end - begin > kMostAtOnce) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\" has {} bytes; [{}, {}) are no part of it "
                                                               "that can be had at once",
                                                               info.name, info.byte_size, begin, end));
  }
  const bool canonical = chosen.archive->extent(chosen.index).is_canonical();
  BALLAST_TRY(const bool there, canonical ? session.has_range(*chosen.archive, chosen.index, begin, end - begin)
                                          : session.has_stored(*chosen.archive, chosen.index));
  if (!there) return false;
  if (canonical) {
    answer.bytes.resize(static_cast<size_t>(end - begin));
    BALLAST_CHECK(chosen.archive->read_range(chosen.index, begin, answer.bytes));
    return true;
  }
  BALLAST_TRY(const Payload payload, chosen.archive->payload(chosen.index));
  const ByteSpan part = payload.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  answer.bytes.assign(part.begin(), part.end());
  return true;
}

// Of the blocks that hold elements ["begin", "end") : all scales, then as many minima where the type has them.
Result<bool> scales_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const ChosenTensor chosen, choose_tensor(session, request));
  BALLAST_TRY(const uint64_t begin, request.count("begin"));
  BALLAST_TRY(const uint64_t end, request.count("end"));
  const TensorInfo& info = chosen.info();
  const auto fields = std::ranges::find(kScaleFields, info.dtype, &ScaleFields::dtype);
  if (fields == std::end(kScaleFields)) {
    answer.json.key("scales").boolean(false);
    return true;
  }
  const ElementUnit unit = element_unit(info.dtype);
  const uint64_t blocks = info.byte_size / unit.bytes;
  const uint64_t first = std::min(begin / unit.elements, blocks);
  const uint64_t last = std::clamp((end + unit.elements - 1) / unit.elements, first, blocks);
  if (last - first > kMostValues / 8) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\": the scales of {} blocks are too many at "
                                                               "once: take a part",
                                                               info.name, last - first));
  }
  const bool canonical = chosen.archive->extent(chosen.index).is_canonical();
  BALLAST_TRY(const bool there, canonical ? session.has_range(*chosen.archive, chosen.index, first * unit.bytes,
                                                              (last - first) * unit.bytes)
                                          : session.has_stored(*chosen.archive, chosen.index));
  if (!there) return false;
  ByteVector stored(static_cast<size_t>((last - first) * unit.bytes));
  if (canonical) {
    BALLAST_CHECK(chosen.archive->read_range(chosen.index, first * unit.bytes, stored));
  } else {
    BALLAST_TRY(const Payload payload, chosen.archive->payload(chosen.index));
    std::ranges::copy(payload.bytes().subspan(static_cast<size_t>(first * unit.bytes), stored.size()), stored.begin());
  }
  const auto count = static_cast<size_t>(last - first);
  const bool has_min = fields->min != kNone;
  answer.bytes.resize(count * sizeof(float) * (has_min ? 2 : 1));
  for (size_t i = 0; i < count; ++i) {
    const std::byte* const block = stored.data() + i * unit.bytes;
    store_le(answer.bytes.data() + i * sizeof(float), std::bit_cast<uint32_t>(load_half(block + fields->scale)));
    if (has_min)
      store_le(answer.bytes.data() + (count + i) * sizeof(float),
               std::bit_cast<uint32_t>(load_half(block + fields->min)));
  }
  answer.json.key("scales").boolean(true).key("firstBlock").number(first).key("count").number(count);
  answer.json.key("blockElements").number(unit.elements).key("hasMin").boolean(has_min);
  return true;
}

}  // namespace ballast::wasm
