#include "ballast/formats/numpy/npz.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/checked.h"
#include "ballast/formats/drivers.h"
#include "tests/formats/numpy_expectations.h"
#include "tests/formats/zip_builder.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

Archive open_sample(const std::string& file) { return open_or_die(kNpzDriver, read_test_data("npz/" + file)); }

ByteVector written(const Archive& archive, const Description& description, const WriteOptions& options) {
  ArchiveFeed feed(archive, description);
  auto bytes = encode(kNpzDriver, description, feed, options);
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  return bytes ? *std::move(bytes) : ByteVector();
}

// As if the tensors came from a format that spells them canonically.
Description foreign_description(const Archive& archive) {
  Description description;
  description.format = "safetensors";
  for (TensorInfo tensor : archive.tensors()) {
    tensor.set_stored_form("");
    description.tensors.push_back(std::move(tensor));
  }
  return description;
}

void expect_same_content(const Archive& a, const Archive& b) {
  ASSERT_TRUE(same_content_description(a.description(), b.description()));
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    EXPECT_EQ(as_text(a.payload(i)->bytes()), as_text(b.payload(i)->bytes())) << a.tensors()[i].name;
  }
}

// ---------------------------------------------------------------- NumPy's files

class NpzSample : public ::testing::TestWithParam<std::string> {};

TEST_P(NpzSample, HoldsWhatNumpyReadsFromIt) {
  expect_tensors(open_sample(GetParam()), numpy_samples().at(GetParam()));
}

TEST_P(NpzSample, IsReadTheSameBehindPositionalReads) {
  OpenRequest request;
  request.source = std::make_shared<ReadingSource>(read_test_data("npz/" + GetParam()));
  const auto archive = open_archive(request);
  ASSERT_TRUE(archive.has_value()) << archive.error().message;
  expect_tensors(*archive, numpy_samples().at(GetParam()));
}

TEST_P(NpzSample, KeepsItsContentInTheAlignedForm) {
  const Archive archive = open_sample(GetParam());
  const Description description = foreign_description(archive);
  const Archive aligned = open_or_die(kNpzDriver, written(archive, description, {}));
  expect_same_content(archive, aligned);
  EXPECT_EQ(aligned.description().stored_form, archive.tensors().empty() ? "numpy" : "");
  for (size_t i = 0; i < aligned.tensors().size(); ++i) {
    EXPECT_EQ(aligned.extent(i).offset % 64, 0U);
    EXPECT_TRUE(aligned.extent(i).is_canonical());
    EXPECT_EQ(aligned.tensors()[i].stored_form(), "");
  }
  EXPECT_EQ(*encode_again(kNpzDriver, aligned), written(archive, description, {}));
}

TEST_P(NpzSample, SurvivesDamage) {
  const ByteVector bytes = read_test_data("npz/" + GetParam());
  truncations(bytes, [](ByteSpan mutant, const std::string& what) {
    EXPECT_FALSE(check_survives(kNpzDriver, mutant, what)) << what;
  });
  random_mutations(bytes, fresh_seed(), 300,
                   [](ByteSpan mutant, const std::string& what) { check_survives(kNpzDriver, mutant, what); });
}

INSTANTIATE_TEST_SUITE_P(All, NpzSample, ::testing::ValuesIn(samples_ending_with(".npz")),
                         [](const auto& sample) { return test_name(sample.param); });

class NumpyMade : public ::testing::TestWithParam<std::string> {};

TEST_P(NumpyMade, IsWrittenBackByteForByte) {
  const ByteVector bytes = read_test_data("npz/" + GetParam());
  const Archive archive = open_or_die(kNpzDriver, bytes);
  EXPECT_TRUE(NpzForm::from_text(archive.description().stored_form).numpy);
  EXPECT_EQ(archive.description().producer, "NumPy");
  const auto again = encode_again(kNpzDriver, archive);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, bytes);
}

