// Paths of test data, and small tensors and archives that tests build themselves.
#pragma once

#include <string>

#include "ballast/archive/write.h"
#include "ballast/formats/format.h"
#include "tests/support/sha256.h"

namespace ballast::testing {

// tests/data/<name>
std::string test_file_path(const std::string& name);

// The text as a test may be called: with letters, digits and underscores only.
std::string test_name(std::string text);

TensorInfo make_info(std::string name, DType dtype, Shape shape);
// `first`, first + 1, ... modulo 256
ByteVector counting_bytes(size_t count, unsigned first = 1);

// The archive that driver.open gives for these bytes; aborts the test program when it does not open.
Archive open_or_die(const FormatDriver& driver, ByteVector bytes);

}  // namespace ballast::testing
