#include "ballast/formats/gptrs/gptrs_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"

namespace ballast {

GptrsFields::GptrsFields(const ByteSource& source, uint64_t begin, uint64_t end, uint64_t window)
    : source_(source),
      position_(begin),
      end_(end),
      window_size_(window),
      whole_(source.view(begin, end - begin)),
      window_begin_(begin) {}

Result<ByteSpan> GptrsFields::take(uint64_t length, std::string_view what) {
  if (length > remaining()) return ends_inside(what);
  if (!whole_) BALLAST_CHECK(load(length));
  const ByteSpan window = whole_ ? *whole_ : ByteSpan(window_);
  const ByteSpan taken = window.subspan(static_cast<size_t>(position_ - window_begin_), static_cast<size_t>(length));
  position_ += length;
  return taken;
}

Status GptrsFields::load(uint64_t length) {
  if (range_fits(position_ - window_begin_, length, window_.size())) return {};
  const uint64_t wanted = std::min(std::max(length, window_size_), remaining());
  const auto size = checked_size(wanted);
  if (!size) return too_large_for_memory(source_, wanted);
  window_.resize(*size);
  window_begin_ = position_;
  return source_.read_at(position_, window_);
}

Error GptrsFields::ends_inside(std::string_view what) const {
  const bool is_file = end_ == source_.size();
  return make_error(
      ErrorCode::kCorrupt,
      fmt::format("{}: byte {}: the {} ends inside {}; {}", source_.name(), position_, is_file ? "file" : "index", what,
                  is_file ? "it was probably cut short" : "its length or a count is wrong"));
}

Shape load_gptrs_shape(ByteSpan bytes) {
  std::vector<uint64_t> dims(bytes.size() / sizeof(uint64_t));
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = load_le<uint64_t>(bytes.data() + i * sizeof(uint64_t));
  return Shape(dims);
}

}  // namespace ballast