INSTANTIATE_TEST_SUITE_P(All, NumpyMade,
                         ::testing::Values("dtypes.npz", "big_endian.npz", "fortran.npz", "shapes.npz", "names.npz",
                                           "opaque.npz", "compressed.npz", "windows.npz", "empty.npz"),
                         [](const auto& sample) { return test_name(sample.param); });

TEST(Npz, WritesWhatNumpyWritesForTheSameTensors) {
  for (const char* file : {"dtypes.npz", "shapes.npz", "names.npz", "opaque.npz"}) {
    const Archive archive = open_sample(file);
    EXPECT_EQ(written(archive, foreign_description(archive), {.target = "numpy"}),
              read_test_data(std::string("npz/") + file));
  }
}

TEST(Npz, CompressesAsNumpyDoes) {
  const Archive compressed = open_sample("compressed.npz");
  const Archive plain = open_or_die(kNpzDriver, written(compressed, foreign_description(compressed), {}));
  Description description = plain.description();
  // NumPy kept one array big-endian and column-major.
  description.tensors[2].set_stored_form(compressed.tensors()[2].stored_form());
  for (const char* target : {"", "numpy"}) {
    EXPECT_EQ(written(plain, description, {.compress = true, .target = target}), read_test_data("npz/compressed.npz"));
  }
  EXPECT_EQ(kNpzDriver.plan_write({description, {.compress = true, .target = ""}, "a.npz"}).value()->files()[0].size,
            std::nullopt);
}

TEST(Npz, RefusesToAlignWhatIsCompressed) {
  const Description description;
  const WriteOptions options{.compress = true, .target = "aligned"};
  const auto planned = kNpzDriver.plan_write({description, options, "a.npz"});
  ASSERT_FALSE(planned.has_value());
  EXPECT_EQ(planned.error().code, ErrorCode::kInvalidArgument);
}

TEST(Npz, AlignsOnRequestWhatNumpyWrote) {
  const Archive archive = open_sample("fortran.npz");
  const Archive aligned = open_or_die(kNpzDriver, written(archive, archive.description(), {.target = "aligned"}));
  expect_same_content(archive, aligned);
  for (size_t i = 0; i < aligned.tensors().size(); ++i) {
    EXPECT_EQ(aligned.extent(i).offset % 64, 0U);
    EXPECT_TRUE(aligned.payload(i)->is_view());
  }
}

TEST(Npz, KeepsMembersThatAreNoArrays) {
  const Archive archive = open_sample("foreign.npz");
  const Verified verified = verify_bytes(kNpzDriver, read_test_data("npz/foreign.npz"));
  ASSERT_NE(verified.find("not_an_array"), nullptr);
  EXPECT_NE(verified.find("folder"), nullptr);
  const Archive again = open_or_die(kNpzDriver, *encode_again(kNpzDriver, archive));
  expect_same_content(archive, again);
  EXPECT_EQ(again.tensors()[1].stored_form(), kRawMember);
  // Elsewhere it is an array like any other.
  const Archive array = open_or_die(kNpzDriver, written(archive, foreign_description(archive), {}));
  expect_same_content(archive, array);
  EXPECT_EQ(array.tensors()[1].stored_form(), "");
}

TEST(Npz, CarriesTheOriginAsItsLastMember) {
  for (const bool compress : {false, true}) {
    const Archive archive = open_sample("shapes.npz");
    Description description = foreign_description(archive);
    description.origin = "{\"größe\": 1}";
    const ByteVector bytes = written(archive, description, {.compress = compress, .target = ""});
    const Archive again = open_or_die(kNpzDriver, bytes);
    EXPECT_EQ(again.description().origin, description.origin);
    expect_same_content(archive, again);
    std::string last;
    for_each_zip_name(*MemorySource::borrowing(bytes), [&](std::string_view name) {
      last = name;
      return true;
    });
    EXPECT_EQ(last, "ballast.origin.npy");
    EXPECT_EQ(NpzForm::from_text(again.description().stored_form).compressed, compress);
  }
}

