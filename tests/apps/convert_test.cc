#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Convert, ThereAndBackGivesTheSameBytes) {
  const TempFolder folder;
  const std::string source = test_file_path("gptrs/gpt_micro/model.gptrs");
  const std::string there = folder.path("model.safetensors"), back = folder.path("model.gptrs");
  const ProgramRun first = run_ballast({"convert", source, there});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("ballast.origin"));
  const ProgramRun second = run_ballast({"convert", there, back});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(read_text_file(back), read_text_file(source));
}

TEST(Convert, TheFormatComesFromToElseFromTheExtension) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  const ProgramRun named = run_ballast({"convert", source, folder.path("x.weights"), "--to", "safetensors", "--json"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(json_at(named.out, "format"), "\"safetensors\"");
  const ProgramRun unnamed = run_ballast({"convert", source, folder.path("y.weights")});
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("--to"));
  const ProgramRun unknown = run_ballast({"convert", source, folder.path("y"), "--to", "safetensor"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"safetensors\"?"));
}

TEST(Convert, APyTorchCheckpointBecomesTheSafetensorsOfItsTensors) {
  const TempFolder folder;
  const std::string pair = test_file_path("torch_files/files/pair.pt"), target = folder.path("pair.safetensors");
  const ProgramRun run = run_ballast({"convert", pair, target});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto digest = [](const std::string& path) { return run_ballast({"hash", path}).out.substr(0, 64); };
  EXPECT_EQ(digest(target), digest(test_file_path("torch_files/files/pair.safetensors")));
  EXPECT_EQ(digest(target), digest(pair));
}

TEST(Convert, PyTorchFilesAreNotWritten) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"convert", write_sample(folder), folder.path("model.pt")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("torch files are read but not written"));
}

TEST(Convert, OnlyAndExcludeSelectTensors) {
  const TempFolder folder;
  const std::string source = write_sample(folder), target = folder.path("some.safetensors");
  const ProgramRun run = run_ballast({"convert", source, target, "--only", "^blocks", "--only", "head", "--exclude",
                                      "\\.2\\.", "--exclude", "\\.10\\.", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "tensors"), "2");
  const std::string listing = run_ballast({"inspect", target, "--json", "--sort", "name"}).out;
  EXPECT_EQ(json_at(listing, "tensors/0/name"), "\"blocks.0.weight\"");
  EXPECT_EQ(json_at(listing, "tensors/1/name"), "\"head\"");
}

TEST(Convert, AnExistingDestinationStaysUnlessOverwriteIsGiven) {
  const TempFolder folder;
  const std::string source = write_sample(folder), target = folder.write("old.safetensors", "precious");
  const ProgramRun refused = run_ballast({"convert", source, target});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("exists already, and overwriting was not asked for; --overwrite replaces it"));
  EXPECT_EQ(read_text_file(target), "precious");
  EXPECT_EQ(run_ballast({"convert", source, target, "--overwrite"}).exit_code, 0);
  EXPECT_EQ(read_text_file(target), read_text_file(source));
}

