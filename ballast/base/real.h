// Texts of 64-bit floating-point numbers, as std::to_chars and std::from_chars write and read them. A file of their
// own, because those functions bring 145 KB of tables with libc++: the WebAssembly module has others
// (bindings/wasm/real.cc).
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace ballast {

// The shortest text that is read as the same number, of a finite one: "0.1", "1e-07".
std::string real_text(double value);

// Of a whole text. std::errc(): `value` is set; result_out_of_range: it is too far from 0 or too near to it;
// invalid_argument: the text is no number.
std::errc parse_real(std::string_view text, double& value);

}  // namespace ballast
