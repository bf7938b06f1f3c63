// Burnpack files for tests: the fixtures, and files made by hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ballast/formats/cbor.h"
#include "ballast/formats/drivers.h"

namespace ballast::testing {

// "0.19.1/dtypes.bpk", ... below tests/data/burnpack, sorted.
std::vector<std::string> burnpack_fixtures();
ByteVector read_burnpack(const std::string& fixture);

// Header, metadata, and data at the next multiple of 256 (or, unaligned, at once).
ByteVector burnpack_file(ByteSpan cbor, ByteSpan data, bool unaligned = false);

// Metadata in any form, right or wrong. Appends raw bytes anywhere.
struct MetadataText {
  std::string bytes;

  MetadataText& add(const CborWriter& cbor) {
    bytes += cbor.bytes();
    return *this;
  }
  MetadataText& hex(std::string_view digits);
};

// One descriptor as Burn writes it, without its name: dtype (raw hexadecimal CBOR), shape, range.
std::string descriptor(std::string_view dtype_hex, const std::vector<uint64_t>& shape, uint64_t begin, uint64_t end);
// {"tensors": {...}} of names and descriptors, in the given order.
struct NamedDescriptor {
  std::string name;
  std::string bytes;
};
ByteVector tensors_metadata(const std::vector<NamedDescriptor>& tensors);

inline constexpr std::string_view kF32Hex = "63463332";
inline constexpr std::string_view kU8Hex = "625538";

// `count` bytes 1, 2, 3, ..., never 0.
ByteVector counting_bytes(size_t count);

}  // namespace ballast::testing