TEST(Convert, ASourceThatIsItsOwnDestinationNeedsOverwrite) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string before = read_text_file(path);
  const ProgramRun refused = run_ballast({"convert", path, path, "--exclude", "head"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("same file"));
  EXPECT_EQ(read_text_file(path), before);
  EXPECT_EQ(run_ballast({"convert", path, path, "--exclude", "head", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(json_at(run_ballast({"inspect", path, "--json"}).out, "tensors/3"), "");
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(Convert, AFolderThatHoldsSomethingIsRefused) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"convert", write_sample(folder), folder.path(), "--to", "safetensors"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("the folder is not empty"));
}

TEST(Convert, DryRunWritesNothing) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"convert", write_sample(folder), folder.path("new.safetensors"), "--dry-run"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, StartsWith("would convert "));
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(Convert, ALossStopsTheCommandUnlessItIsAllowed) {
  const TempFolder folder;
  const std::string source = write_sample(folder);  // i64, for which gpt.rs has no word
  const std::string target = folder.path("x.gten");
  const ProgramRun refused = run_ballast({"convert", source, target});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("\"head\""));
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
  const ProgramRun planned = run_ballast({"convert", source, target, "--dry-run"});
  EXPECT_EQ(planned.exit_code, 0);
  EXPECT_THAT(planned.out, HasSubstr("would be lost: tensor \"head\""));
  EXPECT_THAT(planned.out, HasSubstr("--allow-lossy"));
  const ProgramRun allowed = run_ballast({"convert", source, target, "--allow-lossy"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_THAT(allowed.out, HasSubstr("\nlost: tensor \"head\""));
}

TEST(Convert, AFormatThatNeedsAConfigTakesItFromAFile) {
  const TempFolder folder;
  WritePlan plan;
  plan.add_tensor(make_info("w", DType::kF32, {0}), ByteSpan());
  const std::string source = write_plan(folder, "plain.safetensors", plan), target = folder.path("model.gptrs");
  EXPECT_EQ(run_ballast({"convert", source, target}).exit_code, 2);
  const std::string config = folder.write("config.json", R"({"kind":"gpt","config":{}})");
  const ProgramRun run = run_ballast({"convert", source, target, "--config", config});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run_ballast({"inspect", target, "--json"}).out, "config"), R"({"kind":"gpt","config":{}})");
  const ProgramRun broken =
      run_ballast({"convert", source, folder.path("b.gptrs"), "--config", folder.write("c", "{")});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("--config"));
}

