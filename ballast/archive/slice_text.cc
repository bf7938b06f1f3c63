// Slices as people write them: "weight[0:4, :]".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/archive/slice.h"
#include "ballast/base/near_miss.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

class SliceParser {
 public:
  explicit SliceParser(std::string_view text) : text_(text) {}

  Result<Slice> run() {
    skip_space();
    if (!take("[")) return fault("a slice begins with \"[\"");
    Slice slice;
    skip_space();
    if (!take("]")) {
      while (true) {
        BALLAST_TRY(const SliceItem item, read_item());
        slice.push_back(item);
        skip_space();
        if (take("]")) break;
        if (!take(",")) return fault("\",\" or \"]\" expected");
        skip_space();
        if (take("]")) break;  // "[0,]", as Python allows
      }
    }
    skip_space();
    if (at_ != text_.size()) return fault("one pair of brackets holds all axes: [0, 1], not [0][1]");
    if (std::ranges::count(slice, SliceItem::Kind::kEllipsis, &SliceItem::kind) > 1) return fault("\"...\" twice");
    return slice;
  }

 private:
  Result<SliceItem> read_item() {
    skip_space();
    SliceItem item;
    if (take("...")) {
      item.kind = SliceItem::Kind::kEllipsis;
      return item;
    }
    BALLAST_CHECK(assign(item.begin, read_number()));
    if (!take(":")) {
      if (!item.begin) return fault("a number, a range such as 0:4, or \"...\" expected");
      item.kind = SliceItem::Kind::kIndex;
      item.index = *item.begin;
      item.begin.reset();
      return item;
    }
    BALLAST_CHECK(assign(item.end, read_number()));
    if (!take(":")) return item;
    BALLAST_TRY(const std::optional<int64_t> step, read_number());
    item.step = step.value_or(1);
    if (item.step <= 0) return fault("steps must be positive");
    return item;
  }

  Result<std::optional<int64_t>> read_number() {
    skip_space();
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    const char* digits = begin != end && *begin == '+' ? begin + 1 : begin;
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(digits, end, number);
    if (error == std::errc::result_out_of_range) return fault("a number beyond 64 bits");
    if (error != std::errc()) return std::optional<int64_t>();
    at_ += static_cast<size_t>(stop - begin);
    skip_space();
    return std::optional(number);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Error fault(std::string_view what) const {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("slice \"{}\", character {}: {}", text_, at_ + 1, what));
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<size_t> find_by_id_digits(const Archive& archive, std::string_view digits) {
  const auto id = Id128::from_bytes_hex(digits);
  return id ? archive.find(BaseParamId{*id}) : std::nullopt;
}

}  // namespace

Result<Slice> parse_slice(std::string_view text) {
  return guarded([&] { return SliceParser(text).run(); });
}

Result<TensorSlice> find_tensor_slice(const Archive& archive, std::string_view text) {
  return guarded([&]() -> Result<TensorSlice> {
    if (const auto whole = archive.find(text)) return TensorSlice{*whole, {}, ""};
    for (size_t bracket = text.rfind('['); bracket != std::string_view::npos && bracket > 0;
         bracket = text.rfind('[', bracket - 1)) {
      const auto found = archive.find(text.substr(0, bracket));
      if (!found) continue;
      BALLAST_TRY(Slice slice, parse_slice(text.substr(bracket)));
      return TensorSlice{*found, std::move(slice), std::string(text.substr(bracket))};
    }
    const std::string_view digits = text.substr(0, text.find('['));
    if (const auto found = find_by_id_digits(archive, digits)) {
      if (digits.size() == text.size()) return TensorSlice{*found, {}, ""};
      const std::string_view rest = text.substr(digits.size());
      BALLAST_TRY(Slice slice, parse_slice(rest));
      return TensorSlice{*found, std::move(slice), std::string(rest)};
    }
    return no_such_tensor(archive, text.substr(0, text.rfind('[')));
  });
}

Error no_such_tensor(const Archive& archive, std::string_view name) {
  std::vector<std::string_view> names;
  names.reserve(archive.tensors().size());
  for (const TensorInfo& tensor : archive.tensors()) names.push_back(tensor.name);
  const std::string_view near = nearest(name, names);
  std::string text = fmt::format("no tensor is called \"{}\"", name);
  if (!near.empty()) text += fmt::format("; did you mean \"{}\"?", near);
  return make_error(ErrorCode::kNotFound, std::move(text));
}

}  // namespace ballast
