// Parameter identity, independent of any format: the same name has the same id everywhere.
//
// It stands in the lowest layer because checkpoint files store it; the layers above build caches on it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/bytes.h"

namespace ballast {

// 128 bits, kept as the 16 little-endian bytes that files store.
struct Id128 {
  std::array<std::byte, 16> bytes{};

  static Id128 from_u64(uint64_t value);
  // Of what to_bytes_hex() gives, in either case; nullopt for anything else.
  static std::optional<Id128> from_bytes_hex(std::string_view digits);
  bool is_zero() const { return *this == Id128{}; }
  // The number, most significant digit first: 32 hexadecimal digits.
  std::string to_number_hex() const;
  // The bytes in file order: 32 hexadecimal digits.
  std::string to_bytes_hex() const { return to_hex(bytes); }

  friend bool operator==(const Id128&, const Id128&) = default;
};

struct BaseParamId : Id128 {};       // which parameter, by name
struct ModelNamespaceId : Id128 {};  // which loaded model
struct ParamKey : Id128 {};          // which parameter of which loaded model

// The first 16 bytes of BLAKE3(name). Any UTF-8 name has one; gpt.rs itself allows ASCII names only.
BaseParamId base_param_id(std::string_view name);

// BLAKE3("gpt-rs:param-key:v1" | namespace | base id), first 16 bytes.
ParamKey param_key(const ModelNamespaceId& model, const BaseParamId& base);

// A namespace no other model of this process has: 1, 2, 3, ... Safe from any thread.
ModelNamespaceId next_model_namespace();

}  // namespace ballast
