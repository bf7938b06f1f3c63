#include "ballast/archive/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tensors t0 ... t3 of 1000 f32 values each, every one with bytes of its own.
WritePlan four_tensors() {
  WritePlan plan;
  plan.description.metadata = {{"note", std::string("kept")}};
  for (unsigned i = 0; i < 4; ++i) {
    const TensorInfo info = make_info("t" + std::to_string(i), DType::kF32, {10, 100});
    plan.add_tensor(info, [i](ByteSink& sink) { return sink.write(counting_bytes(4000, 7 * i)); });
  }
  return plan;
}

std::string write_as(const TempFolder& folder, const std::string& name, const std::string& format,
                     const WriteOptions& options = {}) {
  WriteSettings settings;
  settings.format = options;
  settings.accept_losses = true;
  WritePlan plan = four_tensors();
  if (format != "safetensors" && format != "burnpack") plan.description.metadata.clear();
  const auto report = write_archive(folder.path(name), *find_format(format), plan, settings);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return folder.path(name);
}

void cut(const std::string& path, uint64_t bytes) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - bytes);
}

Diagnosis look_at(const std::string& path) {
  auto diagnosis = diagnose(path);
  EXPECT_TRUE(diagnosis) << (diagnosis ? "" : diagnosis.error().message);
  return diagnosis ? *std::move(diagnosis) : Diagnosis{};
}

std::vector<std::string> lost_names(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  for (const LostTensor& lost : diagnosis.lost) names.push_back(lost.name);
  return names;
}

Result<RescueReport> rescue_path(const std::string& path, const std::string& to) {
  const auto resolved = resolve_path(path, {.access = FileAccess::kPositional});
  EXPECT_TRUE(resolved);
  return rescue(resolved->request, to, *find_format("safetensors"));
}

// Every tensor in the rescued file holds what four_tensors() says.
void expect_sound_copy(const std::string& path, size_t count) {
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->tensors().size(), count);
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    const auto number = static_cast<unsigned>(archive->tensors()[i].name.back() - '0');
    const auto payload = archive->payload(i);
    ASSERT_TRUE(payload);
    EXPECT_TRUE(std::ranges::equal(payload->bytes(), counting_bytes(4000, 7 * number))) << archive->tensors()[i].name;
  }
}

// ---------------------------------------------------------------- known formats

class Rescue : public ::testing::TestWithParam<const char*> {};

TEST_P(Rescue, ASoundFileHasNothingWrong) {
  const TempFolder folder;
  const Diagnosis diagnosis = look_at(write_as(folder, "a", GetParam()));
  EXPECT_EQ(diagnosis.verdict, Verdict::kSound) << diagnosis.what;
  EXPECT_EQ(diagnosis.format, GetParam());
  EXPECT_EQ(diagnosis.sound_tensors, 4U);
  EXPECT_THAT(diagnosis.lost, IsEmpty());
}

TEST_P(Rescue, OfATruncatedFileTheWholeTensorsAreSaved) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a", GetParam());
  // Also without what follows the last tensor in an npz.
  cut(path, std::string_view(GetParam()) == "npz" ? 1000 : 100);
  const Diagnosis diagnosis = look_at(path);
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_THAT(diagnosis.cause, HasSubstr("cut short"));
  EXPECT_EQ(diagnosis.offset, diagnosis.size);
  EXPECT_EQ(diagnosis.sound_tensors, 3U);
  const auto report = rescue_path(path, folder.path("saved.safetensors"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->written.tensors, 3U);
  expect_sound_copy(folder.path("saved.safetensors"), 3);
}

