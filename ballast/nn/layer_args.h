// The arguments that a layer is made with, as JSON gives them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast::nn {

enum class ArgKind : uint8_t {
  kCount,          // a whole number above 0
  kCountOrZero,    // a whole number
  kOptionalCount,  // the same, or null
  kSeed,           // any whole number of 64 bits, or null
  kReal,
  kTruth,
  kText,
  kLayers,  // a list of layers
};

struct ArgSpec {
  std::string_view name;
  ArgKind kind = ArgKind::kCount;
  std::string_view otherwise = {};  // JSON; empty: the argument is required
};

class LayerArgs {
 public:
  // `json`: an object or null. As netcl takes it, 4.0 and "4" are whole numbers too. kInvalidArgument lists every
  // argument that is missing, unknown or of the wrong kind. `where`: "layer 2 (Conv2d)".
  static Result<LayerArgs> parse(std::string_view json, std::span<const ArgSpec> specs, bool ignore_unknown,
                                 const std::string& where);

  // Of arguments that the specs name.
  uint64_t count(std::string_view name) const;
  std::optional<uint64_t> optional_count(std::string_view name) const;
  double real(std::string_view name) const;
  bool truth(std::string_view name) const;
  std::string text(std::string_view name) const;
  // Raw JSON.
  const std::string& raw(std::string_view name) const;
  // All of them, as Python writes an object.
  const std::string& json() const { return json_; }
  const std::string& where() const { return where_; }
  Error error(std::string_view what) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;  // normalised JSON
  std::string json_;
  std::string where_;
};

}  // namespace ballast::nn