TEST(Convert, OptionsThatTheFormatDoesNotTakeAreRefused) {
  const TempFolder folder;
  const std::string source = write_sample(folder), target = folder.path("new.safetensors");
  for (const std::vector<std::string>& extra : std::vector<std::vector<std::string>>{
           {"--compress"}, {"--target", "burn-0.20"}, {"--allow-half"}, {"--config", source}}) {
    std::vector<std::string> arguments = {"convert", source, target};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    EXPECT_EQ(run_ballast(arguments).exit_code, 2) << extra.front();
  }
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(Convert, ShardsAreNamedInTheOutput) {
  const TempFolder folder;
  const std::string source = write_sample(folder), target = folder.path("parts.safetensors");
  const ProgramRun run = run_ballast({"convert", source, target, "--shard-size", "48B", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const size_t files = folder.names().size() - 1;
  EXPECT_GE(files, 3u);
  EXPECT_NE(json_at(run.out, "files/" + std::to_string(files - 1)), "");
  EXPECT_EQ(run_ballast({"diff", source, target + ".index.json"}).exit_code, 0);
}

TEST(Convert, SaysWhichOfTwoTensorsOfOneNameWasLeftOut) {
  const TempFolder folder;
  const std::string source = test_file_path("gptrs/variants/duplicate_last_differs.gptrs");
  const ProgramRun run = run_ballast({"convert", source, folder.path("x.gptrs")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("stands again further down"));
  const ProgramRun json = run_ballast({"convert", source, folder.path("y.gptrs"), "--json"});
  EXPECT_THAT(json_at(json.out, "notes/0"), HasSubstr("left out"));
  EXPECT_THAT(run_ballast({"merge", source, "-o", folder.path("z.gptrs")}).out, HasSubstr("stands again further down"));
}

TEST(Convert, ADamagedSourceIsExitCode1AndWritesNothing) {
  const TempFolder folder;
  const std::string whole = read_text_file(write_sample(folder));
  const std::string cut = folder.write("cut.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(run_ballast({"convert", cut, folder.path("new.safetensors")}).exit_code, 1);
  EXPECT_THAT(folder.names(), ElementsAre("cut.safetensors", "sample.safetensors"));
}

// ---------------------------------------------------------------- changes on the way

WritePlan torch_plan() {
  WritePlan plan;
  const auto add = [&](const std::string& name, const std::vector<float>& values, Shape shape) {
    const auto bytes = std::as_bytes(std::span(values));
    plan.add_tensor(make_info(name, DType::kF32, std::move(shape)),
                    [owned = ByteVector(bytes.begin(), bytes.end())](ByteSink& sink) { return sink.write(owned); });
  };
  add("net.fc.0.weight", {1, 2, 3, 4, 5, 6}, {2, 3});
  add("net.fc.0.bias", {1, 2}, {2});
  add("net.fc.2.weight", {0.1F, 70000, 1, 1}, {2, 2});
  add("net.fc.2.bias", {1, 2}, {2});
  add("net.norm.weight", {1, 2}, {2});
  add("net.norm.bias", {1, 2}, {2});
  return plan;
}

std::vector<std::string> tensor_names(const std::string& path) {
  const std::string listing = run_ballast({"inspect", path, "--json", "--sort", "name"}).out;
  std::vector<std::string> names;
  for (size_t i = 0;; ++i) {
    const std::string name = json_at(listing, "tensors/" + std::to_string(i) + "/name");
    if (name.empty()) return names;
    names.push_back(name.substr(1, name.size() - 2));
  }
}

TEST(Convert, ChangesNamesInTheOrderOfTheFlags) {
  const TempFolder folder;
  const std::string source = write_plan(folder, "a.safetensors", torch_plan()), target = folder.path("b.safetensors");
  const ProgramRun run = run_ballast({"convert", source, target, "--rename", "^net\\.=", "--rename",
                                      "fc\\.(\\d+)=lin.$1", "--renumber", "--rename", "zz=y"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(tensor_names(target),
              ElementsAre("lin.0.bias", "lin.0.weight", "lin.1.bias", "lin.1.weight", "norm.bias", "norm.weight"));
  for (const char* text : {"note: renamed 6 of 6 tensors", "note: renumbered 2 of 6 tensors",
                           "note: rename rule \"zz=y\" matched nothing"}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
}

TEST(Convert, ACollisionOfNamesWritesNothing) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  const ProgramRun run = run_ballast({"convert", source, folder.path("b.safetensors"), "--rename", "\\d+=0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("\"blocks.0.weight\" and \"blocks.10.weight\""));
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(Convert, ExactTakesOneNameAsItStands) {
  const TempFolder folder;
  const std::string target = folder.path("b.safetensors");
  const ProgramRun run = run_ballast({"convert", write_sample(folder), target, "--exact", "blocks.0.weight"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(tensor_names(target), ElementsAre("blocks.0.weight"));
}

TEST(Convert, CastingReportsErrorsAndOverflowLoudly) {
  const TempFolder folder;
  const std::string source = write_plan(folder, "a.safetensors", torch_plan());
  const ProgramRun text =
      run_ballast({"convert", source, folder.path("b.safetensors"), "--dtype", "f16", "--keep", "norm"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("OVERFLOW: 1 value too large for the new type became infinite"));
  EXPECT_THAT(text.out, HasSubstr("maximum error: inf over 4 tensors cast"));
  const ProgramRun json =
      run_ballast({"convert", source, folder.path("c.safetensors"), "--dtype", "bf16", "--keep", "norm", "--json"});
  EXPECT_EQ(json_at(json.out, "overflowed"), "0");
  EXPECT_EQ(json_at(json.out, "max_abs_error"), "144");
  EXPECT_EQ(json_at(json.out, "casts/3/tensor"), "\"net.fc.2.weight\"");
  EXPECT_EQ(json_at(json.out, "casts/3/to"), "\"bf16\"");
  EXPECT_EQ(json_at(json.out, "casts/4"), "");
}

TEST(Convert, HalfPrecisionSkipsModulesByKind) {
  const TempFolder folder;
  const std::string source = write_plan(folder, "a.safetensors", torch_plan()), target = folder.path("b.safetensors");
  const ProgramRun run = run_ballast({"convert", source, target, "--half", "--half-skip", "LayerNorm", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "casts/3/to"), "\"f16\"");
  EXPECT_EQ(json_at(run.out, "casts/4"), "");
  const ProgramRun back = run_ballast({"convert", target, folder.path("c.safetensors"), "--unhalf", "--json"});
  EXPECT_EQ(json_at(back.out, "casts/3/to"), "\"f32\"");
  const ProgramRun unknown =
      run_ballast({"convert", source, folder.path("d.safetensors"), "--half", "--half-skip", "X"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("LayerNorm"));
}

TEST(Convert, AdaptersGoThereAndBack) {
  const TempFolder folder;
  const std::string source = write_plan(folder, "a.safetensors", torch_plan());
  const std::string burn = folder.path("b.bpk"), back = folder.path("c.safetensors");
  const ProgramRun there = run_ballast({"convert", source, burn, "--adapt", "pytorch-to-burn"});
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(tensor_names(burn), ElementsAre("net.fc.0.bias", "net.fc.0.weight", "net.fc.2.bias", "net.fc.2.weight",
                                              "net.norm.beta", "net.norm.gamma"));
  const ProgramRun again = run_ballast({"convert", burn, back, "--adapt", "burn-to-pytorch"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(read_text_file(back), read_text_file(source));
}

TEST(Convert, AmbiguousTensorsAreListedWithTheFlagsThatDecide) {
  const TempFolder folder;
  const std::string source = write_sample(folder), target = folder.path("b.bpk");
  const ProgramRun run = run_ballast({"convert", source, target, "--adapt", "pytorch-to-burn"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("\"blocks.2.weight\" [2, 3]"));
  EXPECT_THAT(run.err, HasSubstr("--not-linear REGEX"));
  for (const std::vector<std::string>& extra : std::vector<std::vector<std::string>>{
           {"--ambiguous", "keep"}, {"--linear", "blocks"}, {"--not-linear", "blocks"}}) {
    std::vector<std::string> arguments = {"convert", source, target, "--overwrite", "--adapt", "pytorch-to-burn"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    EXPECT_EQ(run_ballast(arguments).exit_code, 0) << extra.front();
  }
}

TEST(Convert, RefusesFlagsThatWouldDoNothing) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  for (const std::vector<std::string>& extra : std::vector<std::vector<std::string>>{{"--keep", "x"},
                                                                                     {"--linear", "x"},
                                                                                     {"--renumber-except", "x"},
                                                                                     {"--half-skip", "Linear"},
                                                                                     {"--ambiguous", "keep"},
                                                                                     {"--adapt", "pytorch-to-brun"},
                                                                                     {"--rename", "x"},
                                                                                     {"--dtype", "i32"}}) {
    std::vector<std::string> arguments = {"convert", source, folder.path("b.safetensors")};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    EXPECT_EQ(run_ballast(arguments).exit_code, 2) << extra.front();
  }
  EXPECT_THAT(run_ballast({"convert", source, folder.path("b.safetensors"), "--adapt", "pytorch-to-brun"}).err,
              HasSubstr("did you mean \"pytorch-to-burn\"?"));
}

TEST(Quiet, HidesTheNotesOfEveryCommandThatWrites) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a.safetensors", {{"x", {1, 2}}});
  const std::string b = write_tensors(folder, "b.safetensors", {{"x", {1, 2}}, {"y", {3}}});
  const auto merge = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"merge", a, b, "-o", folder.path("c.safetensors"), "--overwrite"});
    return run_ballast(more).out;
  };
  EXPECT_THAT(merge({}), HasSubstr("note: 1 tensor in several files"));
  EXPECT_THAT(merge({"-q"}), AllOf(HasSubstr("merged 2 files"), Not(HasSubstr("note:"))));
  const std::string model = recorded_model_path("gpt_micro");
  const auto convert = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"convert", model, folder.path("m/"), "--overwrite"});
    return run_ballast(more);
  };
  const ProgramRun told = convert({});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("note:"));
  EXPECT_THAT(convert({"-q"}).out, Not(HasSubstr("note:")));
}

// The folder that everything is written to first is nobody's business.
TEST(ConvertFailure, NamesThePathThatTheUserGave) {
  const TempFolder folder;
  const std::string model = recorded_model_path("gpt_base"), target = folder.path("f");
  const auto limited = [&](const std::string& arguments) {
    return run_program({"/bin/sh", "-c", fmt::format("ulimit -f 8; exec '{}' {}", program_path(), arguments)});
  };
  for (const std::string& arguments :
       {fmt::format("convert '{}' '{}/'", model, target), fmt::format("extract '{}' --each '{}'", model, target)}) {
    const ProgramRun run = limited(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_THAT(run.err, AllOf(HasSubstr(target + "/"), Not(HasSubstr("ballast-tmp")))) << arguments;
  }
  EXPECT_THAT(folder.names(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace ballast::testing
