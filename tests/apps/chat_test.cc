#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "apps/ballast/commands/chat_history.h"
#include "apps/ballast/commands/chat_message.h"
#include "apps/ballast/output/text.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kDialogue = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";

class Chat : public ::testing::Test {
 protected:
  ProgramRun chat(const std::string& input, std::vector<std::string> more = {}, ProgramSetting setting = {}) {
    std::vector<std::string> arguments = {"chat", "--template", template_, "--greedy", "--max-tokens", max_tokens_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    setting.input = input;
    return run_ballast(arguments, setting);
  }

  static std::string model_path() {
    return (std::filesystem::path(test_file_path("..")) / "../models/default/model.gptrs").string();
  }

  TempFolder folder_;
  std::string template_ = folder_.write("chat.jinja", kDialogue);
  std::string max_tokens_ = "8";
};

TEST_F(Chat, TellsTheSeedThatItDrew) {
  EXPECT_THAT(chat("It is\n", {"--seed", "random"}).err, ::testing::ContainsRegex("seed [0-9]+\n"));
  EXPECT_THAT(chat("It is\n", {"--seed", "7"}).err, Not(HasSubstr("seed")));
}

TEST_F(Chat, LinesFromAPipeAreTurns) {
  const ProgramRun run = chat("It is a truth\n\nAnd then?\n/stats\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("messages  4"), HasSubstr("reused"), Not(HasSubstr("> "))));
  EXPECT_THAT(run.err, HasSubstr("stopped after 8 tokens; --max-tokens allows more"));
  EXPECT_EQ(chat("It is a truth\n\nAnd then?\n/stats\n", {"--threads", "1"}).out.substr(0, 20), run.out.substr(0, 20));
}

TEST_F(Chat, SavesAndGoesOnWithAConversation) {
  const std::string path = folder_.path("talk.json");
  const ProgramRun first =
      chat("/system Be brief.\nHello\n/save " + path + "\n/reset\n/save " + folder_.path("empty.json") + "\n");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  const std::string saved = read_text_file(path);
  EXPECT_EQ(json_at(saved, "messages/0/content"), "\"Be brief.\"");
  EXPECT_EQ(json_at(saved, "messages/1/content"), "\"Hello\"");
  EXPECT_EQ(json_at(saved, "messages/2/role"), "\"assistant\"");
  EXPECT_EQ(json_at(read_text_file(folder_.path("empty.json")), "messages/1"), "");
  const ProgramRun second = chat("/load " + path + "\n/stats\n");
  EXPECT_THAT(second.out, HasSubstr("messages  3"));
  EXPECT_THAT(second.err, HasSubstr("3 messages from " + path));
}

TEST_F(Chat, SavesOverConversationsAndNothingElse) {
  const std::string model = folder_.write("model.gguf", "weights");
  const ProgramRun refused = chat("/save " + model + "\n");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is not a saved conversation; choose another name"));
  EXPECT_EQ(read_text_file(model), "weights");
  const std::string path = folder_.path("talk.json");
  EXPECT_EQ(chat("/save " + path + " \n/system Be brief.\n/save\t" + path + "\n").exit_code, 0);
  EXPECT_EQ(json_at(read_text_file(path), "messages/0/content"), "\"Be brief.\"");
}

TEST_F(Chat, TakesATildeForTheHomeFolder) {
  ProgramSetting setting;
  setting.environment = {{"HOME", folder_.path("")}};
  EXPECT_EQ(chat("/save ~/talk.json\n/load ~/talk.json\n", {}, setting).exit_code, 0);
  EXPECT_EQ(json_at(read_text_file(folder_.path("talk.json")), "messages"), "[]");
}

TEST_F(Chat, HelpListsTheCommands) {
  const ProgramRun run = chat("/help\n");
  for (const char* name : {"/help", "/reset", "/save FILE", "/load FILE", "/stats", "/system TEXT", "/quit", "/exit"}) {
    EXPECT_THAT(run.out, HasSubstr(name));
  }
}

TEST_F(Chat, ALineThatFailsEndsAScript) {
  const ProgramRun unknown = chat("/teleport\nHello\n");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown command /teleport"));
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(chat("/load /no/such/file\n").err, HasSubstr("/no/such/file"));
  EXPECT_THAT(chat("/save\n").err, HasSubstr("no file name given"));
}

TEST_F(Chat, AModelWithoutATemplateSaysWhatToDo) {
  const ProgramRun run = run_ballast({"chat"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no chat template"), HasSubstr("--template FILE"), HasSubstr("generate")));
}

TEST_F(Chat, ABrokenTemplateNamesItsLine) {
  template_ = folder_.write("broken.jinja", "a\n{% if %}");
  EXPECT_THAT(chat("x\n").err, AllOf(HasSubstr("broken.jinja"), HasSubstr("line 2")));
}

TEST_F(Chat, SaysWhatTheModelNoLongerSees) {
  std::string turns;
  for (int i = 0; i < 40; ++i) turns += "a rather long line of a conversation that goes on and on and on and on\n";
  const ProgramRun run = chat(turns + "/stats\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("it no longer sees the first"));
}

// ---------------------------------------------------------------- at a terminal

// Types the next piece whenever the prompt stands at the end of the output.
struct Typist {
  std::vector<std::string> pieces;
  size_t next = 0;
  size_t seen = 0;

  std::string operator()(const std::string& out) {
    if (next >= pieces.size() || out.size() == seen || !out.ends_with("\x1b[2C")) return "";
    seen = out.size();
    return pieces[next++];
  }
};

TEST_F(Chat, EditsLinesAtATerminal) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.type = Typist{{"/hepl\x7f\x7flp\r", "/exit\r"}};
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("> /help"), HasSubstr("forget the conversation"), HasSubstr("\x1b[?2004l")));
}

TEST_F(Chat, CtrlCTwiceAtThePromptLeaves) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.type = Typist{{"\x03", "\x03"}};
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("Ctrl-C again"));
}

