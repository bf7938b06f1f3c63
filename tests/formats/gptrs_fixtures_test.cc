// Files that gpt.rs wrote: read as they are, written back byte for byte.
#include <gtest/gtest.h>

#include "ballast/base/json.h"
#include "ballast/base/param_id.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/drivers.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

struct TensorFacts {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;
  uint64_t crc32 = 0;
  std::string base_id;  // empty: stored as 0
  bool requires_grad = false;
};

struct FileFacts {
  std::string file;
  uint64_t version = 0;
  std::optional<std::string> config;
  std::vector<TensorFacts> tensors;
};

Result<TensorFacts> parse_tensor_facts(JsonReader& json) {
  TensorFacts facts;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return facts;
    if (key == "name") BALLAST_CHECK(assign(facts.name, json.read_string()));
    else if (key == "dtype") BALLAST_CHECK(assign(facts.dtype, json.read_string()));
    else if (key == "shape") BALLAST_CHECK(assign(facts.shape, json.read_u64_array()));
    else if (key == "offset") BALLAST_CHECK(assign(facts.offset, json.read_u64()));
    else if (key == "crc32") BALLAST_CHECK(assign(facts.crc32, json.read_u64()));
    else if (key == "base_id") BALLAST_CHECK(assign(facts.base_id, json.read_string()));
    else if (key == "requires_grad") BALLAST_CHECK(assign(facts.requires_grad, json.read_bool()));
    else return json.error_here("an unknown fact");
  }
}

Result<std::vector<TensorFacts>> parse_tensor_list(JsonReader& json) {
  std::vector<TensorFacts> list;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return list;
    BALLAST_TRY(TensorFacts facts, parse_tensor_facts(json));
    list.push_back(std::move(facts));
  }
}

Result<FileFacts> parse_file_facts(JsonReader& json) {
  FileFacts facts;
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return facts;
    if (key == "file") BALLAST_CHECK(assign(facts.file, json.read_string()));
    else if (key == "version") BALLAST_CHECK(assign(facts.version, json.read_u64()));
    else if (key == "config") BALLAST_CHECK(assign(facts.config, json.read_string()));
    else BALLAST_CHECK(assign(facts.tensors, parse_tensor_list(json)));
  }
}

Result<std::vector<FileFacts>> parse_facts(std::string_view text) {
  JsonReader json(text, "facts.json");
  std::vector<FileFacts> list;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return list;
    BALLAST_TRY(FileFacts facts, parse_file_facts(json));
    list.push_back(std::move(facts));
  }
}

const std::vector<FileFacts>& all_facts() {
  static const std::vector<FileFacts> facts = [] {
    auto parsed = parse_facts(as_text(read_test_data("gptrs/facts.json")));
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
    return parsed ? *parsed : std::vector<FileFacts>();
  }();
  return facts;
}

const FormatDriver& driver_of(const FileFacts& facts) {
  return facts.file.ends_with(".gptrs") ? kGptrsCheckpointDriver : kGptrsTensorsDriver;
}

void expect_tensor(const Archive& archive, size_t index, const TensorFacts& facts, bool is_checkpoint) {
  const TensorInfo& tensor = archive.tensors()[index];
  EXPECT_EQ(tensor.name, facts.name);
  EXPECT_EQ(dtype_name(tensor.dtype), facts.dtype);
  EXPECT_EQ(tensor.shape, Shape(facts.shape));
  EXPECT_EQ(tensor.requires_grad, facts.requires_grad);
  EXPECT_EQ(archive.extent(index).offset, facts.offset);
  const auto payload = archive.payload(index);
  ASSERT_TRUE(payload.has_value()) << payload.error().message;
  EXPECT_EQ(crc32_of(payload->bytes()), facts.crc32);
  EXPECT_EQ(tensor.stored_form(), is_checkpoint && facts.base_id.empty() ? "id=0" : "");
  if (!facts.base_id.empty()) {
    EXPECT_EQ(base_param_id(tensor.name).to_bytes_hex(), facts.base_id);
  }
}

