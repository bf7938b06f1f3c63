#include "bindings/python/module/metadata.h"

#include <cstring>
#include <string>

#include "bindings/python/module/archives.h"
#include "bindings/python/module/errors.h"

namespace ballast::python {

namespace {

nb::object array_to_python(const MetaArray& array) {
  nb::list list;
  switch (array.element()) {
    case MetaType::kText:
      for (const std::string_view text : array.texts()) list.append(to_python_text(text));
      break;
    case MetaType::kArray:
      for (const MetaArray& inner : array.arrays()) list.append(array_to_python(inner));
      break;
    case MetaType::kF32:
    case MetaType::kF64:
      for (const double number : array.numbers()) list.append(nb::float_(number));
      break;
    case MetaType::kBool:
      for (const int64_t truth : array.integers()) list.append(nb::bool_(truth != 0));
      break;
    case MetaType::kU64:  // the same bits
      for (const int64_t number : array.integers()) list.append(nb::int_(static_cast<uint64_t>(number)));
      break;
    default:
      for (const int64_t number : array.integers()) list.append(nb::int_(number));
  }
  return list;
}

[[noreturn]] void raise_no_metadata(nb::handle value) {
  const nb::str type(value.type());
  const std::string text =
      std::string("metadata cannot hold ") + type.c_str() + ": only str, int, float, bool and lists of one of these";
  throw nb::type_error(text.c_str());
}

bool is_truth(nb::handle value) { return nb::isinstance<nb::bool_>(value); }

// The narrowest type of all elements; lists are stored as GGUF does, every element alike.
MetaType element_type(nb::handle list) {
  bool all_texts = true, all_truths = true, all_whole = true, all_lists = true;
  for (nb::handle item : list) {
    const bool is_list = nb::isinstance<nb::list>(item) || nb::isinstance<nb::tuple>(item);
    const bool is_whole = nb::isinstance<nb::int_>(item) && !is_truth(item);
    const bool is_text = nb::isinstance<nb::str>(item);
    if (!is_list && !is_whole && !is_text && !is_truth(item) && !nb::isinstance<nb::float_>(item)) {
      raise_no_metadata(item);
    }
    all_texts &= is_text, all_truths &= is_truth(item), all_whole &= is_whole, all_lists &= is_list;
  }
  if (all_texts) return MetaType::kText;
  if (all_truths) return MetaType::kBool;
  if (all_whole) return MetaType::kI64;
  if (all_lists) return MetaType::kArray;
  for (nb::handle item : list) {
    if (nb::isinstance<nb::str>(item) || nb::isinstance<nb::list>(item)) {
      throw nb::type_error("the elements of a list in metadata must be of one type");
    }
  }
  return MetaType::kF64;
}

MetaArray array_from(nb::handle list) {
  const MetaType type = element_type(list);
  std::string encoded;
  uint64_t count = 0;
  std::vector<MetaArray> inner;
  for (nb::handle item : list) {
    ++count;
    if (type == MetaType::kText) {
      const std::string text = from_python_text(item);
      append_le<uint64_t>(encoded, text.size());
      encoded += text;
    } else if (type == MetaType::kBool) {
      encoded += nb::cast<bool>(item) ? '\1' : '\0';
    } else if (type == MetaType::kI64) {
      append_le(encoded, static_cast<uint64_t>(nb::cast<int64_t>(item)));
    } else if (type == MetaType::kArray) {
      inner.push_back(array_from(item));
    } else {
      append_le(encoded, std::bit_cast<uint64_t>(nb::cast<double>(item)));
    }
  }
  if (type == MetaType::kArray) return MetaArray::of_arrays(inner);
  return unwrap(MetaArray::decode(type, count, as_bytes(encoded)));
}

MetaValue value_from(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return from_python_text(value);
  if (is_truth(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) {
    int64_t small = 0;
    if (nb::try_cast<int64_t>(value, small)) return small;
    uint64_t large = 0;
    if (nb::try_cast<uint64_t>(value, large)) return large;
    throw nb::value_error("whole numbers in metadata have at most 64 bits");
  }
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) return array_from(value);
  raise_no_metadata(value);
}

}  // namespace

nb::object to_python(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return to_python_text(*text);
  if (const auto* number = std::get_if<int64_t>(&value)) return nb::int_(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return nb::int_(*number);
  if (const auto* number = std::get_if<double>(&value)) return nb::float_(*number);
  if (const auto* truth = std::get_if<bool>(&value)) return nb::bool_(*truth);
  return array_to_python(std::get<MetaArray>(value));
}

nb::dict metadata_dict(const std::vector<MetaEntry>& metadata) {
  nb::dict made;
  for (const MetaEntry& entry : metadata) made[to_python_text(entry.key)] = to_python(entry.value);
  return made;
}

std::vector<MetaEntry> metadata_from(nb::handle mapping) {
  std::vector<MetaEntry> metadata;
  if (!mapping.is_valid() || mapping.is_none()) return metadata;
  const nb::dict entries = nb::cast<nb::dict>(nb::handle(reinterpret_cast<PyObject*>(&PyDict_Type))(mapping));
  for (const auto& [key, value] : entries) {
    if (!nb::isinstance<nb::str>(key)) throw nb::type_error("the keys of metadata are texts");
    metadata.push_back({from_python_text(key), value_from(value)});
  }
  return metadata;
}

}  // namespace ballast::python
