#include <gmock/gmock.h>

#include <algorithm>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProgramRun tokenize(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"tokenize", "--tokenizer", gptrs_tokenizer_path()});
  return run_ballast(arguments);
}

TEST(Tokenize, PrintsNumbersAndPieces) {
  const ProgramRun run = tokenize({"--text", "Hello the\n\u00e9"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "316  \"He\"\n"
            "303  \"llo\"\n"
            "260  \" the\"\n"
            "199  \"\\n\"\n"
            "128  \"\\xc3\"\n"
            "103  \"\\xa9\"\n");
  EXPECT_EQ(tokenize({"--text", "Hello world", "--ids"}).out, "316,303,304,76,68\n");
  EXPECT_EQ(tokenize({"--text", "Hello world", "--count"}).out, "5\n");
  EXPECT_EQ(tokenize({"--text", "", "--count"}).out, "0\n");
}

TEST(Tokenize, DescribesThemInJson) {
  const ProgramRun run = tokenize({"--text", "Hello world", "--json"});
  EXPECT_EQ(run.out,
            "{\"bytes\":11,\"count\":5,\"tokens\":[316,303,304,76,68],"
            "\"pieces\":[\"He\",\"llo\",\" wor\",\"l\",\"d\"]}\n");
  EXPECT_EQ(tokenize({"--text", "Hello world", "--json", "--count"}).out, "{\"bytes\":11,\"count\":5}\n");
  EXPECT_EQ(tokenize({"--decode", "316,303", "--json"}).out,
            "{\"bytes\":5,\"count\":2,\"tokens\":[316,303],\"text\":\"Hello\"}\n");
}

TEST(Tokenize, PutsTheMarksOfTheFileAroundUnlessToldNotTo) {
  const std::string bert = test_file_path("tokenizers/wordpiece_bert_uncased.json");
  const auto ids = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"tokenize", "--tokenizer", bert, "--text", "Hello world", "--ids"});
    return run_ballast(more).out;
  };
  EXPECT_EQ(ids({}), "2,40,245,148,140,373,148,154,3\n");
  EXPECT_EQ(ids({"--no-special"}), "40,245,148,140,373,148,154\n");
}

// The file asks for 8 tokens at least and 12 at most.
TEST(Tokenize, FitsTheLengthThatTheFileAsksFor) {
  const auto ids = [](const std::string& text, std::vector<std::string> more) {
    more.insert(more.begin(), {"tokenize", "--tokenizer", test_file_path("tokenizers/bpe_cl100k_trunc_pad.json"),
                               "--text", text, "--ids"});
    return run_ballast(more).out;
  };
  EXPECT_EQ(ids("a", {}), "64\n");
  EXPECT_EQ(ids("a", {"--fit"}), "64,380,380,380,380,380,380,380\n");
  const std::string whole = ids(std::string(40, 'q'), {}), cut = ids(std::string(40, 'q'), {"--fit"});
  EXPECT_GT(std::ranges::count(whole, ','), 11);
  EXPECT_EQ(std::ranges::count(cut, ','), 11);
  EXPECT_EQ(whole.substr(0, cut.size() - 1), cut.substr(0, cut.size() - 1));
  const ProgramRun decoding = tokenize({"--decode", "316", "--fit"});
  EXPECT_EQ(decoding.exit_code, 2);
  EXPECT_THAT(decoding.err, HasSubstr("cannot be combined with --decode"));
}

TEST(Tokenize, GivesAnyBytesBack) {
  const TempFolder folder;
  std::string text = "broken \xff\xe4\xbd utf-8, \u65e5\u672c \U0001F600\r\n  end";
  text += '\0';
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const std::string path = folder.write("text.bin", text);
  const std::string script = fmt::format(
      "'{0}' tokenize --tokenizer '{1}' --file '{2}' --ids | '{0}' tokenize "
      "--tokenizer '{1}' --decode -",
      program_path(), gptrs_tokenizer_path(), path);
  const ProgramRun run = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, text);
}

TEST(Tokenize, ReadsStandardInput) {
  const std::string script = fmt::format("printf 'Hello world' | '{}' tokenize --tokenizer '{}' --text - --ids",
                                         program_path(), gptrs_tokenizer_path());
  EXPECT_EQ(run_program({"/bin/sh", "-c", script}).out, "316,303,304,76,68\n");
}

TEST(Tokenize, TakesMarksAsTextWhereToldTo) {
  EXPECT_EQ(tokenize({"--text", "a<|endoftext|>", "--count"}).out, "2\n");
  EXPECT_NE(tokenize({"--text", "a<|endoftext|>", "--count", "--plain"}).out, "2\n");
  const std::string ids = tokenize({"--text", "a<|endoftext|>", "--ids"}).out;
  const std::string list = ids.substr(0, ids.size() - 1);
  EXPECT_EQ(tokenize({"--decode", list}).out, "a<|endoftext|>");
  EXPECT_EQ(tokenize({"--decode", list, "--plain"}).out, "a");
}

TEST(Tokenize, FindsTheTokenizerBesideAModelOrTakesItsOwn) {
  const std::string beside = test_file_path("gptrs/ministral_yarn/model.gptrs");
  EXPECT_EQ(run_ballast({"tokenize", beside, "--text", "<s> the", "--ids"}).out, "1,262\n");
  const ProgramRun own = run_ballast({"tokenize", "--text", "It is a truth", "--json"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(json_at(own.out, "pieces/2"), "\" is\"");
}

TEST(Tokenize, SaysWhatIsMissingOrTooMuch) {
  EXPECT_THAT(tokenize({}).err, AllOf(HasSubstr("--text"), HasSubstr("--file"), HasSubstr("--decode")));
  EXPECT_EQ(tokenize({"--text", "a", "--decode", "1"}).exit_code, 2);
  EXPECT_EQ(tokenize({"--decode", "1", "--count"}).exit_code, 2);
  EXPECT_THAT(tokenize({"--decode", "1,x"}).err, HasSubstr("--decode: \"x\" is not a token id"));
  EXPECT_THAT(tokenize({"--decode", "7000"}).err, HasSubstr("no token 7000"));
  EXPECT_THAT(tokenize({"--file", "nowhere.txt"}).err, HasSubstr("nowhere.txt"));
  const ProgramRun none = run_ballast({"tokenize", test_file_path("gptrs/gpt_micro/model.gptrs"), "--text", "x"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--tokenizer"));
  EXPECT_THAT(json_at(tokenize({"--decode", "7000", "--json"}).out, "error/message"), HasSubstr("7000"));
}

}  // namespace
}  // namespace ballast::testing
