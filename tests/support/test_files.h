// Files that tests read, and archives that tests build.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/write.h"
#include "ballast/formats/format.h"

namespace ballast::testing {

// tests/data/<name>; an empty result fails the test.
ByteVector read_test_file(const std::string& name);
std::string test_file_path(const std::string& name);

// A tensor whose bytes count up from `first`, or all of `bytes`.
TensorInfo make_info(std::string name, DType dtype, Shape shape);
ByteVector counting_bytes(size_t count, unsigned first = 1);

// The archive that driver.open gives for these bytes; fails the test and aborts it when it does not open.
Archive open_or_die(const FormatDriver& driver, ByteVector bytes, std::string file_name = "test");
// Plans, emits and collects the one file that `driver` writes for this archive, order and forms kept.
Result<ByteVector> reencode(const FormatDriver& driver, const Archive& archive, const WriteOptions& options);
Result<ByteVector> reencode(const FormatDriver& driver, const Archive& archive);

// SHA-256 of `bytes`, hexadecimal.
std::string sha256_hex(ByteSpan bytes);

}  // namespace ballast::testing