TEST(Npz, TakesOnlyTextForAnOrigin) {
  const Archive raw = open_or_die(kNpzDriver, build_zip({{"a.npy", npy_text()}, {"ballast.origin", "text"}}).take());
  EXPECT_FALSE(raw.description().origin.has_value());
  EXPECT_EQ(raw.tensors().size(), 2U);
  std::string not_text = npy_text(2);
  not_text.replace(not_text.size() - 2, 2, "\xFF\xFE");
  const Archive binary =
      open_or_die(kNpzDriver, build_zip({{"a.npy", npy_text()}, {"ballast.origin.npy", not_text}}).take());
  EXPECT_FALSE(binary.description().origin.has_value());
  ZipParts damaged = build_zip({{"ballast.origin.npy", npy_text()}});
  damaged.bytes[damaged.data[0] + npy_text().size() - 1] = 'x';
  EXPECT_THAT(open_error(kNpzDriver, damaged.take()).message, HasSubstr("CRC-32"));
}

TEST(Npz, IsRecognisedByItsMembers) {
  const auto detected = [](ByteVector bytes) {
    OpenRequest request;
    request.source = MemorySource::owning(std::move(bytes));
    return detect_format(request).value()->name;
  };
  EXPECT_EQ(detected(read_test_data("npz/dtypes.npz")), "npz");
  EXPECT_EQ(detected(read_test_data("npz/empty.npz")), "npz");
  ByteVector cut = read_test_data("npz/dtypes.npz");
  cut.resize(cut.size() / 2);
  EXPECT_EQ(detected(cut), "npz");
  EXPECT_THAT(open_error(kNpzDriver, cut).message, HasSubstr("cut short"));
  const Error other = open_error(kNpzDriver, build_zip({{"word/document.xml", "x"}}).take());
  EXPECT_EQ(other.code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.message, HasSubstr(".npy"));
}

// ---------------------------------------------------------------- hostile files

