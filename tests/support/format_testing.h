// What tests of format drivers share: test data, opening bytes, writing archives back.
#pragma once

#include <memory>
#include <string>

#include "ballast/formats/format.h"

namespace ballast::testing {

// A file under tests/data; fails the test when it cannot be read.
ByteVector read_test_data(const std::string& relative_path);

ByteVector to_byte_vector(std::string_view text);
// From hexadecimal digits with any white space between them.
ByteVector from_hex(std::string_view digits);

// A source whose bytes can only be read, never viewed: what a file behind positional reads looks like.
class ReadingSource final : public ByteSource {
 public:
  explicit ReadingSource(ByteVector bytes) : inner_(MemorySource::owning(std::move(bytes))) {}
  uint64_t size() const override { return inner_->size(); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override { return inner_->read_at(offset, out); }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return inner_->name(); }

 private:
  std::shared_ptr<MemorySource> inner_;
};

// Opens as open_archive does: the first error is the result.
Result<Archive> open_bytes(const FormatDriver& driver, ByteVector bytes);
// The text of the error that opening gives; fails the test when it opens.
Error open_error(const FormatDriver& driver, ByteVector bytes);

// Everything the validator has to say about these bytes, and whether it could read them to the end.
struct Verified {
  Findings findings = Findings::collect_all();
  bool readable = false;

  const Finding* find(std::string_view code) const;  // the first with this code, null if none
  size_t count(Severity severity) const;
};
Verified verify_bytes(const FormatDriver& driver, ByteVector bytes);

// Draws payloads from an archive, by name, so that the description being written may order its tensors otherwise.
class ArchiveFeed final : public TensorFeed {
 public:
  ArchiveFeed(const Archive& archive, const Description& description) : archive_(archive), description_(description) {}
  Status emit(size_t tensor_index, PayloadForm form, ByteSink& sink) override;

 private:
  const Archive& archive_;
  const Description& description_;
};

// One file, planned and written to memory.
Result<ByteVector> encode(const FormatDriver& driver, const Description& description, TensorFeed& feed,
                          const WriteOptions& options);
// What the archive holds, written again as a conversion would: same order, same forms.
Result<ByteVector> encode_again(const FormatDriver& driver, const Archive& archive);

}  // namespace ballast::testing
