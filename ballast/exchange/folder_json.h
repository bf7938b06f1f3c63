// Settings as the files of a Hugging Face folder spell them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ballast/base/dtype.h"
#include "ballast/base/json.h"
#include "ballast/base/token_id.h"

namespace ballast {

// One JSON object, indented, with a newline at its end.
class FolderJson {
 public:
  FolderJson() { json_.begin_object(); }

  void text(std::string_view key, std::string_view value) { json_.key(key).string(value); }
  void count(std::string_view key, uint64_t value) { json_.key(key).number(value); }
  void flag(std::string_view key, bool value) { json_.key(key).boolean(value); }
  void null(std::string_view key) { json_.key(key).null(); }
  // With a point or an exponent: Python takes 4 for an integer, and transformers wants floats. A value that is a float
  // gets the shortest text of one: what was 1e-05 before it became 32 bits is 1e-05 again.
  void real(std::string_view key, double value);
  void reals(std::string_view key, std::span<const double> values);
  void token(std::string_view key, std::optional<TokenId> id) {
    if (id) count(key, *id);
  }
  // An object in the object.
  void begin(std::string_view key) { json_.key(key).begin_object(); }
  void end() { json_.end_object(); }
  JsonWriter& writer() { return json_; }

  std::string take() {
    json_.end_object();
    return json_.take() + '\n';
  }

 private:
  JsonWriter json_{true};
};

// "float32"; as transformers calls types.
std::string_view torch_type_name(DType dtype);

}  // namespace ballast
