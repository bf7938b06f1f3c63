// Writing a file into the caller's memory.
#include <fmt/format.h>

#include "ballast/formats/drivers.h"
#include "bindings/core/enter.h"

struct ballast_core_writer {
  const ballast::FormatWriter* format;
};

namespace ballast::core {

namespace {

Result<TensorInfo> tensor_info(const ballast_core_tensor& tensor) {
  TensorInfo info;
  info.name.assign(tensor.name.data, tensor.name.size);
  const auto dtype = parse_dtype(tensor.dtype);
  if (!dtype) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": there is no dtype \"{}\"", info.name, tensor.dtype));
  }
  info.dtype = *dtype;
  info.shape = Shape(std::span(tensor.shape, tensor.rank));
  info.byte_size = tensor.size;
  if (Status fits = check_packed_size(info.shape, info.dtype, info.byte_size); !fits) {
    return std::move(fits.error()).with_context(fmt::format("tensor \"{}\"", info.name));
  }
  return info;
}

Result<Description> describe(const ballast_core_content& content) {
  Description description;
  for (const ballast_core_entry& entry : std::span(content.metadata, content.metadata_count)) {
    description.metadata.push_back({entry.key, std::string(entry.value)});
  }
  for (const ballast_core_tensor& tensor : std::span(content.tensors, content.tensor_count)) {
    BALLAST_TRY(TensorInfo info, tensor_info(tensor));
    description.tensors.push_back(std::move(info));
  }
  if (const auto twins = find_duplicate_names(description.tensors); !twins.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("two tensors are called \"{}\"", description.tensors[twins.front()].name));
  }
  return description;
}

class ContentFeed final : public TensorFeed {
 public:
  explicit ContentFeed(const ballast_core_content& content) : content_(content) {}
  Status emit(size_t index, PayloadForm, ByteSink& sink) override {
    const ballast_core_tensor& tensor = content_.tensors[index];
    return sink.write({static_cast<const std::byte*>(tensor.data), static_cast<size_t>(tensor.size)});
  }

 private:
  const ballast_core_content& content_;
};

Status write(const FormatWriter& format, const ballast_core_content& content, void* out, size_t capacity,
             uint64_t& size) {
  BALLAST_TRY(const Description description, describe(content));
  const WriteOptions options;
  if (const auto losses = format.find_losses(description, options); !losses.empty()) {
    const Loss& loss = losses.front();
    return make_error(ErrorCode::kLossy,
                      loss.tensor.empty() ? loss.what : fmt::format("tensor \"{}\": {}", loss.tensor, loss.what));
  }
  BALLAST_TRY(const auto plan, format.plan_write({.description = description, .options = options, .file_name = ""}));
  size = plan->files().front().size.value_or(0);
  if (out == nullptr) return {};
  if (capacity < size) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the file takes {} bytes; room was given for {}", size, capacity));
  }
  SpanSink sink({static_cast<std::byte*>(out), static_cast<size_t>(size)});
  ContentFeed feed(content);
  BALLAST_CHECK(plan->emit(0, sink, feed));
  return sink.finish();
}

}  // namespace

}  // namespace ballast::core

extern const ballast_core_writer ballast_core_write_burnpack = {&ballast::kBurnpackWriter};
extern const ballast_core_writer ballast_core_write_safetensors = {&ballast::kSafetensorsWriter};

ballast_core_code ballast_core_write(const ballast_core_writer* writer, void* block, size_t block_size,
                                     const ballast_core_content* content, void* out, size_t capacity, uint64_t* size) {
  *size = 0;
  ballast::core::Arena* arena = ballast::core::Arena::make(block, block_size);
  if (arena == nullptr) {
    return ballast::core::report(ballast::ErrorCode::kOutOfMemory,
                                 "the block is missing or too small to hold anything");
  }
  return ballast::core::enter(*arena,
                              [&] { return ballast::core::write(*writer->format, *content, out, capacity, *size); });
}