TEST(Npz, RefusesObjectArraysAndSaysWhich) {
  const Error error = open_error(kNpzDriver, read_test_data("npz/objects.npz"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("pickle"));
  EXPECT_THAT(error.message, HasSubstr("\"bad\""));
  const Verified verified = verify_bytes(kNpzDriver, read_test_data("npz/objects.npz"));
  ASSERT_NE(verified.find("unsupported"), nullptr);
  EXPECT_EQ(verified.find("unsupported")->tensor, "bad");
}

TEST(Npz, NamesEveryDamagedMember) {
  const Verified verified = verify_bytes(
      kNpzDriver, build_zip({{"a.npy", "no array"}, {"b.npy", npy_text()}, {"c.npy", npy_text() + "x"}}).take());
  EXPECT_EQ(verified.count(Severity::kError), 2U);
  ASSERT_TRUE(verified.readable);
  EXPECT_EQ(verified.findings.items()[0].tensor, "a");
  EXPECT_EQ(verified.findings.items()[1].tensor, "c");
}

TEST(Npz, RefusesTwoMembersThatAreOneTensor) {
  EXPECT_THAT(open_error(kNpzDriver, build_zip({{"a.npy", npy_text()}, {"a", "raw"}}).take()).message,
              HasSubstr("two members are called \"a\""));
}

TEST(Npz, ChecksTheChecksumWhenAPayloadIsRead) {
  for (const bool deflate : {false, true}) {
    ZipParts parts = build_zip({{"a.npy", npy_text(), deflate}});
    parts.patch_both<uint32_t>(0, 14, 16, 0x12345678);
    const Archive archive = open_or_die(kNpzDriver, parts.take());
    const auto payload = archive.payload(0);
    ASSERT_FALSE(payload.has_value());
    EXPECT_THAT(payload.error().message, HasSubstr("CRC-32"));
  }
}

TEST(Npz, RefusesDamagedDeflateStreams) {
  const std::string content = npy_text(5000);
  const size_t stored = deflated(content).size();
  ZipParts cut = build_zip({{"a.npy", content, true}});
  cut.bytes.replace(cut.data[0] + stored - 20, 20, std::string(20, '\0'));
  const auto payload = open_or_die(kNpzDriver, cut.take()).payload(0);
  ASSERT_FALSE(payload.has_value());
  EXPECT_EQ(payload.error().code, ErrorCode::kCorrupt);
  // A sound stream of another length than the directory declares.
  ZipParts other = build_zip({{"a.npy", content, true}});
  other.patch_both<uint32_t>(0, 22, 24, static_cast<uint32_t>(content.size() + 1));
  EXPECT_THAT(open_error(kNpzDriver, other.take()).message, HasSubstr("bytes behind the NPY header"));
  ZipParts damaged = build_zip({{"a.npy", content, true}});
  damaged.bytes[damaged.data[0]] = '\x07';  // a block type that does not exist
  EXPECT_THAT(open_error(kNpzDriver, damaged.take()).message, HasSubstr("damaged"));
}

// 4.2 MB that could hold the 2^32 + 704 bytes they declare, and hold 704 of them.
TEST(Npz, RefusesAMemberOf4GiBThatEndsAfterAFewBytes) {
  constexpr size_t kHeld = 704;
  for (const bool fortran : {false, true}) {
    const TensorInfo tensor = make_info("a", DType::kU8, {2, 2'147'484'000});
    std::string content = npy_layout(tensor, {}).value().header;
    if (fortran) content.replace(content.find("False"), 5, "True ");
    const uint64_t declared = content.size() + tensor.byte_size;
    content.append(kHeld, 'x');
    std::string stream(1, '\0');  // a stored block, then empty ones
    append_le<uint16_t>(stream, static_cast<uint16_t>(content.size()));
    append_le<uint16_t>(stream, static_cast<uint16_t>(~content.size()));
    stream += content;
    for (int i = 0; i < 840'000; ++i) stream += std::string("\0\0\0\xFF\xFF", 5);
    stream += std::string("\1\0\0\xFF\xFF", 5);
    const Archive archive = open_or_die(
        kNpzDriver, build_zip({{.name = "a.npy", .content = {}, .stream = stream, .declared = declared}}).take());
    ASSERT_EQ(archive.tensors()[0].byte_size, (uint64_t{1} << 32) + kHeld);
    MemorySink sink;
    const Status streamed = archive.stream_deflated(0, sink);
    ASSERT_FALSE(streamed.has_value());
    EXPECT_EQ(streamed.error().code, ErrorCode::kCorrupt) << streamed.error().message;
    EXPECT_EQ(sink.position(), 0U);
    if constexpr (sizeof(size_t) < sizeof(uint64_t)) {  // elsewhere the machine would have to find the memory first
      const auto payload = archive.payload(0);
      ASSERT_FALSE(payload.has_value());
      EXPECT_EQ(payload.error().code, ErrorCode::kOutOfMemory);
      EXPECT_THAT(payload.error().message, HasSubstr("32 bits"));
    }
  }
}

TEST(Npz, BoundsTheHeaderOfACompressedMember) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (), }" + std::string(70'000, ' ') + "\n";
  std::string member(kNpyMagic);
  member += std::string("\2\0", 2);
  append_le<uint32_t>(member, static_cast<uint32_t>(text.size()));
  member += text + "abcd";
  EXPECT_TRUE(open_bytes(kNpzDriver, build_zip({{"a.npy", member}}).take()).has_value());
  const Error error = open_error(kNpzDriver, build_zip({{"a.npy", member, true}}).take());
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("at most 65536"));
}

// A flipped bit is noticed, or does not matter: nothing wrong is ever given as right.
TEST(Npz, NeverGivesWrongBytesAsRight) {
  for (const char* file : {"fortran.npz", "streamed_deflated.npz", "streamed_zip64.npz", "foreign.npz", "names.npz"}) {
    const ByteVector bytes = read_test_data(std::string("npz/") + file);
    const Archive original = open_or_die(kNpzDriver, bytes);
    bit_flips(bytes, bytes.size(), [&](ByteSpan mutant, const std::string& what) {
      if (!check_survives(kNpzDriver, mutant, what)) return;
      const Archive archive = open_or_die(kNpzDriver, ByteVector(mutant.begin(), mutant.end()));
      for (size_t i = 0; i < archive.tensors().size(); ++i) {
        const auto payload = archive.payload(i);
        if (!payload) continue;
        const TensorInfo& tensor = archive.tensors()[i];
        const auto index = original.find(tensor.name);
        ASSERT_TRUE(index.has_value()) << file << ": " << what << ": " << tensor.name;
        EXPECT_EQ(tensor.type_name(), original.tensors()[*index].type_name()) << what;
        EXPECT_EQ(tensor.shape, original.tensors()[*index].shape) << what;
        EXPECT_EQ(as_text(payload->bytes()), as_text(original.payload(*index)->bytes())) << what;
      }
    });
  }
}

TEST(Npz, OpensManyMembersInProportion) {
  // More than a 16-bit count can say: 64-bit end records.
  constexpr size_t kCount = 70'000;
  Description description;
  for (size_t i = 0; i < kCount; ++i) description.tensors.push_back(make_info(fmt::format("t{}", i), DType::kU8, {1}));
  class OneByteFeed final : public TensorFeed {
    Status emit(size_t, PayloadForm, ByteSink& sink) override { return sink.write_text("x"); }
  } feed;
  for (const char* target : {"aligned", "numpy"}) {
    const auto bytes = encode(kNpzDriver, description, feed, {.target = target});
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    const MemoryMeter meter;
    const auto archive = open_bytes(kNpzDriver, *bytes);
    EXPECT_LE(meter.peak(), 4 * bytes->size() + (16 << 20));
    ASSERT_TRUE(archive.has_value()) << archive.error().message;
    EXPECT_EQ(archive->tensors().size(), kCount);
  }
}

// ---------------------------------------------------------------- sizes beyond 32 bits

// Keeps what is not a long run of zeros.
class SparseSink final : public ByteSink {
 public:
  Status write(ByteSpan bytes) override {
    std::string& run = runs_[run_start_];
    run += as_text(bytes);
    position_ += bytes.size();
    return {};
  }
  Status write_zeros(uint64_t count) override {
    position_ += count;
    run_start_ = position_;
    return {};
  }
  Status patch(uint64_t offset, ByteSpan bytes) override {
    auto run = std::prev(runs_.upper_bound(offset));
    run->second.replace(static_cast<size_t>(offset - run->first), bytes.size(), as_text(bytes));
    return {};
  }
  uint64_t position() const override { return position_; }
  const std::map<uint64_t, std::string>& runs() const { return runs_; }

 private:
  std::map<uint64_t, std::string> runs_;
  uint64_t run_start_ = 0;
  uint64_t position_ = 0;
};

class SparseSource final : public ByteSource {
 public:
  explicit SparseSource(const SparseSink& sink) : runs_(sink.runs()), size_(sink.position()) {}
  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    if (!range_fits(offset, out.size(), size_)) return make_error(ErrorCode::kIo, "past the end");
    std::ranges::fill(out, std::byte{0});
    for (const auto& [start, text] : runs_) {
      const uint64_t from = std::max(start, offset);
      const uint64_t to = std::min(start + text.size(), offset + out.size());
      for (uint64_t at = from; at < to; ++at) out[at - offset] = static_cast<std::byte>(text[at - start]);
    }
    return {};
  }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return name_; }

 private:
  std::map<uint64_t, std::string> runs_;
  uint64_t size_;
  std::string name_ = "sparse";
};

