// Pickles and PyTorch files for tests, put together from pieces.
#pragma once

#include <initializer_list>

#include "ballast/base/bytes.h"
#include "tests/formats/zip_builder.h"

namespace ballast::testing {

// Each function gives the opcodes that leave one value on the stack.
namespace py {

inline const std::string kNone = "N";
inline const std::string kTrue = "\x88";
inline const std::string kFalse = "\x89";

inline std::string text(std::string_view value) {
  std::string out = "X";
  append_le<uint32_t>(out, static_cast<uint32_t>(value.size()));
  return out + std::string(value);
}

inline std::string integer(int64_t value) {
  std::string out = "\x8a\x08";
  append_le<uint64_t>(out, static_cast<uint64_t>(value));
  return out;
}

inline std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

inline std::string tuple(std::initializer_list<std::string> parts) { return "(" + joined(parts) + "t"; }
inline std::string list(std::initializer_list<std::string> parts) { return "](" + joined(parts) + "e"; }
// Keys and values in turn.
inline std::string dict(std::initializer_list<std::string> parts) { return "}(" + joined(parts) + "u"; }

inline std::string integers(std::initializer_list<int64_t> values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string call(const std::string& callee, std::initializer_list<std::string> arguments) {
  return callee + tuple(arguments) + "R";
}

inline std::string put(uint32_t index) {
  std::string out = "r";
  append_le<uint32_t>(out, index);
  return out;
}
inline std::string get(uint32_t index) {
  std::string out = "j";
  append_le<uint32_t>(out, index);
  return out;
}

inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

// ---------------------------------------------------------------- PyTorch's vocabulary

inline std::string ordered_dict() { return call(global("collections", "OrderedDict"), {}); }

inline std::string storage(const std::string& key, int64_t count, const std::string& type = "FloatStorage") {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), integer(count)}) + "Q";
}

inline std::string tensor(const std::string& storage, int64_t offset, std::initializer_list<int64_t> sizes,
                          std::initializer_list<int64_t> strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage, integer(offset), integers(sizes), integers(strides), kFalse, ordered_dict()});
}

}  // namespace py

// The member that stands for storage `key`, with the floats 0, 1, 2, ...
inline ZipInput float_storage(const std::string& key, size_t count, bool deflate = false) {
  std::string content;
  for (size_t i = 0; i < count; ++i) append_le<uint32_t>(content, std::bit_cast<uint32_t>(static_cast<float>(i)));
  return {"m/data/" + key, content, deflate};
}

// A checkpoint of this object and these storages.
inline ZipParts torch_zip(const std::string& object, std::vector<ZipInput> others, bool deflate = false) {
  std::vector<ZipInput> members = {{"m/data.pkl", py::pickle(object), deflate}, {"m/version", "3\n"}};
  for (ZipInput& other : others) members.push_back(std::move(other));
  return build_zip(members);
}

}  // namespace ballast::testing
