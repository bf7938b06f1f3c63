#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "ballast/formats/numpy/npy_type.h"
#include "tests/formats/numpy_expectations.h"
#include "tests/support/mutation.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

ByteVector npy_file(std::string_view text, size_t payload, char major = 1) {
  std::string bytes(kNpyMagic);
  bytes += {major, 0};
  if (major == 1) append_le<uint16_t>(bytes, static_cast<uint16_t>(text.size()));
  else append_le<uint32_t>(bytes, static_cast<uint32_t>(text.size()));
  bytes += text;
  bytes.append(payload, '\1');
  return to_byte_vector(bytes);
}

ByteVector npy_file_of(std::string_view descr, std::string_view shape, size_t payload) {
  return npy_file(
      "{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n",
      payload);
}

void expect_npy_refused(ByteVector bytes, ErrorCode code, const std::string& what) {
  const Error error = open_error(kNpyDriver, std::move(bytes));
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_THAT(error.message, HasSubstr(what));
}

class NpySample : public ::testing::TestWithParam<std::string> {};

TEST_P(NpySample, HoldsWhatNumpyReadsFromIt) {
  const Archive archive = open_or_die(kNpyDriver, read_test_data("npz/" + GetParam()));
  expect_tensors(archive, numpy_samples().at(GetParam()));
}

TEST_P(NpySample, IsWrittenBackByteForByte) {
  const ByteVector bytes = read_test_data("npz/" + GetParam());
  const Archive archive = open_or_die(kNpyDriver, bytes);
  const auto again = encode_again(kNpyDriver, archive);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, bytes);
}

