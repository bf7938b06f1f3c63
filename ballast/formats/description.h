// What an archive says about itself, in terms no format owns.
//
// A Description holds everything of a file except the payload bytes: enough for a driver of the same format to write
// the file again byte for byte, and for any other driver to write what it has fields for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ballast/base/dtype.h"
#include "ballast/base/shape.h"
#include "ballast/formats/meta_array.h"

namespace ballast {

// A metadata value keeps its type and every bit: Int -1, UInt 2^64-1 and a NaN's payload all survive.
// Texts are bytes: most formats take them only where they are UTF-8.
using MetaValue = std::variant<std::string, int64_t, uint64_t, double, bool, MetaArray>;

struct MetaEntry {
  std::string key;
  MetaValue value;
};
bool operator==(const MetaEntry& a, const MetaEntry& b);  // doubles compare by bits

// The model configuration a file carries, as the exact text it carries.
struct ModelConfig {
  std::string schema;  // whose rules it follows: "gptrs", "netcl", "netcl-checkpoint"
  std::string text;    // JSON, byte for byte

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  // Tensors of a plan with the same number, other than 0, held the same bytes when they were read. A hint that travels
  // with the tensor, no part of what it is; whoever relies on it makes sure first. See archive/tie_plan.h.
  uint32_t twin = 0;
  Shape shape;
  // Bytes of the canonical payload: little-endian, row-major. Equals shape * dtype wherever that is defined.
  uint64_t byte_size = 0;
  std::optional<bool> requires_grad;
  std::optional<uint64_t> param_id;

  // For kQFloat and kOpaque: which packing the bytes have, in a spelling that does not depend on the file's version.
  // Part of the tensor's identity and of its digest.
  const std::string& scheme() const;
  // How the format spelled this tensor where its writer would by default spell it otherwise (a byte order, an old type
  // name, a missing id). Only drivers of that format understand it; everyone else carries it. Empty = as by default.
  const std::string& stored_form() const;
  void set_scheme(std::string scheme);
  void set_stored_form(std::string form);

  // "f32", or "qfloat:<scheme>": the type as digests see it; a scheme too long for that is replaced by its own digest.
  std::string type_name() const;

 private:
  struct Detail {
    std::string scheme;
    std::string stored_form;
  };
  std::shared_ptr<const Detail> detail_;  // absent for nearly every tensor; never changed once shared
};

struct Description {
  std::string format;               // the driver's name
  std::string version;              // of the file format, as text
  std::string producer;             // which program wrote it, where that can be told
  std::vector<MetaEntry> metadata;  // in file order
  std::optional<ModelConfig> config;
  // As TensorInfo::stored_form, for the file as a whole.
  std::string stored_form;
  // The `ballast.origin` value, when the file carries one: see archive/origin.h. Never part of `metadata`.
  std::optional<std::string> origin;
  std::vector<TensorInfo> tensors;  // in the order of their payloads
};

// True when both describe the same content: metadata, config, tensors with all their fields, in the same order.
// Spelling (format, version, producer, stored forms, origin) is not compared; an absent requires_grad equals false.
bool same_content_description(const Description& a, const Description& b);

}  // namespace ballast
