// Opening an image, and what it holds.
#include <fmt/format.h>

#include <algorithm>

#include "bindings/core/handle.h"

namespace ballast::core {

namespace {

// An image that cannot be addressed.
class CallbackSource final : public ByteSource {
 public:
  explicit CallbackSource(const ballast_core_image& image, std::string name) : image_(image), name_(std::move(name)) {}

  uint64_t size() const override { return image_.size; }
  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    if (offset > image_.size || out.size() > image_.size - offset) return past_the_end(*this, offset, out.size());
    if (out.empty() || image_.read(image_.user, offset, out.data(), out.size()) == 0) return {};
    failure_ = make_error(ErrorCode::kIo, fmt::format("{}: {} bytes at {} cannot be read", name_, out.size(), offset));
    return *failure_;
  }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return name_; }

  // Of the last read that failed.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  ballast_core_image image_;
  std::string name_;
  mutable std::optional<Error> failure_;
};

struct Source {
  std::shared_ptr<const ByteSource> bytes;
  const CallbackSource* callback = nullptr;  // the same, where the image cannot be addressed
};

Result<Source> source_of(const ballast_core_image& image) {
  std::string name = image.name != nullptr ? image.name : "image";
  if (image.bytes == nullptr && image.read == nullptr && image.size != 0) {
    return make_error(ErrorCode::kInvalidArgument, name + ": has neither bytes nor a function that reads them");
  }
  if (image.bytes == nullptr && image.read != nullptr) {
    const auto source = std::make_shared<CallbackSource>(image, std::move(name));
    return Source{source, source.get()};
  }
  if (image.size > SIZE_MAX)
    return make_error(ErrorCode::kInvalidArgument, name + ": is larger than the address space");
  const ByteSpan bytes(static_cast<const std::byte*>(image.bytes), static_cast<size_t>(image.size));
  return Source{MemorySource::borrowing(bytes, std::move(name))};
}

Result<const ballast_core_format*> choose(std::span<const ballast_core_format* const> formats,
                                          const OpenRequest& request) {
  std::vector<const FormatReader*> readers;
  for (const ballast_core_format* format : formats) readers.push_back(format->reader);
  BALLAST_TRY(const FormatReader* reader, detect_reader(request, readers));
  return formats[static_cast<size_t>(std::ranges::find(readers, reader) - readers.begin())];
}

Status check_index(const ballast_core& archive, size_t index) {
  const size_t count = archive.archive.tensors().size();
  if (index < count) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("there is no tensor {}: the archive has {}", index, count));
}

ballast_core_text text_of(const std::string& text) { return {text.c_str(), text.size()}; }

}  // namespace

std::optional<ByteSpan> payload_in_image(const ballast_core& archive, size_t index) {
  const StoredExtent& extent = archive.archive.extent(index);
  if (!extent.is_canonical()) return std::nullopt;
  return archive.archive.sources()[extent.source]->view(extent.offset, extent.length);
}

Status read_payload(const ballast_core& archive, size_t index, MutableByteSpan out) {
  if (archive.format->unpack != nullptr) return archive.format->unpack(archive.archive, index, out);
  const StoredExtent& extent = archive.archive.extent(index);
  return archive.archive.sources()[extent.source]->read_at(extent.offset, out);
}

}  // namespace ballast::core

using namespace ballast;
using namespace ballast::core;

ballast_core_code ballast_core_open(ballast_core** archive, void* block, size_t block_size,
                                    const ballast_core_format* const* formats, size_t format_count,
                                    const ballast_core_image* image) {
  *archive = nullptr;
  Arena* arena = Arena::make(block, block_size);
  if (arena == nullptr) {
    return report(ErrorCode::kOutOfMemory, "the block is missing or too small to hold anything");
  }
  return enter(*arena, [&]() -> Status {
    BALLAST_TRY(const Source source, source_of(*image));
    const OpenRequest request{.source = source.bytes, .file_name = image->name != nullptr ? image->name : ""};
    const auto format = choose({formats, format_count}, request);
    // A format that could not read what it looks for did not recognise it, either.
    if (!format && source.callback != nullptr && source.callback->failure()) return *source.callback->failure();
    if (!format) return format.error();
    Findings findings = Findings::stop_at_first_error();
    BALLAST_TRY(Archive opened, (*format)->reader->open(request, findings));
    *archive = new ballast_core{arena, *format, std::move(opened)};
    return {};
  });
}

const ballast_core_format* ballast_core_format_of(const ballast_core* archive) { return archive->format; }
size_t ballast_core_peak(const ballast_core* archive) { return archive->arena->peak(); }
size_t ballast_core_count(const ballast_core* archive) { return archive->archive.tensors().size(); }

ballast_core_code ballast_core_find(const ballast_core* archive, const char* name, size_t* index) {
  return enter(*archive->arena, [&]() -> Status {
    const auto found = archive->archive.find(name);
    if (!found) return make_error(ErrorCode::kNotFound, fmt::format("there is no tensor \"{}\"", name));
    *index = *found;
    return {};
  });
}

ballast_core_code ballast_core_tensor_at(const ballast_core* archive, size_t index, ballast_core_tensor* tensor) {
  return enter(*archive->arena, [&]() -> Status {
    BALLAST_CHECK(check_index(*archive, index));
    const TensorInfo& info = archive->archive.tensors()[index];
    const auto in_image = payload_in_image(*archive, index);
    *tensor = {.name = text_of(info.name),
               .dtype = dtype_name(info.dtype).data(),
               .shape = info.shape.dims().data(),
               .rank = info.shape.dims().size(),
               .size = info.byte_size,
               .data = in_image ? in_image->data() : nullptr};
    return {};
  });
}

ballast_core_code ballast_core_read(ballast_core* archive, size_t index, void* out, size_t size) {
  return enter(*archive->arena, [&]() -> Status {
    BALLAST_CHECK(check_index(*archive, index));
    const TensorInfo& info = archive->archive.tensors()[index];
    if (size != info.byte_size) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\" has {} bytes; room was given for {}",
                                                                 info.name, info.byte_size, size));
    }
    return read_payload(*archive, index, {static_cast<std::byte*>(out), size});
  });
}

ballast_core_code ballast_core_metadata(const ballast_core* archive, const char* key, ballast_core_text* value) {
  return enter(*archive->arena, [&]() -> Status {
    for (const MetaEntry& entry : archive->archive.description().metadata) {
      if (entry.key != key) continue;
      const auto* text = std::get_if<std::string>(&entry.value);
      if (text == nullptr) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("metadata \"{}\" is not a text", key));
      }
      *value = text_of(*text);
      return {};
    }
    return make_error(ErrorCode::kNotFound, fmt::format("there is no metadata \"{}\"", key));
  });
}