TEST_F(Chat, CtrlCStopsTheAnswerAndKeepsTheConversation) {
  ProgramSetting setting;
  bool sent = false;
  setting.watch = [&](pid_t process, const std::string& out) {
    if (sent || out.size() < 10) return;
    sent = true;
    ::kill(process, SIGINT);
  };
  max_tokens_ = "100000";
  const ProgramRun run = chat("Tell me everything\n/stats\n", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("stopped\n"));
  EXPECT_THAT(run.out, HasSubstr("messages  2"));
}

// ---------------------------------------------------------------- one answer, and for programs

TEST_F(Chat, AnswersOnePromptAndEnds) {
  const ProgramRun once =
      run_ballast({"chat", model_path(), "It is a truth", "--template", template_, "--greedy", "--max-tokens", "8"});
  EXPECT_EQ(once.exit_code, 0) << once.err;
  EXPECT_EQ(once.out, chat("It is a truth\n").out);
  ProgramSetting piped;
  piped.input = "It is a truth\n";
  const ProgramRun read =
      run_ballast({"chat", model_path(), "-", "--template", template_, "--greedy", "--max-tokens", "8"}, piped);
  EXPECT_EQ(read.out, once.out) << read.err;
}

TEST_F(Chat, GivesAnObjectForEachAnswer) {
  const ProgramRun run = chat("It is a truth\nAnd then?\n", {"--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const size_t end = run.out.find('\n');
  const std::string first = run.out.substr(0, end), second = run.out.substr(end + 1);
  EXPECT_EQ(json_at(first, "prompt"), "\"It is a truth\"");
  EXPECT_EQ(json_at(first, "end"), "\"max_tokens\"");
  EXPECT_EQ(json_at(first, "written_tokens"), "8");
  EXPECT_EQ(json_at(second, "prompt"), "\"And then?\"");
  EXPECT_NE(json_at(second, "reused_tokens"), "0");
  const ProgramRun plain = chat("It is a truth\n");
  EXPECT_EQ(json_at(first, "text") + "\n", "\"" + plain.out.substr(0, plain.out.size() - 1) + "\"\n");
  const ProgramRun failed = run_ballast({"chat", folder_.path("none.gguf"), "Hello", "--json"});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(json_at(failed.out, "error/message"), HasSubstr("none.gguf"));
}

TEST_F(Chat, QuitLeaves) {
  const ProgramRun run = chat("/quit\nIt is a truth\n");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "");
}

TEST_F(Chat, LinesThatBelongTogetherAreOneMessage) {
  const std::string path = folder_.path("talk.json");
  for (const char* typed : {"one\\\ntwo\n", "\"\"\"one\ntwo\"\"\"\n", "\"\"\"\none\ntwo\n\"\"\"\n"}) {
    const ProgramRun run = chat(std::string(typed) + "/save " + path + "\n");
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(json_at(read_text_file(path), "messages/0/content"), "\"one\\ntwo\"") << typed;
  }
}

TEST(ChatMessage, EndsWithItsLastLine) {
  EXPECT_TRUE(cli::is_unfinished_message("a\\"));
  EXPECT_FALSE(cli::is_unfinished_message("C:\\\\"));
  EXPECT_TRUE(cli::is_unfinished_message("\"\"\""));
  EXPECT_TRUE(cli::is_unfinished_message(" \"\"\"a\nb"));
  EXPECT_FALSE(cli::is_unfinished_message("\"\"\"a\"\"\" "));
  EXPECT_FALSE(cli::is_unfinished_message("say \"\"\""));
  EXPECT_EQ(cli::message_of("  /path is not a command "), "/path is not a command");
}

// ---------------------------------------------------------------- sampling and safety

// "Hello" and made-up words, as many as a small model has tokens.
std::string word_tokenizer(int count) {
  std::string vocabulary = R"("Hello":0)";
  for (int id = 1; id < count; ++id) vocabulary += fmt::format(",\"w{}\":{}", id, id);
  return fmt::format(R"({{"pre_tokenizer":{{"type":"Whitespace"}},"model":{{"type":"WordLevel","unk_token":"w1",)"
                     R"("vocab":{{{}}}}}}})",
                     vocabulary);
}

TEST_F(Chat, SamplesAsTheModelsFilesSayAndAsTheLibraryDoes) {
  const std::string chat_text = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  std::filesystem::copy(test_file_path("huggingface/gpt2"), folder_.path("folder"));
  folder_.write("folder/chat_template.jinja", chat_text);
  folder_.write("folder/tokenizer.json", word_tokenizer(128));
  std::filesystem::copy_file(test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"), folder_.path("model.gguf"));
  ASSERT_EQ(
      run_ballast({"edit", folder_.path("model.gguf"), "--set", "tokenizer.chat_template=" + chat_text}).exit_code, 0);
  const auto command = [&](const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"chat", folder_.path(model), "Hello"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  };
  const auto library = [&](const std::string& model) {
    const std::string program = (std::filesystem::path(program_path()).parent_path() / "chat_example").string();
    const ProgramRun run = run_program({program, folder_.path(model), "Hello"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const size_t more = run.out.rfind(" ...\n");  // which it says of an answer that was cut
    return more == std::string::npos ? run.out : run.out.substr(0, more) + "\n";
  };
  for (const char* model : {"folder", "model.gguf"}) EXPECT_EQ(library(model), command(model)) << model;
  for (const char* config : {R"({"do_sample": false})", R"({"do_sample": true, "temperature": 1.5, "top_k": 3})"}) {
    const std::string path = folder_.write("folder/generation_config.json", config);
    EXPECT_EQ(library("folder"), command("folder")) << config;
    std::filesystem::remove(path);
  }
  folder_.write("folder/generation_config.json", R"({"do_sample": false})");
  EXPECT_EQ(command("folder"), command("folder", {"--greedy"}));
  EXPECT_EQ(command("folder"), command("folder", {"--greedy", "--repetition-penalty", "1"}));
  folder_.write("folder/generation_config.json", R"({"temperature": -1})");
  const ProgramRun refused = run_ballast({"chat", folder_.path("folder"), "Hello"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("generation_config.json"));
}

TEST(WithoutControls, TextThatWouldBeReorderedIsShownByItsNumbers) {
  EXPECT_EQ(cli::without_controls("a\u202Eb\u2066c\u2069\u200F\u061C"), "a\\u202eb\\u2066c\\u2069\\u200f\\u061c");
  EXPECT_EQ(cli::without_controls("שלום, 👩‍🔬\n"),
            "שלום, 👩‍🔬\n");  // letters and joined emoji stay
}

// ---------------------------------------------------------------- history

TEST(ChatHistory, StaysForTheNextRunAndForNobodyElse) {
  const TempFolder folder;
  const cli::ChatHistory history(folder.path("state/ballast/history"));
  EXPECT_TRUE(history.load().empty());
  history.add("first");
  history.add("two\nlines \\n");
  EXPECT_EQ(cli::ChatHistory(folder.path("state/ballast/history")).load(),
            (std::vector<std::string>{"first", "two\nlines \\n"}));
  const auto mode = [&](const char* name) {
    return static_cast<unsigned>(std::filesystem::status(folder.path(name)).permissions());
  };
  EXPECT_EQ(mode("state/ballast/history"), 0600U);
  EXPECT_EQ(mode("state/ballast"), 0700U);
}

TEST(ChatHistory, ForgetsTheOldest) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 1500; ++i) text += fmt::format("entry {}\n", i);
  const cli::ChatHistory history(folder.write("history", text));
  const auto entries = history.load();
  ASSERT_EQ(entries.size(), 1000U);
  EXPECT_EQ(entries.front(), "entry 500");
  EXPECT_EQ(entries.back(), "entry 1499");
  EXPECT_EQ(history.load(), entries);
  EXPECT_LT(std::filesystem::file_size(folder.path("history")), text.size());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"history"});
}

TEST_F(Chat, TheUpArrowKnowsEarlierRuns) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.environment = {{"XDG_STATE_HOME", folder_.path("state")}};
  setting.type = Typist{{"/stats\r", "/quit\r"}};
  EXPECT_EQ(chat("", {}, setting).exit_code, 0);
  setting.type = Typist{{"\x1b[A\x1b[A\r", "/quit\r"}};
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_THAT(run.out, HasSubstr("messages  0"));
}

