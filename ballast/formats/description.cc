#include "ballast/formats/description.h"

#include <algorithm>
#include <bit>

#include "ballast/base/hash.h"

namespace ballast {

namespace {

// Neither made nor destroyed while a program runs: small ones have nobody who runs constructors.
template <typename T>
union Lasting {
  constexpr Lasting() : value() {}
  constexpr ~Lasting() {}
  T value;
};
const Lasting<std::string> kEmpty;

bool same_value(const MetaValue& a, const MetaValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* real = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*real) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  return a == b;
}

bool same_tensor(const TensorInfo& a, const TensorInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.byte_size == b.byte_size &&
         a.requires_grad.value_or(false) == b.requires_grad.value_or(false) && a.param_id == b.param_id &&
         a.scheme() == b.scheme();
}

}  // namespace

bool operator==(const MetaEntry& a, const MetaEntry& b) { return a.key == b.key && same_value(a.value, b.value); }

const std::string& TensorInfo::scheme() const { return detail_ ? detail_->scheme : kEmpty.value; }

const std::string& TensorInfo::stored_form() const { return detail_ ? detail_->stored_form : kEmpty.value; }

void TensorInfo::set_scheme(std::string scheme) {
  if (scheme == this->scheme()) return;
  detail_ = std::make_shared<Detail>(Detail{std::move(scheme), stored_form()});
}

void TensorInfo::set_stored_form(std::string form) {
  if (form == stored_form()) return;
  detail_ = std::make_shared<Detail>(Detail{scheme(), std::move(form)});
}

std::string TensorInfo::type_name() const {
  std::string text(dtype_name(dtype));
  if (scheme().empty()) return text;
  text += ":" + scheme();
  // Digests store the length of this text in one byte.
  constexpr size_t kLongest = 255;
  if (text.size() <= kLongest) return text;
  return std::string(dtype_name(dtype)) + ":#" + to_hex(blake3(as_bytes(scheme())));
}

bool same_content_description(const Description& a, const Description& b) {
  return a.metadata == b.metadata && a.config == b.config && std::ranges::equal(a.tensors, b.tensors, same_tensor);
}

}  // namespace ballast
