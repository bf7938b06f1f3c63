#include <gmock/gmock.h>
#include <signal.h>

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

  TempFolder folder_;
  std::string template_ = folder_.write("chat.jinja", kDialogue);
  std::string max_tokens_ = "8";
};

TEST_F(Chat, LinesFromAPipeAreTurns) {
  const ProgramRun run = chat("It is a truth\n\nAnd then?\n/stats\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("messages  4"), HasSubstr("known from before"), Not(HasSubstr("> "))));
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
  EXPECT_THAT(refused.err, HasSubstr("holds no conversation; choose another name"));
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
  for (const char* name : {"/help", "/reset", "/save FILE", "/load FILE", "/stats", "/system TEXT", "/exit"}) {
    EXPECT_THAT(run.out, HasSubstr(name));
  }
}

TEST_F(Chat, ALineThatFailsEndsAScript) {
  const ProgramRun unknown = chat("/teleport\nHello\n");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("there is no command /teleport"));
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(chat("/load /no/such/file\n").err, HasSubstr("/no/such/file"));
  EXPECT_THAT(chat("/save\n").err, HasSubstr("the file is missing"));
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

}  // namespace
}  // namespace ballast::testing