// A disk that fails once says nothing about the file: every single read fails in turn.
TEST_P(Rescue, AReadErrorIsReportedAsSuchAndNotAsDamage) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a", GetParam());
  bool failed = true;
  int undisturbed_after = 0;
  for (int failing = 1; failed; ++failing) {
    failed = false;
    const FaultyFileSystem disk([&, reads = 0](const std::string& call, int) mutable {
      if (call != "read_at" || ++reads != failing) return 0;
      failed = true;
      return EIO;
    });
    const auto source = open_file(path, FileAccess::kPositional, &disk);
    ASSERT_TRUE(source);
    const auto diagnosis = diagnose({*source, "a"});
    if (!failed) {
      EXPECT_EQ(diagnosis->verdict, Verdict::kSound);
      undisturbed_after = failing;
    } else if (!diagnosis) {
      EXPECT_EQ(diagnosis.error().code, ErrorCode::kIo) << diagnosis.error().message;
    } else if (diagnosis->verdict != Verdict::kSound) {
      EXPECT_EQ(diagnosis->verdict, Verdict::kUnreadable) << "read " << failing << ": " << diagnosis->what;
      EXPECT_THAT(diagnosis->what, HasSubstr("Input/output error"));
      EXPECT_THAT(diagnosis->cause, HasSubstr("failed while the file was read"));
    }
  }
  EXPECT_GT(undisturbed_after, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Rescue, ::testing::Values("safetensors", "burnpack", "gptrs-tensors", "npz"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Doctor, NamesTheTensorThatIsLost) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a.safetensors", "safetensors");
  cut(path, 4100);  // into the one before the last
  EXPECT_THAT(lost_names(look_at(path)), ElementsAre("t2", "t3"));
}

TEST(Doctor, SavesMetadataToo) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a.safetensors", "safetensors");
  cut(path, 1);
  ASSERT_TRUE(rescue_path(path, folder.path("saved.safetensors")));
  const auto archive = open_archive(folder.path("saved.safetensors"));
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->description().metadata, four_tensors().description.metadata);
}

TEST(Doctor, BytesBehindTheLastTensorCostNothing) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a.safetensors", "safetensors");
  folder.write("b.safetensors", read_text_file(path) + "trailing");
  const Diagnosis diagnosis = look_at(folder.path("b.safetensors"));
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_THAT(diagnosis.cause, HasSubstr("appended"));
  EXPECT_EQ(diagnosis.sound_tensors, 4U);
  ASSERT_TRUE(rescue_path(folder.path("b.safetensors"), folder.path("c.safetensors")));
  EXPECT_TRUE(read_text_file(folder.path("c.safetensors")) == read_text_file(path));
}

std::string safetensors_file(std::string header, size_t payload) {
  std::string file;
  header.resize((header.size() + 7) / 8 * 8, ' ');
  append_le<uint64_t>(file, header.size());
  return file + header + std::string(payload, 'x');
}

TEST(Doctor, AHoleIsNoReasonToLoseTheTensorBehindIt) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                     R"("b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
                                                     12));
  const Diagnosis diagnosis = look_at(path);
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_EQ(diagnosis.sound_tensors, 2U);
  EXPECT_THAT(diagnosis.lost, IsEmpty());
}

TEST(Doctor, OfOverlappingTensorsOnlyTiedOnesAreSaved) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                     R"("tied":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                     R"("over":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                                                     6));
  const Diagnosis diagnosis = look_at(path);
  EXPECT_THAT(lost_names(diagnosis), ElementsAre("over"));
  EXPECT_EQ(diagnosis.sound_tensors, 2U);
}

TEST(Doctor, KeepsWhatStandsBeforeTheDamageInAHeader) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                                     R"("b":{"dtype":"U8","sha#e":[4],"data_offsets":[4,8]}})",
                                                     8));
  const Diagnosis diagnosis = look_at(path);
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_EQ(diagnosis.sound_tensors, 1U);
  ASSERT_TRUE(diagnosis.offset);
  EXPECT_GT(*diagnosis.offset, 60U);  // inside the entry of b
}

TEST(Doctor, ATensorWhoseShapeContradictsItsPlaceIsLost) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors_file(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]},)"
                                                     R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                                                     8));
  EXPECT_THAT(lost_names(look_at(path)), ElementsAre("a"));
}

