#include <gmock/gmock.h>

#include "ballast/base/json.h"
#include "ballast/text/constraint.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kPersonSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,)"
    R"("maximum":120},"tags":{"type":"array","items":{"enum":["kind","proud"]},"maxItems":3}},)"
    R"("required":["name","age","tags"]})";

TEST(StructuredOutput, IsValidForEverySeed) {
  const TempFolder folder;
  const std::string schema = folder.write("person.json", kPersonSchema);
  const auto constraint = Constraint::of_schema(kPersonSchema);
  ASSERT_TRUE(constraint);
  for (const char* seed : {"1", "2", "3", "4"}) {
    const ProgramRun run = run_ballast({"generate", "--prompt", "Emma was", "--json-schema", schema, "--temperature",
                                        "1", "--seed", seed, "--max-tokens", "200"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::string text = run.out.substr(0, run.out.size() - 1);
    EXPECT_TRUE(constraint->accepts(text)) << text;
    JsonReader json(text, "output");
    EXPECT_TRUE(json.skip_value() && json.finish()) << text;
    EXPECT_THAT(run.err, HasSubstr("end_of_text"));
  }
}

TEST(StructuredOutput, OfManyPromptsIsThatOfEachAlone) {
  ProgramSetting input;
  input.input = "It was\nShe said\n";
  const ProgramRun run = run_ballast(
      {"generate", "--prompts", "-", "--regex", "(yes|no)[!.]", "--json", "--max-tokens", "20", "--seed", "3"}, input);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string first = run.out.substr(0, run.out.find('\n'));
  EXPECT_EQ(json_at(first, "complete"), "true");
  const ProgramRun alone = run_ballast(
      {"generate", "--prompt", "It was", "--regex", "(yes|no)[!.]", "--json", "--max-tokens", "20", "--seed", "3"});
  EXPECT_EQ(json_at(first, "text"), json_at(alone.out, "text"));
}

TEST(StructuredOutput, SaysWhenATextWasCutOff) {
  const ProgramRun run = run_ballast({"generate", "--json-object", "--max-tokens", "1", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "complete"), "false");
  EXPECT_EQ(json_at(run.out, "stop"), "\"max_tokens\"");
  EXPECT_THAT(run_ballast({"generate", "--json-object", "--max-tokens", "1"}).err, HasSubstr("incomplete"));
}

TEST(StructuredOutput, RefusesWhatDoesNotFitTogether) {
  const TempFolder folder;
  const std::string bad = folder.write("bad.json", R"({"type":"object","properties":{"a":{"not":{}}}})");
  EXPECT_THAT(run_ballast({"generate", "--json-schema", bad}).err,
              AllOf(HasSubstr("bad.json"), HasSubstr("/properties/a/not")));
  const ProgramRun cut = run_ballast({"generate", "--json-schema", folder.write("cut.json", R"({"type":)")});
  EXPECT_EQ(cut.exit_code, 2);  // a mistake, like every other in a schema, and no damaged model
  EXPECT_THAT(cut.err, HasSubstr("cut.json: schema: byte 8"));
  EXPECT_THAT(run_ballast({"generate", "--json-schema", bad, "--regex", "a"}).err,
              AllOf(HasSubstr("--regex"), HasSubstr("--json-schema")));
  EXPECT_THAT(run_ballast({"generate", "--regex", "a", "--ignore-eos"}).err, HasSubstr("--ignore-eos"));
  EXPECT_THAT(run_ballast({"generate", "--grammar", folder.path("missing.gbnf")}).err, HasSubstr("missing.gbnf"));
}

}  // namespace
}  // namespace ballast::testing
