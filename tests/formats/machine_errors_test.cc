// What goes wrong with the machine says nothing about the file: it is no finding, and no file is called damaged for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/findings.h"
#include "ballast/formats/format.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;

TEST(MachineErrors, EndAVerificationInsteadOfBecomingFindings) {
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kOutOfMemory, ErrorCode::kCancelled}) {
    Findings findings = Findings::collect_all();
    const Status status = findings.error("npy_header", 0, "t", "the disk does not answer", code);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, code);
    EXPECT_FALSE(findings.has_errors());
  }
  Findings findings = Findings::collect_all();
  EXPECT_TRUE(findings.error("npy_header", 0, "t", "no such type"));
  EXPECT_TRUE(findings.has_errors());
}

TEST(MachineErrors, AreFindingsForARescueWhichTakesWhatItGets) {
  Findings findings = Findings::rescue();
  EXPECT_TRUE(findings.error("npy_header", 0, "t", "the disk does not answer", ErrorCode::kIo));
  EXPECT_TRUE(findings.has_errors());
}

// A folder whose disk does not answer, or that lacks the file.
class FailingSiblings final : public SiblingOpener {
 public:
  explicit FailingSiblings(ErrorCode code) : code_(code) {}
  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view) override {
    return make_error(code_, "sibling failed");
  }

 private:
  ErrorCode code_;
};

TEST(MachineErrors, OfAShardAreNoDamageOfTheSet) {
  const std::string index =
      R"({"metadata": {"total_size": 4}, "weight_map": {"a": "model-00001-of-00001.safetensors"}})";
  for (const auto& [code, expected] :
       {std::pair(ErrorCode::kIo, ErrorCode::kIo), std::pair(ErrorCode::kOutOfMemory, ErrorCode::kOutOfMemory),
        std::pair(ErrorCode::kNotFound, ErrorCode::kCorrupt)}) {
    FailingSiblings siblings(code);
    OpenRequest request;
    request.source = MemorySource::borrowing(as_bytes(index), "model.safetensors.index.json");
    request.file_name = "model.safetensors.index.json";
    request.siblings = &siblings;
    const auto archive = open_archive(request);
    ASSERT_FALSE(archive);
    EXPECT_EQ(archive.error().code, expected);
    EXPECT_THAT(archive.error().message, HasSubstr("sibling failed"));
  }
}

}  // namespace
}  // namespace ballast
