#include "ballast/engine/sequence_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/kv_texts.h"
#include "tests/support/mutation.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Digest model_digest(unsigned char first) {
  Digest digest{};
  digest[0] = std::byte{first};
  return digest;
}
const Digest kModel = model_digest(0xAB);

struct SavedText {
  explicit SavedText(const KvShape& shape, uint64_t length, uint64_t kind = 0) : lab(shape) {
    const auto saved = text_of(lab, counting_ids(length), kind).save(path, kModel);
    EXPECT_TRUE(saved) << saved.error().message;
  }

  TempFolder folder;
  std::string path = folder.path("text.past");
  KvLab lab;
};

Error restore_error(const std::string& path, const KvLab& lab, const Digest& model = kModel) {
  const auto restored = KvSequence::restore(path, model, lab.pool);
  EXPECT_FALSE(restored);
  return restored ? make_error(ErrorCode::kExists, "") : restored.error();
}

// The bytes with a digest that fits them.
std::string with_digest(std::string bytes) {
  bytes.resize(bytes.size() - sizeof(Digest));
  const Digest digest = blake3(as_bytes(bytes));
  return bytes + std::string(as_text(digest));
}

TEST(SequenceFile, BringsATextBackInAnotherPool) {
  for (const uint64_t length : {0, 1, 64, 100, 300}) {
    SCOPED_TRACE(length);
    const SavedText saved(small_kv_shape({0, 100}), length, 5);
    const KvLab other(small_kv_shape({0, 100}));
    auto restored = KvSequence::restore(saved.path, kModel, other.pool);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->kind(), 5U);
    EXPECT_THAT(restored->tokens(), ::testing::ElementsAreArray(counting_ids(length)));
    EXPECT_TRUE(holds_its_text(*restored));
    ASSERT_TRUE(extend(*restored, counting_ids(10, 900)));
    EXPECT_TRUE(holds_its_text(*restored));
  }
}

TEST(SequenceFile, HasOnlyThePagesThatAreLookedAt) {
  const SavedText saved(small_kv_shape({0, 100}), 300);
  // 5 pages of the layer that sees everything, and 2 of the one that sees 100 positions: from 201 on.
  const size_t head = 8 + 4 + 32 + 4 * 8 + 8 + 8 + 2 * 8 + 8 + 8 + 300 * 4;
  EXPECT_EQ(read_text_file(saved.path).size(), head + 7 * 2048 + 32);
}

TEST(SequenceFile, HasNothingOfWhatWasInAPageBefore) {
  const SavedText saved(small_kv_shape({0}), 10);
  const std::string bytes = read_text_file(saved.path);
  EXPECT_THAT(bytes, Not(HasSubstr(std::string(16, '\xAB')))) << "the device's memory is full of these";
  KvLab lab(small_kv_shape({0}));
  ASSERT_TRUE(text_of(lab, counting_ids(10)).save(saved.path, kModel));
  EXPECT_EQ(read_text_file(saved.path), bytes) << "the same text has the same file, which may replace another";
}

TEST(SequenceFile, ARestoredTextIsSharedWithOthers) {
  const SavedText saved(small_kv_shape({0}), 200);
  const KvLab other(small_kv_shape({0}));
  const auto restored = KvSequence::restore(saved.path, kModel, other.pool);
  ASSERT_TRUE(restored);
  KvSequence second = other.sequence();
  EXPECT_EQ(second.adopt(counting_ids(200)), 199U);
  EXPECT_TRUE(holds_its_text(second));
}

void expect_damage(const Result<SequenceHead>& checked, const std::string& what) {
  ASSERT_FALSE(checked) << what;
  EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt) << what << ": " << checked.error().message;
  EXPECT_THAT(checked.error().message, AllOf(HasSubstr("text.past"), HasSubstr("damaged"))) << what;
}

TEST(SequenceFile, EveryTruncationIsDamage) {
  const SavedText saved(small_kv_shape({0}, 100), 3);
  const std::string bytes = read_text_file(saved.path);
  const auto check = [&](ByteSpan mutant, const std::string& what) {
    const auto file = MemorySource::borrowing(mutant, "text.past");
    expect_damage(check_sequence_file(*file, kModel, saved.lab.pool->layout()), what);
  };
  truncations(as_bytes(bytes), check);
  check(as_bytes(bytes + "x"), "a byte more");
}

TEST(SequenceFile, EveryFlippedByteIsDamage) {
  const SavedText saved(small_kv_shape({0}, 100), 3);
  std::string bytes = read_text_file(saved.path);
  const auto file = MemorySource::borrowing(as_bytes(bytes), "text.past");
  ASSERT_TRUE(check_sequence_file(*file, kModel, saved.lab.pool->layout()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {1, 128, 255}) {
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      expect_damage(check_sequence_file(*file, kModel, saved.lab.pool->layout()), "byte " + std::to_string(i));
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
    }
  }
}

