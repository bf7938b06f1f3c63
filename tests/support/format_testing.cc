#include "tests/support/format_testing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/formats/payload_order.h"
#include "tests/support/places.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {

ByteVector to_byte_vector(std::string_view text) { return {as_bytes(text).begin(), as_bytes(text).end()}; }

ByteVector read_test_data(const std::string& relative_path) {
  return to_byte_vector(read_text_file(test_data_folder() + "/" + relative_path));
}

ByteVector from_hex(std::string_view digits) {
  std::string packed(digits);
  std::erase_if(packed, [](char c) { return c == ' ' || c == '\n'; });
  auto bytes = parse_hex(packed);
  EXPECT_TRUE(bytes.has_value()) << "not hexadecimal";
  return bytes.value_or(ByteVector());
}

Result<Archive> open_bytes(const FormatDriver& driver, ByteVector bytes) {
  Findings findings = Findings::stop_at_first_error();
  OpenRequest request;
  request.source = MemorySource::owning(std::move(bytes), "file");
  return driver.open(request, findings);
}

Error open_error(const FormatDriver& driver, ByteVector bytes) {
  auto opened = open_bytes(driver, std::move(bytes));
  EXPECT_FALSE(opened.has_value()) << "opened";
  return opened ? make_error(ErrorCode::kNotFound, "opened") : std::move(opened).error();
}

const Finding* Verified::find(std::string_view code) const {
  const auto found = std::ranges::find(findings.items(), code, &Finding::code);
  return found == findings.items().end() ? nullptr : &*found;
}

size_t Verified::count(Severity severity) const {
  return static_cast<size_t>(std::ranges::count(findings.items(), severity, &Finding::severity));
}

Verified verify_bytes(const FormatDriver& driver, ByteVector bytes) {
  Verified verified;
  OpenRequest request;
  request.source = MemorySource::owning(std::move(bytes), "file");
  verified.readable = driver.open(request, verified.findings).has_value();
  return verified;
}

Status ArchiveFeed::emit(size_t tensor_index, PayloadForm form, ByteSink& sink) {
  const TensorInfo& tensor = description_.tensors[tensor_index];
  const auto index = archive_.find(tensor.name);
  if (!index) return make_error(ErrorCode::kNotFound, tensor.name);
  BALLAST_TRY(const Payload payload, archive_.payload(*index));
  ByteVector bytes(payload.bytes().begin(), payload.bytes().end());
  if (form.fortran_order) {
    ByteVector ordered(bytes.size());
    row_major_to_fortran(tensor.shape, bytes, ordered);
    bytes = std::move(ordered);
  }
  if (form.big_endian) swap_byte_order(tensor.dtype, bytes);
  return sink.write(bytes);
}

Result<ByteVector> encode(const FormatDriver& driver, const Description& description, TensorFeed& feed,
                          const WriteOptions& options) {
  BALLAST_TRY(const auto planned, driver.plan_write({description, options, "file"}));
  EXPECT_EQ(planned->files().size(), 1U);
  MemorySink sink;
  BALLAST_CHECK(planned->emit(0, sink, feed));
  EXPECT_EQ(planned->files()[0].size.value_or(sink.position()), sink.position());
  return sink.take();
}

Result<ByteVector> encode_again(const FormatDriver& driver, const Archive& archive) {
  WriteOptions options;
  options.keep_order = true;
  ArchiveFeed feed(archive, archive.description());
  return encode(driver, archive.description(), feed, options);
}

}  // namespace ballast::testing
