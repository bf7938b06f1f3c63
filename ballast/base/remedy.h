// What a caller could do about an error or a loss.
//
// Messages say it in words; this says it to programs, which know what their users would have to press or type. The
// command turns each of these into one of its flags.
#pragma once

#include <cstdint>
#include <string_view>

namespace ballast {

enum class Remedy : unsigned char {
  kAllowOverwrite,   // ask for overwriting
  kGiveConfig,       // supply a model config to be written
  kDescribeModel,    // supply a model config to run the weights with, or weights that have one
  kChooseConfig,     // say whose model config counts
  kPreferOne,        // say which of several contradicting files wins, or keep them apart by prefixes
  kSelectTensors,    // take fewer or other tensors
  kRenameTensors,    // give tensors other names
  kClassifyModules,  // say what modules tensors belong to, or how to treat all that are in doubt
  kCastTensors,      // cast tensors to f32 first
  kDequantize,       // dequantise tensors to a type of choice
  kAllowHalf,        // write f16 and bf16 although the format's own reader refuses them
  kChooseShardSize,  // write files of another size
  kForgetBeginning,  // let a text go on without its beginning
  kCheckWeights,     // look for values that are not finite
  kRescueTensors,    // write what can be read to another file
};
inline constexpr Remedy kLastRemedy = Remedy::kRescueTensors;

// "allow_overwrite", ...: a stable word. Both end with a NUL, for C.
std::string_view remedy_name(Remedy remedy);
// "ask for overwriting": the same for people.
std::string_view remedy_text(Remedy remedy);

// Any number of them.
class Remedies {
 public:
  constexpr Remedies() = default;
  constexpr Remedies(Remedy remedy) : bits_(bit(remedy)) {}  // NOLINT: implicit, since one is the usual number

  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Remedy remedy) const { return (bits_ & bit(remedy)) != 0; }
  constexpr void add(Remedies more) { bits_ |= more.bits_; }

  friend constexpr bool operator==(Remedies, Remedies) = default;

 private:
  static constexpr uint32_t bit(Remedy remedy) { return uint32_t{1} << static_cast<unsigned>(remedy); }
  uint32_t bits_ = 0;
};

}  // namespace ballast
