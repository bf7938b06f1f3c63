// Models and checkpoints that netcl keeps in two files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "tests/formats/netcl_fixtures.h"
#include "tests/support/mutation.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

TEST(NetclPair, IsToldApartByContent) {
  for (const auto& [name, format, version] :
       {std::tuple("old_0_1_0", "netcl-legacy", "1"), std::tuple("ckpt_adam", "netcl-checkpoint", "1")}) {
    MemorySiblings siblings = files_of(fixture_named(name));
    const Archive archive = open_named_or_die(siblings, std::string(name) + ".json");
    EXPECT_EQ(archive.description().format, format);
    EXPECT_EQ(archive.description().version, version);
    EXPECT_EQ(archive.description().config->text, as_text(siblings.files[std::string(name) + ".json"]));
  }
}

TEST(NetclPair, HalfAloneIsAPlainNpz) {
  MemorySiblings siblings = files_of(fixture_named("old_0_1_0"));
  EXPECT_EQ(open_named_or_die(siblings, "old_0_1_0.npz").description().format, "npz");
}

TEST(NetclPair, RefusesACheckpointWithACutState) {
  MemorySiblings siblings = files_of(fixture_named("broken_ckpt"));
  const auto archive = open_named(siblings, "broken_ckpt.json");
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(archive.error().message, HasSubstr("broken_ckpt.json: byte 30"));
}

TEST(NetclPair, SaysWhereItLookedForTheTensors) {
  MemorySiblings siblings = files_of(fixture_named("dotted_name"));
  const auto archive = open_named(siblings, "run.json");
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(archive.error().message, HasSubstr("\"run.npz\""));
  EXPECT_TRUE(open_named(siblings, "run.json", "run.1.npz").has_value());
  OpenRequest request;
  request.source = MemorySource::owning(siblings.files["run.json"]);
  EXPECT_EQ(open_archive(request).error().code, ErrorCode::kUnsupported);
}

TEST(NetclPair, IsNamedAfterItsStem) {
  MemorySiblings siblings = files_of(fixture_named("old_0_1_3"));
  const Archive archive = open_named_or_die(siblings, "old_0_1_3.json");
  for (const char* destination : {"new.v2", "new.v2.json", "new.v2.npz"}) {
    const auto planned = kNetclLegacyDriver.plan_write({archive.description(), {}, destination});
    ASSERT_TRUE(planned.has_value());
    ASSERT_EQ((*planned)->files().size(), 2U);
    EXPECT_EQ((*planned)->files()[0].file_name, "new.v2.npz");
    EXPECT_EQ((*planned)->files()[1].file_name, "new.v2.json");
  }
  EXPECT_FALSE(kNetclLegacyDriver.plan_write({archive.description(), {}, ""}).has_value());
}

TEST(NetclPair, KeepsJsonThatOnlyPythonWrites) {
  MemorySiblings siblings = files_of(fixture_named("ckpt_adam"));
  siblings.files["ckpt_adam.json"] = to_byte_vector(R"({"optim_state": {"lr": NaN}, "config": {"x": -Infinity}})");
  const Archive archive = open_named_or_die(siblings, "ckpt_adam.json");
  EXPECT_EQ(write_files_or_die(kNetclCheckpointDriver, archive, archive.description(), "ckpt_adam").files,
            siblings.files);
}