TEST(SequenceFile, ThatIsDamagedGivesNoSequence) {
  const SavedText saved(small_kv_shape({0}), 200);
  std::string bytes = read_text_file(saved.path);
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  saved.folder.write("text.past", bytes);
  saved.lab.pool->forget_kept();
  const Error error = restore_error(saved.path, saved.lab);
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_EQ(error.message, saved.path + ": this saved sequence is damaged: its digest does not match its contents");
  EXPECT_EQ(saved.lab.pool->counters().bytes, 0U);
}

TEST(SequenceFile, OfAnotherModelIsToldApartFromDamage) {
  const SavedText saved(small_kv_shape({0}), 10);
  const Error error = restore_error(saved.path, saved.lab, model_digest(0xCD));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(saved.path), HasSubstr("another model"), HasSubstr("ab00"), HasSubstr("cd00")));
}

TEST(SequenceFile, OfAnotherShapeSaysWhich) {
  const SavedText saved(small_kv_shape({0, 0}), 10);
  const Error sizes = restore_error(saved.path, KvLab(small_kv_shape({0, 0, 0})));
  EXPECT_EQ(sizes.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(sizes.message, AllOf(HasSubstr("2 layers, 2 KV heads of 2 f32, context 4096"), HasSubstr("3 layers")));
  const Error windows = restore_error(saved.path, KvLab(small_kv_shape({0, 100})));
  EXPECT_EQ(windows.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(windows.message, HasSubstr("other attention windows"));
  KvShape half = small_kv_shape({0, 0});
  half.dtype = DType::kF16;
  EXPECT_THAT(restore_error(saved.path, KvLab(half)).message, HasSubstr("of 2 f16"));
}

TEST(SequenceFile, OfALaterVersionSaysSo) {
  const SavedText saved(small_kv_shape({0}), 10);
  std::string bytes = read_text_file(saved.path);
  bytes[8] = 2;
  saved.folder.write("text.past", with_digest(bytes));
  const Error error = restore_error(saved.path, saved.lab);
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("version 2"));
}

TEST(SequenceFile, WhoseNumbersLieIsDamagedEvenIfItsDigestFits) {
  const SavedText saved(small_kv_shape({0}), 10);
  const std::string bytes = read_text_file(saved.path);
  const size_t length_at = 8 + 4 + 32 + 4 * 8 + 8 + 8 + 8 + 8;
  for (const uint64_t length : {uint64_t{9}, uint64_t{11}, uint64_t{4096}, uint64_t{4097}, UINT64_MAX}) {
    std::string lying = bytes;
    store_le(reinterpret_cast<std::byte*>(lying.data()) + length_at, length);
    saved.folder.write("text.past", with_digest(lying));
    const Error error = restore_error(saved.path, saved.lab);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
    EXPECT_THAT(error.message, HasSubstr(std::to_string(length)));
  }
}

TEST(SequenceFile, ThatIsMissingIsNotFound) {
  const KvLab lab(small_kv_shape({0}));
  EXPECT_EQ(restore_error(TempFolder().path("none"), lab).code, ErrorCode::kNotFound);
}

TEST(SequenceFile, ThatDoesNotFitThePoolIsToldAndCostsNothing) {
  const SavedText saved(small_kv_shape({0}), 300);
  const KvLab small(small_kv_shape({0}), {.most_bytes = 4 * 2048});
  EXPECT_EQ(restore_error(saved.path, small).code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(small.pool->counters().pages_in_use, 0U);
}

TEST(SequenceFile, ADeviceThatFailsLeavesTheOldFile) {
  const SavedText saved(small_kv_shape({0}), 100);
  const std::string before = read_text_file(saved.path);
  const KvSequence text = text_of(saved.lab, counting_ids(100, 900));
  saved.lab.ledger->failing_call = saved.lab.ledger->calls + 2;
  const auto written = text.save(saved.path, kModel);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_EQ(read_text_file(saved.path), before);
  EXPECT_THAT(saved.folder.names(), ElementsAre("text.past"));
}

TEST(SequenceFile, ADeviceThatFailsWhileReadingLeaksNothing) {
  const SavedText saved(small_kv_shape({0}), 200);
  for (uint64_t n = 1; n <= 8; ++n) {  // 4 pages, each allocated and filled
    const KvLab other(small_kv_shape({0}));
    other.ledger->failing_call = n;
    EXPECT_EQ(restore_error(saved.path, other).code, ErrorCode::kIo);
    EXPECT_EQ(other.pool->counters().bytes, 0U);
    EXPECT_TRUE(KvSequence::restore(saved.path, kModel, other.pool)) << "the next one works";
  }
}

}  // namespace
}  // namespace ballast::testing
