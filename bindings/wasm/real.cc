// base/real.h without libc++'s tables: numbers are written with fmt's digits and read by JavaScript.
#include "ballast/base/real.h"

#include <cmath>

#include "bindings/wasm/javascript.h"
#include "bindings/wasm/shortest_real.h"

extern "C" {
// NaN where the text is no number.
BALLAST_IMPORT("parse_real") double ballast_import_parse_real(const char* text, uint32_t size);
}

namespace ballast {

std::string real_text(double value) { return wasm::shortest_real(value); }

std::errc parse_real(std::string_view text, double& value) {
  const double parsed = ballast_import_parse_real(text.data(), static_cast<uint32_t>(text.size()));
  if (std::isnan(parsed)) return std::errc::invalid_argument;
  const bool is_too_large = std::isinf(parsed) && !text.ends_with("Infinity");
  const bool is_too_small =
      parsed == 0 && text.substr(0, text.find_first_of("eE")).find_first_of("123456789") != text.npos;
  if (is_too_large || is_too_small) return std::errc::result_out_of_range;
  value = parsed;
  return {};
}

}  // namespace ballast