TEST(NetclPair, BecomesTheSingleFileALaterReleaseWrites) {
  MemorySiblings siblings = files_of(fixture_named("old_0_1_3"));
  const Archive pair = open_named_or_die(siblings, "old_0_1_3.json");
  MemorySiblings single = write_files_or_die(kNetclDriver, pair, pair.description(), "model.netcl");
  const Archive model = open_named_or_die(single, "model.netcl");
  EXPECT_EQ(model.description().version, "2");
  EXPECT_EQ(model.description().producer, "netcl 0.1.4 to 0.2.7");
  const std::string& text = model.description().config->text;
  EXPECT_THAT(text, HasSubstr(R"("stride": 1, "pad": 1, "bias": true}}, {"type": "ReLU", "args": {}})"));
  EXPECT_TRUE(text.ends_with(R"({"type": "Sigmoid", "args": {}}], "version": 2, "format": "netcl.single-file"})"))
      << text;
  expect_tensors(model, fixture_named("old_0_1_3").tensors);

  MemorySiblings back = write_files_or_die(kNetclLegacyDriver, model, model.description(), "old_0_1_3");
  EXPECT_EQ(back.files["old_0_1_3.npz"], siblings.files["old_0_1_3.npz"]);
  EXPECT_THAT(std::string(as_text(back.files["old_0_1_3.json"])), HasSubstr(R"("version": 1})"));
}

TEST(NetclPair, SaysThatAConvolutionHasNoBias) {
  const std::string text =
      R"({"type": "Sequential", "config": [{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 1, "kernel_size": 1, "stride": 1, "pad": 0}}], "version": 1})";
  const std::vector<TensorInfo> tensors = {make_info("0:weight", DType::kF32, {1, 1, 1, 1})};
  EXPECT_THAT(*netcl_config_as_version_2(text, tensors), HasSubstr(R"("pad": 0, "bias": false}})"));
  EXPECT_EQ(*netcl_config_as_version_1(text), text);
  EXPECT_EQ(*netcl_config_as_version_2(kOneRelu, tensors), kOneRelu);
}

TEST(NetclPair, CarriesTheOriginBesideTheTensors) {
  MemorySiblings siblings = files_of(fixture_named("ckpt_sgd_momentum"));
  const Archive archive = open_named_or_die(siblings, "ckpt_sgd_momentum.json");
  Description description = archive.description();
  description.origin = "from elsewhere";
  for (const FormatDriver* driver : {&kNetclCheckpointDriver, &kNpzDriver}) {
    MemorySiblings written = write_files_or_die(*driver, archive, description, "x");
    const Archive again = open_named_or_die(written, driver == &kNpzDriver ? "x" : "x.json");
    EXPECT_EQ(again.description().origin, "from elsewhere");
    expect_tensors(again, fixture_named("ckpt_sgd_momentum").tensors);
  }
}

TEST(NetclPair, WritesAnEmptyStateWhereThereIsNone) {
  Description description;
  description.tensors = {make_info("p0", DType::kF32, {0})};
  description.config = ModelConfig{"gptrs", "{}"};
  const Archive archive(description, {{}}, {MemorySource::owning({})});
  MemorySiblings written = write_files_or_die(kNetclCheckpointDriver, archive, description, "x");
  EXPECT_EQ(as_text(written.files["x.json"]), R"({"optim_state": {}, "config": {}})");
}

TEST(NetclPair, SurvivesDamageToItsJson) {
  for (const char* name : {"old_0_1_0", "ckpt_sgd_momentum"}) {
    MemorySiblings siblings = files_of(fixture_named(name));
    const std::string json = std::string(name) + ".json";
    const ByteVector bytes = siblings.files[json];
    const auto try_one = [&](ByteSpan mutant, const std::string& what) {
      siblings.files[json] = ByteVector(mutant.begin(), mutant.end());
      for (const FormatDriver* driver : {&kNetclLegacyDriver, &kNetclCheckpointDriver}) {
        OpenRequest request;
        request.source = MemorySource::borrowing(mutant, json);
        request.file_name = json;
        request.siblings = &siblings;
        Findings first = Findings::stop_at_first_error();
        Findings all = Findings::collect_all();
        const auto opened = driver->open(request, first);
        const auto verified = driver->open(request, all);
        EXPECT_EQ(opened.has_value(), verified.has_value() && !all.has_errors()) << what;
        if (opened) expect_sound(*opened);
      }
    };
    truncations(bytes, try_one);
    random_mutations(bytes, fresh_seed(), 300, try_one);
  }
}

}  // namespace
}  // namespace ballast::testing