class GptrsFixture : public ::testing::TestWithParam<FileFacts> {};

TEST_P(GptrsFixture, HoldsWhatIsKnownOfIt) {
  const FileFacts& facts = GetParam();
  const bool is_checkpoint = &driver_of(facts) == &kGptrsCheckpointDriver;
  OpenRequest request;
  request.source = MemorySource::owning(read_test_data("gptrs/" + facts.file), facts.file);
  const auto detected = detect_format(request);
  ASSERT_TRUE(detected.has_value());
  EXPECT_EQ((*detected)->name, driver_of(facts).name);

  const auto archive = open_archive(request);
  ASSERT_TRUE(archive.has_value()) << archive.error().message;
  const Description& description = archive->description();
  EXPECT_EQ(description.format, driver_of(facts).name);
  EXPECT_EQ(description.version, std::to_string(facts.version));
  EXPECT_TRUE(description.metadata.empty());
  EXPECT_FALSE(description.origin.has_value());
  ASSERT_EQ(description.config.has_value(), facts.config.has_value());
  if (facts.config) {
    EXPECT_EQ(*description.config, (ModelConfig{"gptrs", *facts.config}));
  }
  ASSERT_EQ(description.tensors.size(), facts.tensors.size());
  for (size_t i = 0; i < facts.tensors.size(); ++i) expect_tensor(*archive, i, facts.tensors[i], is_checkpoint);
}

TEST_P(GptrsFixture, FindsEveryTensorByNameAndById) {
  OpenRequest request;
  request.source = MemorySource::owning(read_test_data("gptrs/" + GetParam().file), GetParam().file);
  const auto archive = open_archive(request);
  ASSERT_TRUE(archive.has_value()) << archive.error().message;
  for (const TensorFacts& facts : GetParam().tensors) {
    const auto index = archive->find(facts.name);
    ASSERT_TRUE(index) << facts.name;
    EXPECT_EQ(archive->find(base_param_id(facts.name)), index);
    // As the exporter computed it.
    if (facts.base_id.empty()) continue;
    EXPECT_EQ(archive->find(BaseParamId{Id128::from_bytes_hex(facts.base_id).value()}), index) << facts.name;
  }
  EXPECT_EQ(archive->find(base_param_id("absent")), std::nullopt);
}

TEST_P(GptrsFixture, IsWrittenBackByteForByte) {
  const ByteVector stored = read_test_data("gptrs/" + GetParam().file);
  const auto archive = open_bytes(driver_of(GetParam()), stored);
  ASSERT_TRUE(archive.has_value()) << archive.error().message;
  const auto written = encode_again(driver_of(GetParam()), *archive);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(*written, stored);
}

TEST_P(GptrsFixture, ReadsTheSameWithoutAMapping) {
  OpenRequest request;
  request.source = std::make_shared<ReadingSource>(read_test_data("gptrs/" + GetParam().file));
  const auto archive = open_archive(request);
  ASSERT_TRUE(archive.has_value()) << archive.error().message;
  const auto written = encode_again(driver_of(GetParam()), *archive);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(*written, read_test_data("gptrs/" + GetParam().file));
}

TEST_P(GptrsFixture, HasNothingToComplainOf) {
  const Verified verified = verify_bytes(driver_of(GetParam()), read_test_data("gptrs/" + GetParam().file));
  EXPECT_TRUE(verified.readable);
  EXPECT_EQ(verified.count(Severity::kError), 0U);
  EXPECT_EQ(verified.count(Severity::kWarning), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, GptrsFixture, ::testing::ValuesIn(all_facts()),
                         [](const auto& fixture) { return test_name(fixture.param.file); });

TEST(GptrsFixtures, AreAllThere) { EXPECT_EQ(all_facts().size(), 48U); }

}  // namespace
}  // namespace ballast::testing