TEST_F(Chat, AltEnterBeginsAnotherLineOfTheMessage) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.environment = {{"XDG_STATE_HOME", folder_.path("state")}};
  const std::string path = folder_.path("talk.json");
  setting.type = Typist{{"one\x1b\rtwo\\\rthree\r", "/save " + path + "\r", "/quit\r"}};
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_EQ(json_at(read_text_file(path), "messages/0/content"), "\"one\\ntwo\\nthree\"") << run.out;
}

TEST_F(Chat, WhatIsTypedDuringAnAnswerWaitsForThePrompt) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 60;
  setting.environment = {{"XDG_STATE_HOME", folder_.path("state")}, {"NO_COLOR", "1"}};
  max_tokens_ = "60";
  // The question; then, as soon as something of the answer is there, a command.
  size_t asked = 0;
  bool interfered = false;
  setting.type = [&](const std::string& out) -> std::string {
    if (asked == 0 && out.ends_with("\x1b[2C")) {
      asked = out.size();
      return "Tell me\r";
    }
    if (asked == 0 || interfered || out.size() < asked + 60) return "";
    interfered = true;
    return "/quit\r";
  };
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.out;
  const size_t typed = run.out.find("/quit", asked);
  ASSERT_NE(typed, std::string::npos);
  EXPECT_THAT(run.out.substr(0, typed), EndsWith("> ")) << run.out;  // it is at the prompt, and nowhere else
}