class ZeroFeed final : public TensorFeed {
 public:
  explicit ZeroFeed(const Description& description) : description_(description) {}
  Status emit(size_t index, PayloadForm, ByteSink& sink) override {
    return sink.write_zeros(description_.tensors[index].byte_size);
  }

 private:
  const Description& description_;
};

TEST(Npz, HoldsTensorsAndOffsetsBeyond4GiB) {
  Description description;
  for (const uint64_t gib : {1, 5, 2, 1}) {
    description.tensors.push_back(make_info(fmt::format("t{}", description.tensors.size()), DType::kF32, {gib << 28}));
  }
  for (const char* target : {"aligned", "numpy"}) {
    SCOPED_TRACE(target);
    const WriteOptions options{.target = target};
    const auto planned = kNpzDriver.plan_write({description, options, "big.npz"});
    ASSERT_TRUE(planned.has_value());
    SparseSink sink;
    ZeroFeed feed(description);
    ASSERT_TRUE((*planned)->emit(0, sink, feed).has_value());
    EXPECT_EQ((*planned)->files()[0].size, sink.position());
    OpenRequest request;
    request.source = std::make_shared<SparseSource>(sink);
    const auto archive = open_archive(request);
    ASSERT_TRUE(archive.has_value()) << archive.error().message;
    EXPECT_TRUE(same_content_description(archive->description(), description));
    EXPECT_EQ(archive->description().stored_form, std::string_view(target) == "numpy" ? "numpy" : "");
    EXPECT_GT(archive->extent(3).offset, uint64_t{8} << 30);
    // The checksum of 5 GiB of zeros is right without having gone through them.
    EXPECT_EQ(archive->extent(0).crc32,
              crc32_of_zeros(uint64_t{1} << 30, crc32_of(as_bytes(npy_layout(description.tensors[0], {})->header))));
  }
}