TEST(Doctor, AMemberWithAWrongChecksumIsLostAndTheOthersAreSaved) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a.npz", "npz");
  std::string bytes = read_text_file(path);
  const size_t at = bytes.find("t1.npy") + 1000;  // well inside its payload
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  folder.write("b.npz", bytes);
  const Diagnosis diagnosis = look_at(folder.path("b.npz"));
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_THAT(lost_names(diagnosis), ElementsAre("t1"));
  ASSERT_TRUE(rescue_path(folder.path("b.npz"), folder.path("c.safetensors")));
  expect_sound_copy(folder.path("c.safetensors"), 3);
}

TEST(Doctor, ACompressedNpzWithoutItsDirectoryIsSavedFromTheMembersThemselves) {
  const TempFolder folder;
  WriteOptions options;
  options.compress = true;
  const std::string path = write_as(folder, "a.npz", "npz", options);
  std::string bytes = read_text_file(path);
  bytes.resize(bytes.find("PK\x01\x02"));
  folder.write("b.npz", bytes);
  const Diagnosis diagnosis = look_at(folder.path("b.npz"));
  EXPECT_EQ(diagnosis.sound_tensors, 4U) << diagnosis.what;
  ASSERT_TRUE(rescue_path(folder.path("b.npz"), folder.path("c.safetensors")));
  expect_sound_copy(folder.path("c.safetensors"), 4);
}

TEST(Doctor, AMissingShardLosesItsTensorsOnly) {
  const TempFolder folder;
  WriteOptions options;
  options.shard_size = 8000;
  write_as(folder, "m.safetensors", "safetensors", options);
  std::filesystem::remove(folder.path("m-00002-of-00002.safetensors"));
  const Diagnosis diagnosis = look_at(folder.path("m.safetensors.index.json"));
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_THAT(lost_names(diagnosis), ElementsAre("t2", "t3"));
  EXPECT_EQ(diagnosis.sound_tensors, 2U);
}

TEST(Doctor, NothingIsWrittenWhereNothingIsSound) {
  const TempFolder folder;
  const std::string path = write_as(folder, "a.safetensors", "safetensors");
  std::filesystem::resize_file(path, 40);
  const auto report = rescue_path(path, folder.path("saved.safetensors"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(std::filesystem::exists(folder.path("saved.safetensors")));
}

TEST(Doctor, EveryTruncationOfASmallFileIsSurvived) {
  const TempFolder folder;
  for (const char* format : {"safetensors", "burnpack", "gptrs-tensors", "npz"}) {
    const std::string whole = read_text_file(write_as(folder, std::string("whole-") + format, format));
    size_t before = 0;
    for (size_t size = 0; size < whole.size(); size += 97) {
      const std::string part = whole.substr(0, size);
      const auto diagnosis =
          diagnose({MemorySource::borrowing(as_bytes(part)), "a." + std::string(format), "", nullptr});
      ASSERT_TRUE(diagnosis) << format << " " << size;
      EXPECT_NE(diagnosis->verdict, Verdict::kSound) << format << " " << size;
      EXPECT_GE(diagnosis->sound_tensors, before) << format << " " << size;
      before = diagnosis->sound_tensors;
    }
    EXPECT_GE(before, 3U) << format;
  }
}

// ---------------------------------------------------------------- what is no weight file

Diagnosis look_at_bytes(const std::string& bytes, const std::string& name = "model.safetensors") {
  auto diagnosis = diagnose({MemorySource::borrowing(as_bytes(bytes)), name, "", nullptr});
  EXPECT_TRUE(diagnosis);
  return diagnosis ? *std::move(diagnosis) : Diagnosis{};
}

TEST(Doctor, RecognisesTheUsualSuspects) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {""s, "empty"},
      {std::string(5000, '\0'), "zeros"},
      {"<!DOCTYPE html><html><head><title>404</title>"s, "html"},
      {"\n  <HTML>"s, "html"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"s, "xml"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1234\n"s, "git_lfs_pointer"},
      {"/annex/objects/SHA256E-s1234--abc.safetensors\n"s, "git_annex_pointer"},
      {"{\"error\": \"Repository not found\"}"s, "json"},
      {"\x89HDF\r\n\x1a\n"s, "hdf5"},
      {"\x1c\0\0\0TFL3"s, "tflite"},
      {"\x1f\x8b\x08\0"s, "gzip"},
      {"\x28\xb5\x2f\xfd\x04"s, "zstd"},
      {"\xfd\x37\x7a\x58\x5a\x00\x00"s, "xz"},
      {"BZh91AY&SY"s, "bzip2"},
      {std::string(257, 'a') + "ustar\0" + std::string(300, '\0'), "tar"},
      {"\x80\x02}q\x00"s, "pickle"},
      {"\x08\x07\x12\x07pytorch"s, "onnx"},
      {"Entry not found"s, "text"},
  };
  for (const auto& [bytes, kind] : cases) {
    const Diagnosis diagnosis = look_at_bytes(bytes);
    ASSERT_TRUE(diagnosis.foreign) << kind;
    EXPECT_EQ(diagnosis.foreign->kind, kind);
    EXPECT_EQ(diagnosis.verdict, Verdict::kForeign);
    EXPECT_FALSE(diagnosis.cause.empty()) << kind;
    EXPECT_FALSE(diagnosis.advice.empty()) << kind;
  }
}

