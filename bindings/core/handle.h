// What the handles of ballast_core.h are.
#pragma once

#include "ballast/formats/format.h"
#include "bindings/core/enter.h"

struct ballast_core_format {
  const ballast::FormatReader* reader;
  // Reads a payload that may be packed. Null of formats that store all payloads as they are, so that a program for
  // these links nothing that unpacks.
  ballast::Status (*unpack)(const ballast::Archive& archive, size_t index, ballast::MutableByteSpan out);
};

struct ballast_core {
  ballast::core::Arena* arena;
  const ballast_core_format* format;
  ballast::Archive archive;
};

namespace ballast::core {

// The payload where it lies, where it does so as it is.
std::optional<ByteSpan> payload_in_image(const ballast_core& archive, size_t index);
Status read_payload(const ballast_core& archive, size_t index, MutableByteSpan out);

}  // namespace ballast::core