TEST(Npz, ChecksumOfZerosIsThatOfTheBytes) {
  for (const size_t count : {0, 1, 2, 3, 63, 64, 1000, 65537}) {
    const ByteVector zeros(count);
    EXPECT_EQ(crc32_of_zeros(count, 0xDEADBEEF), crc32_of(zeros, 0xDEADBEEF)) << count;
    EXPECT_EQ(crc32_of_zeros(count, 0), crc32_of(zeros)) << count;
  }
}

// ---------------------------------------------------------------- what it cannot hold

TEST(Npz, SaysWhatItCannotHold) {
  Description description;
  description.tensors = {
      make_info("fine", DType::kF32, {2}),          make_info("/absolute", DType::kF32, {2}),
      make_info("a\\b", DType::kF32, {2}),          make_info("ballast.origin", DType::kU8, {2}),
      make_info("__netcl_meta__", DType::kU8, {2}), make_info(std::string(65'536, 'x'), DType::kU8, {2}),
      make_info("half", DType::kBF16, {2})};
  const auto losses = kNpzDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 6U);
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(losses[i].drop) << losses[i].what;
  EXPECT_EQ(losses[5].cast_to, DType::kF32);
  for (const TensorInfo& tensor : description.tensors) {
    if (tensor.name == "fine" || tensor.name == "__netcl_meta__" || tensor.name == "ballast.origin") continue;
    Description single;
    single.tensors = {tensor};
    const WriteOptions options;
    EXPECT_FALSE(kNpzDriver.plan_write({single, options, "a.npz"}).has_value()) << tensor.name.substr(0, 20);
  }
}

TEST(Npz, WritesOpaqueBytesOnlyWithASchemeNumpyKnows) {
  Description description;
  description.tensors = {make_info("a", DType::kOpaque, {2})};
  description.tensors[0].byte_size = 8;
  EXPECT_EQ(kNpzDriver.find_losses(description, {}).size(), 1U);
  description.tensors[0].set_scheme("|S4");
  EXPECT_TRUE(kNpzDriver.find_losses(description, {}).empty());
  description.tensors[0].set_scheme("|S5");
  EXPECT_EQ(kNpzDriver.find_losses(description, {}).size(), 1U);
}

}  // namespace
}  // namespace ballast::testing
