// Burnpack files for tests: the fixtures, and files made by hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ballast/formats/burnpack/cbor.h"
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

TensorInfo plain_tensor(std::string name, DType dtype, Shape shape, std::optional<uint64_t> param_id = std::nullopt);
TensorInfo quantised_tensor(std::string name, std::string scheme, Shape shape, uint64_t byte_size);

// Payloads that a test has made up.
class PayloadFeed final : public TensorFeed {
 public:
  explicit PayloadFeed(std::vector<ByteVector> payloads) : payloads_(std::move(payloads)) {}
  Status emit(size_t index, PayloadForm, ByteSink& sink) override { return sink.write(payloads_[index]); }

 private:
  std::vector<ByteVector> payloads_;
};

// Payloads that a test does not look at: zeros.
class BlankFeed final : public TensorFeed {
 public:
  explicit BlankFeed(const Description& description) : description_(description) {}
  Status emit(size_t index, PayloadForm, ByteSink& sink) override {
    return sink.write_zeros(description_.tensors[index].byte_size);
  }

 private:
  const Description& description_;
};

// `count` bytes 1, 2, 3, ..., never 0.
ByteVector nonzero_bytes(size_t count);

}  // namespace ballast::testing
