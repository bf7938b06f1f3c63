#include "ballast/base/param_id.h"

#include <algorithm>
#include <atomic>

#include "ballast/base/hash.h"

namespace ballast {

namespace {

template <typename Id>
Id first_half(const Digest& digest) {
  Id id;
  std::copy_n(digest.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

}  // namespace

Id128 Id128::from_u64(uint64_t value) {
  Id128 id;
  store_le(id.bytes.data(), value);
  return id;
}

std::optional<Id128> Id128::from_bytes_hex(std::string_view digits) {
  Id128 id;
  if (digits.size() != 2 * id.bytes.size()) return std::nullopt;
  const auto bytes = parse_hex(digits);
  if (!bytes) return std::nullopt;
  std::ranges::copy(*bytes, id.bytes.begin());
  return id;
}

std::string Id128::to_number_hex() const {
  std::array<std::byte, 16> reversed = bytes;
  std::ranges::reverse(reversed);
  return to_hex(reversed);
}

BaseParamId base_param_id(std::string_view name) { return first_half<BaseParamId>(blake3(as_bytes(name))); }

ParamKey param_key(const ModelNamespaceId& model, const BaseParamId& base) {
  Blake3 hasher;
  hasher.update("gpt-rs:param-key:v1");
  hasher.update(model.bytes);
  hasher.update(base.bytes);
  return first_half<ParamKey>(hasher.finish());
}

ModelNamespaceId next_model_namespace() {
  static std::atomic<uint64_t> next{1};
  return ModelNamespaceId{Id128::from_u64(next.fetch_add(1, std::memory_order_relaxed))};
}

}  // namespace ballast