TEST_P(NpySample, SurvivesDamage) {
  const ByteVector bytes = read_test_data("npz/" + GetParam());
  if (bytes.size() > 10'000) GTEST_SKIP() << "small files only";
  const size_t header = open_or_die(kNpyDriver, bytes).extent(0).offset;
  truncations(bytes, [](ByteSpan mutant, const std::string& what) {
    EXPECT_FALSE(check_survives(kNpyDriver, mutant, what)) << what;
  });
  bit_flips(bytes, header, [](ByteSpan mutant, const std::string& what) { check_survives(kNpyDriver, mutant, what); });
  random_mutations(bytes, fresh_seed(), 200,
                   [](ByteSpan mutant, const std::string& what) { check_survives(kNpyDriver, mutant, what); });
}

INSTANTIATE_TEST_SUITE_P(All, NpySample, ::testing::ValuesIn(samples_ending_with(".npy")),
                         [](const auto& sample) { return test_name(sample.param); });

TEST(Npy, IsRecognisedByItsFirstBytes) {
  OpenRequest request;
  request.source = MemorySource::owning(read_test_data("npz/matrix.npy"));
  const auto driver = detect_format(request);
  ASSERT_TRUE(driver.has_value());
  EXPECT_EQ(*driver, &kNpyDriver);
  EXPECT_EQ(format_for_extension("a.npy"), &kNpyDriver);
}

TEST(Npy, IsAViewIntoTheFileWhereCanonical) {
  const Archive archive = open_or_die(kNpyDriver, read_test_data("npz/matrix.npy"));
  EXPECT_TRUE(archive.payload(0)->is_view());
  EXPECT_EQ(archive.extent(0).offset, 128U);
  EXPECT_EQ(archive.tensors()[0].stored_form(), "");
}

TEST(Npy, WritesCanonicallyWhatAnotherFormatSpelledOtherwise) {
  const ByteVector expected = read_test_data("npz/matrix.npy");
  WriteOptions canonical;
  canonical.keep_form = false;
  for (const char* file : {"npz/fortran.npy", "npz/big_endian.npy", "npz/version_2.npy", "npz/python_2.npy"}) {
    const Archive archive = open_or_die(kNpyDriver, read_test_data(file));
    EXPECT_NE(archive.tensors()[0].stored_form(), "");
    ArchiveFeed feed(archive, archive.description());
    const auto written = encode(kNpyDriver, archive.description(), feed, canonical);
    ASSERT_TRUE(written.has_value());
    EXPECT_EQ(*written, expected) << file;
  }
}

TEST(Npy, RefusesObjectArraysAndSaysWhy) {
  expect_npy_refused(read_test_data("npz/objects.npy"), ErrorCode::kUnsupported, "pickle");
  expect_npy_refused(npy_file_of("[('a', '<f4'), ('b', '|O')]", "(1,)", 12), ErrorCode::kUnsupported, "pickle");
}

TEST(Npy, RefusesWhatIsNoNpyFile) {
  expect_npy_refused({}, ErrorCode::kCorrupt, "magic");
  expect_npy_refused(to_byte_vector("NUMPY"), ErrorCode::kCorrupt, "magic");
  expect_npy_refused(to_byte_vector(kNpyMagic), ErrorCode::kCorrupt, "too few");
  ByteVector version = read_test_data("npz/matrix.npy");
  version[6] = std::byte{4};
  expect_npy_refused(version, ErrorCode::kUnsupported, "version 4.0");
  version[6] = std::byte{1};
  version[7] = std::byte{1};
  expect_npy_refused(version, ErrorCode::kUnsupported, "version 1.1");
}

TEST(Npy, RefusesHeaderLengthsThatLie) {
  ByteVector bytes = read_test_data("npz/matrix.npy");
  bytes[9] = std::byte{0x7F};
  expect_npy_refused(bytes, ErrorCode::kCorrupt, "claims");
  bytes[9] = std::byte{0};
  bytes[8] = std::byte{10};
  expect_npy_refused(bytes, ErrorCode::kCorrupt, "NPY header");
  expect_npy_refused(npy_file(std::string((1 << 20) + 1, ' '), 0, 2), ErrorCode::kUnsupported, "at most");
}

TEST(Npy, RefusesPayloadsOfTheWrongLength) {
  expect_npy_refused(npy_file_of("'<f4'", "(3, 2)", 23), ErrorCode::kCorrupt, "cut short");
  expect_npy_refused(npy_file_of("'<f4'", "(3, 2)", 25), ErrorCode::kCorrupt, "appended");
  expect_npy_refused(npy_file_of("'<f4'", "(4294967296, 4294967296)", 0), ErrorCode::kCorrupt, "exceeds 2^64");
  expect_npy_refused(npy_file_of("'<f8'", "(4611686018427387904,)", 0), ErrorCode::kCorrupt, "exceeds 2^64");
}

TEST(Npy, RefusesDictionariesThatAreNoNpyHeader) {
  for (const char* text : {
           "",
           "{}",
           "[]",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
           "{'descr': '<f4', 'fortran_order: False, 'shape': (1,)}",
           "{'descr': '\\q4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '\\x3', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4' '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': ['<f4'], 'fortran_order': False, 'shape': (1,)}",
           "{'descr': [('a',)], 'fortran_order': False, 'shape': (1,)}",
           "{'descr': [('a', '<f4', (-1,))], 'fortran_order': False, 'shape': (1,)}",
           "{'descr': [('a', '<f4', (4294967296, 4294967296))], 'fortran_order': False, 'shape': (1,)}",
       }) {
    SCOPED_TRACE(text);
    expect_npy_refused(npy_file(text, 4), ErrorCode::kCorrupt, "NPY header");
  }
}

TEST(Npy, RefusesDeeplyNestedRecordsWithoutRecursing) {
  std::string descr;
  for (int i = 0; i < 10'000; ++i) descr += "[('a',";
  expect_npy_refused(npy_file_of(descr, "(1,)", 4), ErrorCode::kCorrupt, "nested too deeply");
}

TEST(Npy, RefusesTypesNumpyDoesNotWrite) {
  for (const char* descr : {"''", "'<'", "'<f'", "'<f3'", "'<i16'", "'<u3'", "'<b2'", "'<x4'", "'float32'", "'<f4x'",
                            "'<M4'", "'<M8[]'", "'<M8[n;s]'", "'<f4[ns]'"}) {
    SCOPED_TRACE(descr);
    expect_npy_refused(npy_file_of(descr, "(1,)", 4), ErrorCode::kUnsupported, "not one that NumPy writes");
  }
}

TEST(Npy, RefusesItemsWithoutBytes) {
  for (const char* descr : {"'<U0'", "'|S0'", "'|V0'", "[]", "[('a', '<f4', (0,))]"}) {
    expect_npy_refused(npy_file_of(descr, "(18446744073709551615,)", 0), ErrorCode::kUnsupported, "0 bytes");
  }
}

TEST(Npy, TakesEveryByteOrderMark) {
  for (const char* descr : {"'<f4'", "'=f4'", "'f4'", "'|f4'"}) {
    const Archive archive = open_or_die(kNpyDriver, npy_file_of(descr, "(1,)", 4));
    EXPECT_EQ(archive.tensors()[0].dtype, DType::kF32);
    EXPECT_FALSE(archive.extent(0).big_endian);
  }
  EXPECT_TRUE(open_or_die(kNpyDriver, npy_file_of("'>f4'", "(1,)", 4)).extent(0).big_endian);
  EXPECT_FALSE(open_or_die(kNpyDriver, npy_file_of("'>u1'", "(1,)", 1)).extent(0).big_endian);
}

TEST(Npy, CarriesTypesItHasNoWordFor) {
  const Archive archive = open_or_die(kNpyDriver, npy_file_of("'<f12'", "(2,)", 24));
  EXPECT_EQ(archive.tensors()[0].type_name(), "opaque:<f12");
  EXPECT_EQ(open_or_die(kNpyDriver, npy_file_of("'S5'", "()", 5)).tensors()[0].scheme(), "|S5");
}

TEST(Npy, LosesNamesOnlyWithPermission) {
  Description description;
  description.tensors.push_back(make_info("weight", DType::kF32, {2}));
  const auto losses = kNpyDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_TRUE(losses[0].acceptable);
  EXPECT_THAT(losses[0].what, HasSubstr("arr_0"));

  description.tensors[0].name = "arr_0";
  EXPECT_TRUE(kNpyDriver.find_losses(description, {}).empty());
  description.metadata.push_back({"key", std::string("value")});
  description.config = ModelConfig{"gptrs", "{}"};
  description.tensors[0].param_id = 7;
  description.tensors[0].requires_grad = true;
  EXPECT_EQ(kNpyDriver.find_losses(description, {}).size(), 4U);
}

TEST(Npy, HoldsExactlyOneTensor) {
  Description description;
  for (const size_t count : {0, 2}) {
    description.tensors.clear();
    for (size_t i = 0; i < count; ++i)
      description.tensors.push_back(make_info("t" + std::to_string(i), DType::kF32, {2}));
    const auto losses = kNpyDriver.find_losses(description, {});
    ASSERT_EQ(losses.size(), 1U);
    EXPECT_FALSE(losses[0].acceptable || losses[0].drop || losses[0].cast_to);
    const WriteOptions options;
    EXPECT_FALSE(kNpyDriver.plan_write({description, options, "a.npy"}).has_value());
  }
}

TEST(Npy, QuotesAsPythonDoes) {
  EXPECT_EQ(python_quoted("a"), "'a'");
  EXPECT_EQ(python_quoted("it's"), "\"it's\"");
  EXPECT_EQ(python_quoted("'\""), "'\\'\"'");
  EXPECT_EQ(python_quoted("\\\n\x01"), "'\\\\\\n\\x01'");
}

TEST(Npy, RefusesSpellingsThatAreNone) {
  for (const char* spelling : {"", "1.0", "1.0+", "1.0+x {}", "4.0+1 {}", "1.0+99999999 {}", "1.0+1 {}", "raw"}) {
    EXPECT_FALSE(parse_npy_spelling(spelling).has_value()) << spelling;
  }
  EXPECT_TRUE(parse_npy_spelling("1.0+3 {'descr': '>f4', 'fortran_order': True, 'shape': (2, 3)}").has_value());
}

TEST(Npy, IgnoresASpellingOfAnotherTensor) {
  const TensorInfo tensor = make_info("a", DType::kF32, {2, 3});
  const auto layout = npy_layout(tensor, "1.0+3 {'descr': '>f4', 'fortran_order': True, 'shape': (3, 2)}");
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->header, npy_layout(tensor, {})->header);
  EXPECT_FALSE(layout->form.big_endian);
}

}  // namespace
}  // namespace ballast::testing
