// PyTorch files that are damaged, or were made to hurt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/formats/drivers.h"
#include "tests/formats/pickle_builder.h"
#include "tests/support/bytes_of.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"
#include "tests/support/test_files.h"
#include "tests/support/torch_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// The first error of opening the file and reading all of it; nullopt where there is none.
std::optional<Error> first_error(const FormatDriver& driver, const ByteVector& bytes) {
  auto archive = open_bytes(driver, bytes);
  if (!archive) return std::move(archive).error();
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    auto payload = archive->payload(i);
    if (!payload) return std::move(payload).error();
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- the attack files

class TorchAttackFile : public ::testing::TestWithParam<TorchAttack> {
 protected:
  ByteVector bytes_ = read_test_data("torch_files/attacks/" + GetParam().file);
};

INSTANTIATE_TEST_SUITE_P(All, TorchAttackFile, ::testing::ValuesIn(torch_attacks()),
                         [](const auto& attack) { return test_name(attack.param.file); });

TEST(TorchAttackFiles, AreAllThere) { EXPECT_EQ(torch_attacks().size(), 185U); }

TEST_P(TorchAttackFile, IsRefusedOrReadAsItShouldBe) {
  const auto error = first_error(kTorchDriver, bytes_);
  if (GetParam().expect == "refuse" && !GetParam().tolerable) {
    ASSERT_TRUE(error) << "was read: " << GetParam().why;
  }
  if (GetParam().expect == "read") {
    EXPECT_FALSE(error) << error->message;
  }
  if (error) {
    EXPECT_THAT(error->code, AnyOf(ErrorCode::kCorrupt, ErrorCode::kUnsupported)) << error->message;
  }
}

TEST_P(TorchAttackFile, CostsLittleTimeAndMemory) { check_survives(kTorchDriver, bytes_, GetParam().why); }

TEST_P(TorchAttackFile, IsNotTakenByAnotherFormat) {
  const auto driver = detect_format({MemorySource::borrowing(bytes_), "model.pt", "", nullptr});
  if (driver && *driver != &kTorchDriver && GetParam().expect == "refuse") {
    EXPECT_TRUE(first_error(**driver, bytes_)) << (*driver)->name;
  }
}

TEST_P(TorchAttackFile, RanNothing) { EXPECT_FALSE(std::filesystem::exists("ballast_marker")); }

TEST(TorchAttackControls, HoldTheFloatsFrom0To5) {
  for (const TorchAttack& control : torch_attacks()) {
    if (!control.file.starts_with("control_")) continue;
    SCOPED_TRACE(control.file);
    const Archive archive = open_or_die(kTorchDriver, read_test_data("torch_files/attacks/" + control.file));
    ASSERT_EQ(archive.tensors().size(), 1U);
    EXPECT_EQ(archive.tensors()[0].name, "w");
    EXPECT_EQ(archive.tensors()[0].shape, Shape({2, 3}));
    EXPECT_EQ(as_text(archive.payload(0)->bytes()), float_storage("0", 6).content);
  }
}

// ---------------------------------------------------------------- damage

class TorchDamage : public ::testing::TestWithParam<std::string> {
 protected:
  ByteVector bytes_ = read_test_data("torch_files/files/" + GetParam());
};

INSTANTIATE_TEST_SUITE_P(Some, TorchDamage,
                         ::testing::Values("views.pt", "sd_complex.pt", "quantized.pt", "containers.pt", "proto4.pt",
                                           "module_state_dict.pt", "legacy_views.pt", "legacy_dtypes.pt",
                                           "legacy_proto4.pt", "deflated.pt", "big_endian.pt", "numpy_scalar.pt"),
                         [](const auto& fixture) { return test_name(fixture.param); });

TEST_P(TorchDamage, ByTruncationIsAlwaysNoticed) {
  truncations(bytes_, [&](ByteSpan cut, const std::string& what) {
    EXPECT_FALSE(check_survives(kTorchDriver, cut, what)) << what;
  });
}

TEST_P(TorchDamage, ByASingleBitGivesAnErrorOrASoundArchive) {
  bit_flips(bytes_, std::min<size_t>(bytes_.size(), 2500),
            [&](ByteSpan mutant, const std::string& what) { check_survives(kTorchDriver, mutant, what); });
}

TEST_P(TorchDamage, AtRandomGivesAnErrorOrASoundArchive) {
  for (const uint64_t seed : {uint64_t{7}, fresh_seed()}) {
    random_mutations(bytes_, seed, 500,
                     [&](ByteSpan mutant, const std::string& what) { check_survives(kTorchDriver, mutant, what); });
  }
}

// Damage to a zip's pickle is caught by its checksum; without one, the machine itself meets every mutant.
TEST_P(TorchDamage, OfThePickleAloneGivesAnErrorOrASoundArchive) {
  const auto listed = [&](Findings findings) { return read_zip_directory(*MemorySource::borrowing(bytes_), findings); };
  if (!looks_like_zip(bytes_)) return;
  const auto directory = listed(Findings::stop_at_first_error());
  ASSERT_TRUE(directory);
  std::vector<ZipInput> members;
  size_t pickle = 0;
  for (const ZipMember& member : directory->members) {
    if (member.name.ends_with("/data.pkl")) pickle = members.size();
    std::string content(member.size, '\0');
    const MutableByteSpan out = std::as_writable_bytes(std::span(content));
    const auto source = MemorySource::borrowing(bytes_);
    ASSERT_TRUE(member.deflated ? inflate(*source, member.data_offset, member.stored_size, out, true)
                                : source->read_at(member.data_offset, out));
    members.push_back({member.name, content});
  }
  const std::string sound = members[pickle].content;
  const auto check = [&](ByteSpan mutant, const std::string& what) {
    members[pickle].content = as_text(mutant);
    check_survives(kTorchDriver, build_zip(members).take(), what);
  };
  truncations(as_bytes(sound), check);
  bit_flips(as_bytes(sound), std::min<size_t>(sound.size(), 800), check);
  random_mutations(as_bytes(sound), fresh_seed(), 1000, check);
}

// ---------------------------------------------------------------- single cases

std::string torch_refusal(const ZipParts& zip) {
  const auto error = first_error(kTorchDriver, zip.take());
  EXPECT_TRUE(error) << "was read";
  return error ? error->message : "";
}

std::string good_tensor() { return py::tensor(py::storage("0", 6), 0, {2, 3}, {3, 1}); }

TEST(TorchHostile, NamesThatDifferInCaseAreRefused) {
  const std::string object = py::dict({py::text("w"), good_tensor()});
  EXPECT_THAT(torch_refusal(torch_zip(object, {float_storage("0", 6), {"m/DATA.PKL", "x"}})),
              HasSubstr("differ at most in upper and lower case"));
}

TEST(TorchHostile, TwoWaysToOneNameAreRefused) {
  const std::string object =
      py::dict({py::text("a.b"), good_tensor(), py::text("a"), py::dict({py::text("b"), good_tensor()})});
  EXPECT_THAT(torch_refusal(torch_zip(object, {float_storage("0", 6)})), HasSubstr("two tensors are called \"a.b\""));
  const std::string values = py::dict({py::text("0"), py::kTrue, py::integer(0), py::kFalse});
  EXPECT_THAT(torch_refusal(torch_zip(values, {})), HasSubstr("two values are called \"0\""));
}

TEST(TorchHostile, ViewsThatRepeatWithoutBoundAreRefused) {
  const std::string object = py::dict({py::text("w"), py::tensor(py::storage("0", 6), 0, {1 << 20, 1 << 20}, {0, 0})});
  EXPECT_THAT(torch_refusal(torch_zip(object, {float_storage("0", 6)})), HasSubstr("far more than the file holds"));
}

TEST(TorchHostile, ManyNamesForOneTensorHaveALimit) {
  std::string object = "]" + good_tensor() + py::put(0) + "a(";
  for (int i = 0; i < 100'000; ++i) object += py::get(0);
  const ZipParts zip = torch_zip(object + "e", {float_storage("0", 6)});
  check_survives(kTorchDriver, zip.take(), "100000 references");
  EXPECT_THAT(torch_refusal(zip), HasSubstr("more values than are read"));
}

TEST(TorchHostile, LongKeysCannotBeMultiplied) {
  std::string object = "}" + py::text(std::string(1 << 19, 'k')) + "}(";
  for (int i = 0; i < 1000; ++i) object += py::text(std::to_string(i)) + py::kNone;
  const ZipParts zip = torch_zip(object + "us", {});
  check_survives(kTorchDriver, zip.take(), "1000 names of half a MiB");
  EXPECT_THAT(torch_refusal(zip), HasSubstr("more values than are read"));
}

TEST(TorchHostile, ADeflatedPickleHasALimit) {
  std::string object = "](";
  for (int i = 0; i < 100'000; ++i) object += py::text("the same text again and again, and once more, to fill space");
  EXPECT_THAT(torch_refusal(torch_zip(object + "e", {}, /*deflate=*/true)), HasSubstr("the most that are read"));
}

TEST(TorchHostile, WrappersAroundATensorHaveALimit) {
  std::string wrapped = good_tensor();
  for (int i = 0; i < 10; ++i) {
    wrapped = py::call(py::global("torch._utils", "_rebuild_parameter"), {wrapped, py::kTrue, py::ordered_dict()});
  }
  EXPECT_THAT(torch_refusal(torch_zip(wrapped, {float_storage("0", 6)})), HasSubstr("wrapped too often"));
}

TEST(TorchHostile, OneBadTensorLeavesTheOthersForTheDoctor) {
  const std::string object =
      py::dict({py::text("good"), good_tensor(), py::text("bad"), py::tensor(py::storage("0", 6), 1, {2, 3}, {3, 1})});
  Findings findings = Findings::rescue();
  OpenRequest request;
  request.source = MemorySource::owning(torch_zip(object, {float_storage("0", 6)}).take());
  const auto archive = kTorchDriver.open(request, findings);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_THAT(findings.damaged(), ::testing::ElementsAre("bad"));
  EXPECT_TRUE(archive->find("good"));
}

// ---------------------------------------------------------------- odd but sound

TEST(TorchViews, SlicesOfADeflatedStorageAreCutOut) {
  const std::string storage = py::storage("0", 6) + py::put(0);
  const std::string object = py::list({py::tensor(storage, 1, {2}, {1}), py::tensor(py::get(0), 3, {2}, {1}),
                                       py::tensor(py::get(0), 0, {3, 2}, {1, 3})});
  const Archive archive =
      open_or_die(kTorchDriver, torch_zip(object, {float_storage("0", 6, /*deflate=*/true)}).take());
  const auto floats = [&](size_t index) { return values_of<float>(archive.payload(index)->bytes()); };
  EXPECT_EQ(floats(0), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats(1), (std::vector<float>{3, 4}));
  EXPECT_EQ(floats(2), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(archive.tensors()[0].stored_form().empty());  // one place in the file, but not one payload
}

TEST(TorchViews, DamageAnywhereInAStorageIsNoticedForItsSlices) {
  const std::string object = py::dict({py::text("w"), py::tensor(py::storage("0", 6), 1, {2}, {1})});
  ZipParts zip = torch_zip(object, {float_storage("0", 6)});
  EXPECT_FALSE(first_error(kTorchDriver, zip.take()));
  zip.bytes[zip.data[2] + 23] ^= 1;
  EXPECT_THAT(torch_refusal(zip), HasSubstr("CRC-32"));
}

TEST(TorchNames, LongListsOfPlainValuesAreOneText) {
  std::string numbers = "](";
  std::string expected = "[";
  for (int i = 0; i < 65; ++i) {
    numbers += py::integer(i);
    expected += (i == 0 ? "" : ", ") + std::to_string(i);
  }
  const Archive archive = open_or_die(kTorchDriver, torch_zip(py::dict({py::text("order"), numbers + "e"}), {}).take());
  ASSERT_EQ(archive.description().metadata.size(), 1U);
  EXPECT_EQ(archive.description().metadata[0], (MetaEntry{"order", expected + "]"}));
}

TEST(TorchNames, AnObjectThatIsNoContainerHasAName) {
  const Archive number = open_or_die(kTorchDriver, torch_zip(py::integer(5), {}).take());
  EXPECT_EQ(number.description().metadata[0], (MetaEntry{"value", int64_t{5}}));
  const Archive tensor = open_or_die(kTorchDriver, torch_zip(good_tensor(), {float_storage("0", 6)}).take());
  EXPECT_EQ(tensor.tensors()[0].name, "tensor");
}

}  // namespace
}  // namespace ballast
