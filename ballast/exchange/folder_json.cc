#include "ballast/exchange/folder_json.h"

#include <fmt/format.h>

namespace ballast {

namespace {

std::string real_text(double value) {
  const auto narrow = static_cast<float>(value);
  const bool is_float = static_cast<double>(narrow) == value;
  std::string text = is_float ? fmt::format("{}", narrow) : fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

void FolderJson::real(std::string_view key, double value) { json_.key(key).raw(real_text(value)); }

void FolderJson::reals(std::string_view key, std::span<const double> values) {
  json_.key(key).begin_array();
  for (const double value : values) json_.raw(real_text(value));
  json_.end_array();
}

std::string_view torch_type_name(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "float64";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    default: return "float32";
  }
}

}  // namespace ballast
