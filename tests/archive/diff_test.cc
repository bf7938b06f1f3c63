#include "ballast/archive/diff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "ballast/archive/write.h"
#include "ballast/formats/drivers.h"
#include "tests/support/memory_archive.h"

namespace ballast::testing {
namespace {

using F64 = std::vector<double>;
using U16 = std::vector<uint16_t>;

DiffReport diff(const Archive& a, const Archive& b, const DiffOptions& options = {}) {
  auto report = diff_archives(a, b, options);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return report ? *report : DiffReport{};
}

DiffReport diff(const MemoryArchive& a, const MemoryArchive& b, const DiffOptions& options = {}) {
  return diff(a.build(), b.build(), options);
}

// The only entry of a report.
DiffEntry diff_one(const MemoryArchive& a, const MemoryArchive& b, const DiffOptions& options = {}) {
  const DiffReport report = diff(a, b, options);
  EXPECT_EQ(report.entries.size(), 1U);
  return report.entries.empty() ? DiffEntry{} : report.entries.front();
}

MemoryArchive one_f32(const F32& values) { return MemoryArchive().add("w", DType::kF32, {values.size()}, values); }

TEST(Diff, EqualArchivesInAnyOrderAreEqual) {
  const auto a = MemoryArchive().add("x", DType::kF32, {2}, F32{1, 2}).add("y", DType::kU8, {1}, U8{7});
  const auto b = MemoryArchive().add("y", DType::kU8, {1}, U8{7}).add("x", DType::kF32, {2}, F32{1, 2});
  const DiffReport report = diff(a, b);
  EXPECT_TRUE(report.equal());
  EXPECT_EQ(report.count(DiffKind::kSame), 2U);
  ASSERT_EQ(report.entries.size(), 2U);
  EXPECT_EQ(report.entries[0].name_a, "x");  // in A's order
  EXPECT_EQ(report.entries[0].name_b, "x");
  EXPECT_EQ(report.entries[0].change.elements, 2U);
  EXPECT_EQ(report.entries[0].change.differing, 0U);
}

TEST(Diff, ArchivesWithoutTensorsAreEqual) { EXPECT_TRUE(diff(MemoryArchive(), MemoryArchive()).equal()); }

TEST(Diff, EmptyTensorsAreTheSameWhenTheirShapesAre) {
  const auto a = MemoryArchive().add("e", DType::kF32, {0, 3}, F32{});
  EXPECT_TRUE(diff(a, a).equal());
  const auto b = MemoryArchive().add("e", DType::kF32, {3, 0}, F32{});
  EXPECT_FALSE(diff(a, b).equal());
}

TEST(Diff, TellsWhatIsOnlyOnOneSideInOrder) {
  const auto a = MemoryArchive().add("a1", DType::kF32, {1}, F32{1}).add("both", DType::kF32, {1}, F32{2});
  const auto b = MemoryArchive()
                     .add("b2", DType::kF32, {1}, F32{3})
                     .add("both", DType::kF32, {1}, F32{2})
                     .add("b1", DType::kF32, {1}, F32{4});
  const DiffReport report = diff(a, b);
  EXPECT_FALSE(report.equal());
  ASSERT_EQ(report.entries.size(), 4U);
  EXPECT_EQ(report.entries[0].kind, DiffKind::kOnlyInA);
  EXPECT_EQ(report.entries[0].name_a, "a1");
  EXPECT_EQ(report.entries[0].name_b, "");
  EXPECT_EQ(report.entries[1].kind, DiffKind::kSame);
  EXPECT_EQ(report.entries[2].kind, DiffKind::kOnlyInB);
  EXPECT_EQ(report.entries[2].name_a, "");
  EXPECT_EQ(report.entries[2].name_b, "b2");
  EXPECT_EQ(report.entries[3].name_b, "b1");
}

TEST(Diff, MeasuresChangedValues) {
  const DiffEntry entry = diff_one(one_f32({1, 2, 4}), one_f32({1, 2.5F, 2}));
  EXPECT_EQ(entry.kind, DiffKind::kChanged);
  EXPECT_EQ(entry.note, "");
  EXPECT_TRUE(entry.change.comparable);
  EXPECT_FALSE(entry.change.within_tolerance);
  EXPECT_EQ(entry.change.elements, 3U);
  EXPECT_EQ(entry.change.differing, 2U);
  EXPECT_EQ(entry.change.max_abs, 2);
  EXPECT_EQ(entry.change.max_rel, 1);
  EXPECT_EQ(entry.change.max_ulp, 1U << 23);
}

TEST(Diff, ANegativeZeroIsAChange) {
  const DiffReport report = diff(one_f32({0.0F}), one_f32({-0.0F}));
  EXPECT_FALSE(report.equal());
  EXPECT_EQ(report.entries[0].change.differing, 1U);
  EXPECT_EQ(report.entries[0].change.max_abs, 0);
  EXPECT_TRUE(diff(one_f32({0.0F}), one_f32({-0.0F}), {.rtol = 0, .atol = 1e-9, .threads = 0, .progress = {}}).equal());
}

TEST(Diff, NanEqualsNanOfTheSameBitsAndUnderToleranceAnyNan) {
  const float nan = std::nanf("");
  const auto other = std::bit_cast<float>(0x7FC12345U);
  EXPECT_TRUE(diff(one_f32({nan}), one_f32({nan})).equal());
  EXPECT_FALSE(diff(one_f32({nan}), one_f32({other})).equal());
  DiffOptions tolerant;
  tolerant.rtol = 1e-5;
  EXPECT_TRUE(diff(one_f32({nan}), one_f32({other}), tolerant).equal());
  EXPECT_FALSE(diff(one_f32({nan}), one_f32({1}), tolerant).equal());
}

TEST(Diff, ChangesWithinToleranceCountAsEqual) {
  DiffOptions options;
  options.atol = 0.5;
  const DiffReport within = diff(one_f32({1, 2}), one_f32({1.25F, 2}), options);
  EXPECT_TRUE(within.equal());
  EXPECT_EQ(within.entries[0].kind, DiffKind::kChanged);
  EXPECT_TRUE(within.entries[0].change.within_tolerance);
  EXPECT_EQ(within.entries[0].change.differing, 0U);
  EXPECT_EQ(within.entries[0].change.max_abs, 0.25);
  const DiffReport beyond = diff(one_f32({1, 2}), one_f32({1.25F, 3}), options);
  EXPECT_FALSE(beyond.equal());
  EXPECT_EQ(beyond.entries[0].change.differing, 1U);
}

TEST(Diff, RefusesImpossibleTolerances) {
  for (const double bad : {-1.0, std::nan("")}) {
    DiffOptions options;
    options.rtol = bad;
    const auto report = diff_archives(MemoryArchive().build(), MemoryArchive().build(), options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Diff, AnotherDtypeIsAChangeEvenWithEqualValues) {
  const auto a = MemoryArchive().add("w", DType::kF32, {2}, F32{1, 2});
  const auto b = MemoryArchive().add("w", DType::kF16, {2}, U16{0x3C00, 0x4000});
  const DiffReport report = diff(a, b);
  EXPECT_FALSE(report.equal());
  EXPECT_EQ(report.entries[0].kind, DiffKind::kChanged);
  EXPECT_EQ(report.entries[0].note, "dtype f32 -> f16");
  EXPECT_TRUE(report.entries[0].change.comparable);
  EXPECT_EQ(report.entries[0].change.differing, 0U);
  DiffOptions tolerant;
  tolerant.rtol = 1e-3;
  EXPECT_TRUE(diff(a, b, tolerant).equal());
}

TEST(Diff, MeasuresTheLossOfANarrowerDtype) {
  const auto a = MemoryArchive().add("w", DType::kF32, {2}, F32{1, 0.1F});
  const auto b = MemoryArchive().add("w", DType::kBF16, {2}, U16{0x3F80, 0x3DCD});
  const DiffEntry entry = diff_one(a, b);
  EXPECT_EQ(entry.note, "dtype f32 -> bf16");
  EXPECT_EQ(entry.change.differing, 1U);
  EXPECT_NEAR(entry.change.max_abs, 0.000097, 1e-6);
  EXPECT_EQ(entry.change.max_ulp, 0U);
}

TEST(Diff, TheSameBytesOfAnotherDtypeAreAChange) {
  const auto a = MemoryArchive().add("w", DType::kI32, {2}, std::vector<int32_t>{1, 2});
  const auto b = MemoryArchive().add("w", DType::kU32, {2}, std::vector<uint32_t>{1, 2});
  const DiffReport report = diff(a, b);
  EXPECT_FALSE(report.equal());
  EXPECT_EQ(report.entries[0].note, "dtype i32 -> u32");
}

TEST(Diff, AnotherShapeIsAChangeThatIsNotMeasured) {
  const auto a = MemoryArchive().add("w", DType::kF32, {2, 3}, F32(6, 1));
  const auto b = MemoryArchive().add("w", DType::kF32, {6}, F32(6, 1));
  const DiffEntry entry = diff_one(a, b);
  EXPECT_EQ(entry.kind, DiffKind::kChanged);
  EXPECT_EQ(entry.note, "shape [2, 3] -> [6]");
  EXPECT_FALSE(entry.change.comparable);
  DiffOptions tolerant;
  tolerant.atol = 100;
  EXPECT_FALSE(diff(a, b, tolerant).equal());
}

TEST(Diff, DtypeAndShapeAreBothNoted) {
  const auto a = MemoryArchive().add("w", DType::kF32, {2}, F32(2, 1));
  const auto b = MemoryArchive().add("w", DType::kF64, {3}, F64(3, 1));
  EXPECT_EQ(diff_one(a, b).note, "dtype f32 -> f64, shape [2] -> [3]");
}

TEST(Diff, CarriedTypesAreComparedByBytesAlone) {
  const auto make = [](std::string scheme, const U8& bytes) {
    TensorInfo info;
    info.name = "q";
    info.dtype = DType::kQFloat;
    info.shape = {4};
    info.set_scheme(std::move(scheme));
    return MemoryArchive().add_bytes(info, std::as_bytes(std::span(bytes)));
  };
  EXPECT_TRUE(diff(make("q8", {1, 2, 3}), make("q8", {1, 2, 3})).equal());
  const DiffEntry changed = diff_one(make("q8", {1, 2, 3}), make("q8", {1, 2, 4}));
  EXPECT_EQ(changed.kind, DiffKind::kChanged);
  EXPECT_FALSE(changed.change.comparable);
  EXPECT_EQ(diff_one(make("q8", {1, 2, 3}), make("q4", {1, 2, 3})).note, "dtype qfloat:q8 -> qfloat:q4");
  EXPECT_EQ(diff_one(make("q8", {1, 2, 3}), make("q8", {1, 2})).note, "bytes 3 -> 2");
  DiffOptions tolerant;
  tolerant.atol = 1e9;
  EXPECT_FALSE(diff(make("q8", {1, 2, 3}), make("q8", {1, 2, 4}), tolerant).equal());
}

TEST(Diff, LongDoublesAreComparedByBytesAlone) {
  const auto make = [](uint8_t last) {
    U8 bytes(32, 1);
    bytes.back() = last;
    return MemoryArchive().add("w", DType::kF128, {2}, bytes);
  };
  EXPECT_TRUE(diff(make(1), make(1)).equal());
  EXPECT_FALSE(diff(make(1), make(2)).equal());
}

TEST(Diff, FindsRenamedTensorsByContent) {
  const auto a = MemoryArchive().add("old.w", DType::kF32, {2}, F32{1, 2}).add("gone", DType::kF32, {2}, F32{3, 4});
  const auto b = MemoryArchive().add("added", DType::kF32, {2}, F32{5, 6}).add("new.w", DType::kF32, {2}, F32{1, 2});
  const DiffReport report = diff(a, b);
  EXPECT_FALSE(report.equal());
  ASSERT_EQ(report.entries.size(), 3U);
  EXPECT_EQ(report.entries[0].kind, DiffKind::kRenamed);
  EXPECT_EQ(report.entries[0].name_a, "old.w");
  EXPECT_EQ(report.entries[0].name_b, "new.w");
  EXPECT_EQ(report.entries[1].kind, DiffKind::kOnlyInA);
  EXPECT_EQ(report.entries[2].kind, DiffKind::kOnlyInB);
  EXPECT_EQ(report.entries[2].name_b, "added");
}

TEST(Diff, EqualRenamedTensorsArePairedInOrder) {
  const auto a = MemoryArchive().add("a1", DType::kF32, {1}, F32{0}).add("a2", DType::kF32, {1}, F32{0});
  const auto b = MemoryArchive()
                     .add("b1", DType::kF32, {1}, F32{0})
                     .add("b2", DType::kF32, {1}, F32{0})
                     .add("b3", DType::kF32, {1}, F32{0});
  const DiffReport report = diff(a, b);
  ASSERT_EQ(report.entries.size(), 3U);
  EXPECT_EQ(report.entries[0].name_b, "b1");
  EXPECT_EQ(report.entries[1].name_b, "b2");
  EXPECT_EQ(report.entries[2].kind, DiffKind::kOnlyInB);
  EXPECT_EQ(report.entries[2].name_b, "b3");
}

TEST(Diff, TheSameBytesOfAnotherTypeOrShapeAreNotARename) {
  const auto a = MemoryArchive().add("a", DType::kF32, {2}, F32{1, 2});
  EXPECT_EQ(diff(a, MemoryArchive().add("b", DType::kF32, {2, 1}, F32{1, 2})).count(DiffKind::kRenamed), 0U);
  EXPECT_EQ(diff(a, MemoryArchive().add("b", DType::kFlex32, {2}, F32{1, 2})).count(DiffKind::kRenamed), 0U);
}

TEST(Diff, StoredFormsDoNotMatter) {
  const auto plain = MemoryArchive().add("w", DType::kF32, {3}, F32{1, 2, 3});
  const auto swapped = MemoryArchive().add("w", DType::kF32, {3}, F32{1, 2, 3}).make_big_endian();
  EXPECT_TRUE(diff(plain, swapped).equal());
  EXPECT_TRUE(diff(swapped, swapped).equal());
  const auto other = MemoryArchive().add("w", DType::kF32, {3}, F32{1, 2, 5}).make_big_endian();
  const DiffEntry entry = diff_one(plain, other);
  EXPECT_EQ(entry.change.differing, 1U);
  EXPECT_EQ(entry.change.max_abs, 2);
  EXPECT_EQ(diff(MemoryArchive().add("x", DType::kF32, {3}, F32{1, 2, 3}), swapped).count(DiffKind::kRenamed), 1U);
}

TEST(Diff, EveryFormatThatHoldsATensorHoldsTheSameTensor) {
  const MemoryArchive content = MemoryArchive()
                                    .add("0:weight", DType::kF32, {2, 3}, F32{1, 2, 3, 4, 5, 6})
                                    .add("0:bias", DType::kF32, {3}, F32{7, 8, 9});
  const Archive source = content.build();
  for (const FormatDriver* format : {&kSafetensorsDriver, &kBurnpackDriver, &kGptrsTensorsDriver, &kNpzDriver}) {
    const auto bytes = write_archive_bytes(*format, make_plan(source));
    ASSERT_TRUE(bytes) << format->name << ": " << bytes.error().message;
    EXPECT_TRUE(diff(source, open_or_die(*format, *bytes)).equal()) << format->name;
  }
  WriteOptions options;
  options.compress = true;
  const auto compressed = write_archive_bytes(kNpzDriver, make_plan(source), options);
  ASSERT_TRUE(compressed);
  EXPECT_TRUE(diff(source, open_or_die(kNpzDriver, *compressed)).equal());
}

TEST(Diff, ADamagedCompressedPayloadIsAnError) {
  F32 values(1000);  // hardly compressible, so that the damage below misses the NPY header
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const Archive source = MemoryArchive().add("w", DType::kF32, {1000}, values).build();
  WriteOptions options;
  options.compress = true;
  auto bytes = write_archive_bytes(kNpzDriver, make_plan(source), options);
  ASSERT_TRUE(bytes);
  const StoredExtent extent = open_or_die(kNpzDriver, *bytes).extent(0);
  (*bytes)[extent.offset + extent.length / 2] ^= std::byte{0xFF};
  const auto report = diff_archives(source, open_or_die(kNpzDriver, *bytes));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
}

// Large enough for many pieces, with changes at both ends, on a piece's edge and in the middle.
constexpr size_t kLargeCount = 3'000'001;
F32 large_values() {
  F32 values(kLargeCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * 0.25F;
  return values;
}
F32 large_changed() {
  F32 values = large_values();
  for (const size_t at : {size_t{0}, size_t{262143}, size_t{262144}, size_t{1'500'000}, kLargeCount - 1})
    values[at] += 1;
  return values;
}

TEST(Diff, LargeTensorsAreComparedWholeAndByAnyNumberOfThreads) {
  const auto a =
      MemoryArchive().add("w", DType::kF32, {kLargeCount}, large_values()).add("s", DType::kF32, {1}, F32{1});
  const auto b =
      MemoryArchive().add("s", DType::kF32, {1}, F32{3}).add("w", DType::kF32, {kLargeCount}, large_changed());
  for (const unsigned threads : {1U, 2U, 7U}) {
    DiffOptions options;
    options.threads = threads;
    for (const bool viewable : {true, false}) {
      const DiffReport report =
          viewable ? diff(a.build(), b.build(), options) : diff(a.build_unviewable(), b.build_unviewable(), options);
      ASSERT_EQ(report.entries.size(), 2U);
      EXPECT_EQ(report.entries[0].name_a, "w");
      EXPECT_EQ(report.entries[0].change.differing, 5U);
      EXPECT_EQ(report.entries[0].change.elements, kLargeCount);
      EXPECT_EQ(report.entries[0].change.max_abs, 1);
      EXPECT_EQ(report.entries[1].change.max_abs, 2);
    }
  }
}

TEST(Diff, LargeTensorsOfDifferentWidthsArePairedElementByElement) {
  const F32 values = large_values();
  F64 wide(values.begin(), values.end());
  wide[kLargeCount - 2] += 3;
  const DiffEntry entry = diff_one(MemoryArchive().add("w", DType::kF32, {kLargeCount}, values),
                                   MemoryArchive().add("w", DType::kF64, {kLargeCount}, wide));
  EXPECT_EQ(entry.change.differing, 1U);
  EXPECT_EQ(entry.change.max_abs, 3);
}

TEST(Diff, LargeTensorsOfPackedTypesAreComparedToTheLastElement) {
  U8 bytes(3'000'000, 0x55);
  const auto a = MemoryArchive().add("w", DType::kF6E2M3, {4'000'000}, bytes);
  bytes.back() ^= 0x80;  // the sign of the last element
  const DiffEntry entry = diff_one(a, MemoryArchive().add("w", DType::kF6E2M3, {4'000'000}, bytes));
  EXPECT_EQ(entry.change.elements, 4'000'000U);
  EXPECT_EQ(entry.change.differing, 1U);
}

TEST(Diff, ReportsProgressOnTheCallersThreadUpToTheTotal) {
  const auto a = MemoryArchive().add("w", DType::kF32, {kLargeCount}, large_values());
  uint64_t last = 0;
  uint64_t total = 0;
  DiffOptions options;
  options.threads = 1;
  const std::thread::id caller = std::this_thread::get_id();
  options.progress = [&](const ProgressUpdate& update) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(update.activity, "comparing");
    EXPECT_GE(update.done, last);
    last = update.done;
    total = update.total;
    return true;
  };
  EXPECT_TRUE(diff(a, a, options).equal());
  EXPECT_EQ(total, kLargeCount * 8);
  EXPECT_EQ(last, total);
}

TEST(Diff, StopsWhenAskedTo) {
  const auto a = MemoryArchive().add("w", DType::kF32, {kLargeCount}, large_values());
  for (const unsigned threads : {1U, 3U}) {
    DiffOptions options;
    options.threads = threads;
    options.progress = [](const ProgressUpdate&) { return false; };
    const auto report = diff_archives(a.build(), a.build(), options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  }
}

TEST(Diff, ManyTensorsTakeNoQuadraticTime) {
  MemoryArchive a;
  MemoryArchive b;
  for (int i = 0; i < 100'000; ++i) {
    a.add("layer." + std::to_string(i), DType::kU8, {1}, U8{static_cast<uint8_t>(i)});
    b.add("renamed." + std::to_string(i), DType::kU8, {1}, U8{static_cast<uint8_t>(i)});
  }
  const Archive archive_a = a.build();
  const Archive archive_b = b.build();
  EXPECT_EQ(diff(archive_a, archive_a).count(DiffKind::kSame), 100'000U);
  EXPECT_EQ(diff(archive_a, archive_b).count(DiffKind::kRenamed), 100'000U);
}

// ---- transposed

MemoryArchive matrix(const std::string& name, const Shape& shape, const F32& values) {
  return MemoryArchive().add(name, DType::kF32, shape, values);
}

TEST(DiffTransposed, AMatrixOfTheSameNameWithItsAxesSwapped) {
  const DiffEntry entry = diff_one(matrix("w", {2, 3}, {1, 2, 3, 4, 5, 6}), matrix("w", {3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(entry.kind, DiffKind::kTransposed);
  EXPECT_EQ(entry.note, "shape [2, 3] -> [3, 2]");
  EXPECT_EQ(entry.change.elements, 6U);
  EXPECT_FALSE(diff(matrix("w", {2, 3}, {1, 2, 3, 4, 5, 6}), matrix("w", {3, 2}, {1, 4, 2, 5, 3, 6})).equal());
}

TEST(DiffTransposed, ASquareMatrix) {
  const DiffEntry entry = diff_one(matrix("w", {2, 2}, {1, 2, 3, 4}), matrix("w", {2, 2}, {1, 3, 2, 4}));
  EXPECT_EQ(entry.kind, DiffKind::kTransposed);
  EXPECT_EQ(entry.note, "");
  EXPECT_EQ(entry.change.differing, 0U);
}

TEST(DiffTransposed, ASymmetricMatrixIsTheSame) {
  EXPECT_TRUE(diff(matrix("w", {2, 2}, {1, 2, 2, 4}), matrix("w", {2, 2}, {1, 2, 2, 4})).equal());
}

TEST(DiffTransposed, OneOtherBitIsAChange) {
  EXPECT_EQ(diff_one(matrix("w", {2, 3}, {1, 2, 3, 4, 5, 6}), matrix("w", {3, 2}, {1, 4, 2, 5, 3, 7})).kind,
            DiffKind::kChanged);
  EXPECT_EQ(diff_one(matrix("w", {1, 2}, {0, 1}), matrix("w", {2, 1}, {-0.0F, 1})).kind, DiffKind::kChanged);
}

TEST(DiffTransposed, UnderAnotherNameToo) {
  const auto a = matrix("old", {2, 3}, {1, 2, 3, 4, 5, 6}).add("square", DType::kF32, {2, 2}, F32{1, 2, 3, 4});
  const auto b = matrix("other", {3, 2}, {9, 4, 2, 5, 3, 6})
                     .add("new", DType::kF32, {3, 2}, F32{1, 4, 2, 5, 3, 6})
                     .add("turned", DType::kF32, {2, 2}, F32{1, 3, 2, 4});
  const DiffReport report = diff(a, b);
  ASSERT_EQ(report.entries.size(), 3U);
  EXPECT_EQ(report.entries[0].kind, DiffKind::kTransposed);
  EXPECT_EQ(report.entries[0].name_b, "new");
  EXPECT_EQ(report.entries[0].note, "shape [2, 3] -> [3, 2]");
  EXPECT_EQ(report.entries[1].kind, DiffKind::kTransposed);
  EXPECT_EQ(report.entries[1].name_b, "turned");
  EXPECT_EQ(report.entries[2].kind, DiffKind::kOnlyInB);
  EXPECT_EQ(report.entries[2].name_b, "other");
}

TEST(DiffTransposed, RenamedAsItIsComesFirst) {
  const auto a = matrix("old", {2, 2}, {1, 2, 3, 4});
  const auto b = matrix("turned", {2, 2}, {1, 3, 2, 4}).add("new", DType::kF32, {2, 2}, F32{1, 2, 3, 4});
  const DiffReport report = diff(a, b);
  EXPECT_EQ(report.entries[0].kind, DiffKind::kRenamed);
  EXPECT_EQ(report.entries[0].name_b, "new");
}

TEST(DiffTransposed, AnotherTypeOrRankIsNot) {
  const auto a = MemoryArchive().add("w", DType::kF32, {1, 2}, F32{1, 2});
  EXPECT_EQ(diff_one(a, MemoryArchive().add("w", DType::kI32, {2, 1}, F32{1, 2})).kind, DiffKind::kChanged);
  EXPECT_EQ(diff_one(a, MemoryArchive().add("w", DType::kF32, {2, 1, 1}, F32{1, 2})).kind, DiffKind::kChanged);
}

// Larger than a tile in both directions, in all the ways in which a payload can be read.
TEST(DiffTransposed, LargeMatricesOfEveryElementSizeAndForm) {
  constexpr size_t kRows = 300;
  constexpr size_t kColumns = 517;
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64, DType::kC128}) {
    const size_t size = dtype_info(dtype).bits / 8;
    const ByteVector bytes = [&] {
      ByteVector made(kRows * kColumns * size);
      uint32_t state = 1;
      for (std::byte& byte : made) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
      return made;
    }();
    ByteVector turned(bytes.size());
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        std::memcpy(&turned[(column * kRows + row) * size], &bytes[(row * kColumns + column) * size], size);
      }
    }
    const auto a = MemoryArchive().add_bytes(make_info("w", dtype, {kRows, kColumns}), bytes);
    auto b = MemoryArchive().add_bytes(make_info("w", dtype, {kColumns, kRows}), turned);
    auto renamed = MemoryArchive().add_bytes(make_info("v", dtype, {kColumns, kRows}), turned);
    EXPECT_EQ(diff(a.build(), b.build()).count(DiffKind::kTransposed), 1U);
    EXPECT_EQ(diff(a.build_unviewable(), b.build_unviewable()).count(DiffKind::kTransposed), 1U);
    EXPECT_EQ(diff(a.build_unviewable(), renamed.build()).count(DiffKind::kTransposed), 1U);
    EXPECT_EQ(diff(a.build(), b.make_big_endian().build()).count(DiffKind::kTransposed), 1U);
    turned.back() ^= std::byte{1};
    const auto damaged = MemoryArchive().add_bytes(make_info("w", dtype, {kColumns, kRows}), turned);
    EXPECT_EQ(diff(a.build_unviewable(), damaged.build_unviewable()).count(DiffKind::kTransposed), 0U);
  }
}

}  // namespace
}  // namespace ballast::testing