TEST_F(Chat, ASignalAtThePromptLeavesTheTerminalAsItWas) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.environment = {{"XDG_STATE_HOME", folder_.path("state")}, {"NO_COLOR", "1"}};
  setting.type = [](const std::string&) { return std::string(); };
  setting.watch = [sent = false](pid_t process, const std::string& out) mutable {
    if (sent || out.find("\x1b[?2004h") == std::string::npos || !out.ends_with("\x1b[2C")) return;
    ::kill(process, SIGTERM);
    sent = true;
  };
  const ProgramRun run = chat("", {}, setting);
  EXPECT_EQ(run.exit_code, 130) << run.out;
  const size_t on = run.out.rfind("\x1b[?2004h"), off = run.out.rfind("\x1b[?2004l");
  ASSERT_NE(off, std::string::npos) << "pastes would be marked in the shell, too";
  EXPECT_GT(off, on);
  EXPECT_TRUE(run.out.ends_with("\n")) << run.out;
}

TEST_F(Chat, WrapsWordsAtTheWidthOfTheTerminal) {
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 40;
  setting.environment = {{"NO_COLOR", "1"}, {"COLUMNS", "40"}};
  const auto answer = [&](bool terminal) {
    setting.terminal = terminal;
    return run_ballast(
        {"chat", model_path(), "It is a truth", "--template", template_, "--greedy", "--max-tokens", "80"}, setting);
  };
  std::string plain = answer(false).out, shown = answer(true).out;
  std::erase(shown, '\r');
  std::istringstream lines(shown.substr(0, shown.find("stopped after")));
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 44U) << line;  // bytes of dashes
  EXPECT_GT(count, 3U) << shown;
  // The same words.
  const auto words = [](const std::string& text) {
    std::istringstream stream(text);
    return std::vector<std::string>{std::istream_iterator<std::string>(stream), {}};
  };
  const std::vector<std::string> said = words(plain), seen = words(shown);
  ASSERT_GE(seen.size(), said.size());
  EXPECT_TRUE(std::equal(said.begin(), said.end(), seen.begin())) << shown;
}

}  // namespace
}  // namespace ballast::testing