TEST(Doctor, TellsTheSizeThatAnLfsPointerPromises) {
  const Diagnosis diagnosis =
      look_at_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 987654321\n");
  EXPECT_THAT(diagnosis.advice, HasSubstr("987654321 bytes"));
}

TEST(Doctor, SaysWhatAPyTorchFileWantedToCall) {
  const Diagnosis diagnosis = look_at(test_file_path("torch_files/files/whole_module.pt"));
  EXPECT_EQ(diagnosis.format, "torch");
  EXPECT_THAT(diagnosis.what, HasSubstr("torch.nn.modules.linear.Linear"));
}

TEST(Doctor, FindsAFormatBehindBytesThatWerePutInFront) {
  const TempFolder folder;
  const std::string whole = read_text_file(write_as(folder, "a.bpk", "burnpack"));
  const Diagnosis diagnosis = look_at_bytes("HTTP/1.1 200 OK\r\n\r\n" + whole, "a.bpk");
  EXPECT_EQ(diagnosis.verdict, Verdict::kDamaged);
  EXPECT_EQ(diagnosis.format, "burnpack");
  EXPECT_EQ(diagnosis.offset, 19U);
  EXPECT_THAT(diagnosis.advice, HasSubstr("tail -c +20"));
}

TEST(Doctor, WhereNothingFitsTheNameIsTheNearestHint) {
  const Diagnosis diagnosis = look_at_bytes("\x91\x92\x93\x94\x95\x96\x97\x98\x99 and so on \xff", "model.bpk");
  EXPECT_EQ(diagnosis.verdict, Verdict::kUnknown);
  EXPECT_EQ(diagnosis.format, "burnpack");
  EXPECT_THAT(diagnosis.nearest, HasSubstr("name"));
  EXPECT_FALSE(diagnosis.excerpt.empty());
}

TEST(Doctor, AnExtensionOfTwoFormatsNamesBoth) {
  const Diagnosis diagnosis = look_at_bytes("\x91\x92\x93\x94\x95\x96\x97\x98\x99 and so on \xff", "pytorch_model.bin");
  EXPECT_EQ(diagnosis.verdict, Verdict::kUnknown);
  EXPECT_THAT(diagnosis.what, HasSubstr("its name says gptrs-checkpoint or torch"));
}

TEST(Doctor, ALinkIntoAnAnnexWithoutItsContentIsExplained) {
  const TempFolder folder;
  std::filesystem::create_symlink(".git/annex/objects/Xx/Yy/SHA256E-s1--ab/SHA256E-s1--ab", folder.path("m.npz"));
  const Diagnosis diagnosis = look_at(folder.path("m.npz"));
  ASSERT_TRUE(diagnosis.foreign);
  EXPECT_EQ(diagnosis.foreign->kind, "git_annex_pointer");
}

TEST(Doctor, AMissingFileIsAnErrorAndNoDiagnosis) {
  const TempFolder folder;
  const auto diagnosis = diagnose(folder.path("nothing.npz"));
  ASSERT_FALSE(diagnosis);
  EXPECT_EQ(diagnosis.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ballast::testing
