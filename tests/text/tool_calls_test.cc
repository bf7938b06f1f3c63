// Calls of tools in what models write, family by family.
#include "ballast/text/tool_calls.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

const std::vector<std::string> kOffered = {"weather", "time"};

struct Seen {
  std::string content;
  std::vector<std::string> calls;  // "name arguments"
  bool operator==(const Seen&) const = default;
};

void add(Seen& seen, const ToolText& text) {
  seen.content += text.content;
  for (const ToolCall& call : text.calls) seen.calls.push_back(call.name + " " + call.arguments);
}

Seen read_pieces(ToolCallStyle style, std::string_view text, size_t cut, size_t step) {
  ToolCallReader reader(style, kOffered);
  Seen seen;
  add(seen, reader.next(text.substr(0, cut)));
  for (size_t at = cut; at < text.size(); at += step) add(seen, reader.next(text.substr(at, step)));
  add(seen, reader.finish());
  return seen;
}

// What is seen must not depend on how the text arrives.
Seen read(ToolCallStyle style, std::string_view text) {
  const Seen whole = read_pieces(style, text, text.size(), 1);
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_EQ(read_pieces(style, text, cut, text.size()), whole) << cut;
  EXPECT_EQ(read_pieces(style, text, 0, 1), whole);
  return whole;
}

TEST(ToolCallStyle, IsReadFromTheTemplate) {
  EXPECT_EQ(tool_call_style("{% for message in messages %}{{ message.content }}{% endfor %}"), std::nullopt);
  EXPECT_EQ(tool_call_style("{% if tools %}<tool_call>{\"name\": ...}</tool_call>"), ToolCallStyle::kTagged);
  EXPECT_EQ(tool_call_style("{% if tools %}[TOOL_CALLS][{{ calls }}]"), ToolCallStyle::kMistralList);
  EXPECT_EQ(tool_call_style("{% if tools %}[TOOL_CALLS]{{ name }}[ARGS]"), ToolCallStyle::kMistralNamed);
  EXPECT_EQ(tool_call_style("{% if tools %}{\"name\": f, \"parameters\": {}}{% if message.role == 'ipython' %}"),
            ToolCallStyle::kBareObject);
}

TEST(ToolCallStyle, OfAFamilyWithParametersInTagsIsNotKnown) {
  EXPECT_EQ(tool_call_style("{% if tools %}<tool_call><function=f><parameter=p>"), std::nullopt);
  EXPECT_EQ(tool_call_style("{% if tools %}<tool_call>f<arg_key>p</arg_key>"), std::nullopt);
}

TEST(TaggedCalls, StandBehindText) {
  const Seen seen = read(ToolCallStyle::kTagged,
                         "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
                         "</tool_call>");
  EXPECT_EQ(seen, (Seen{"Let me look.", {"weather {\"city\": \"Oslo\"}"}}));
}

TEST(TaggedCalls, CanBeMany) {
  const Seen seen =
      read(ToolCallStyle::kTagged,
           "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>\n"
           "<tool_call>[{\"name\": \"weather\"}, {\"name\": \"time\", \"arguments\": \"{}\"}]</tool_call>");
  EXPECT_EQ(seen, (Seen{"", {"time {}", "weather {}", "time {}"}}));
}

TEST(TaggedCalls, NeedNoEndWhereTheTextEnds) {
  EXPECT_EQ(read(ToolCallStyle::kTagged, "<tool_call>{\"name\": \"time\"}"), (Seen{"", {"time {}"}}));
}

TEST(TaggedCalls, MayHaveTheirOwnMarksInTheirArguments) {
  constexpr std::string_view kCall =
      "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": \"\\\"<tool_call> </tool_call> b\"}}";
  constexpr std::string_view kSeen = "time {\"a\": \"\\\"<tool_call> </tool_call> b\"}";
  EXPECT_EQ(read(ToolCallStyle::kTagged, kCall), (Seen{"", {std::string(kSeen)}}));
  EXPECT_EQ(read(ToolCallStyle::kTagged, std::string(kCall) + "</tool_call><tool_call>{\"name\": \"weather\"}"),
            (Seen{"", {std::string(kSeen), "weather {}"}}));
  EXPECT_EQ(read(ToolCallStyle::kTagged, "<tool_call>don\"t</tool_call><tool_call>{\"name\": \"time\"}</tool_call>"),
            (Seen{"<tool_call>don\"t</tool_call>", {"time {}"}}));
}

TEST(TaggedCalls, ThatAreBrokenAreText) {
  for (const std::string text :
       {"<tool_call>{\"name\": \"time\", \"arguments\": {</tool_call>", "<tool_call>no JSON</tool_call> and more",
        "<tool_call>{\"name\": \"delete_all\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"time\", \"arguments\": 3}</tool_call>", "<tool_call></tool_call>",
        "<tool_call>{\"name\": \"time\"} {}</tool_call>", "a <tool_ b < <tool_call", "<tool_call>[]</tool_call>"}) {
    EXPECT_EQ(read(ToolCallStyle::kTagged, text), (Seen{text, {}}));
  }
}

TEST(MistralCalls, AreAListBehindAMark) {
  const Seen seen =
      read(ToolCallStyle::kMistralList,
           "[TOOL_CALLS][{\"name\": \"time\", \"arguments\": {\"zone\": \"[1]\"}}, {\"name\": \"weather\", "
           "\"arguments\": {}}]");
  EXPECT_EQ(seen, (Seen{"", {"time {\"zone\": \"[1]\"}", "weather {}"}}));
}

TEST(MistralCalls, HaveNamesBeforeTheirArguments) {
  const Seen seen =
      read(ToolCallStyle::kMistralNamed, "Well.[TOOL_CALLS]time[ARGS]{\"a\": 1}[TOOL_CALLS]weather[ARGS]{}");
  EXPECT_EQ(seen, (Seen{"Well.", {"time {\"a\": 1}", "weather {}"}}));
}

TEST(MistralCalls, MayHaveTheirOwnMarksInTheirArguments) {
  EXPECT_EQ(read(ToolCallStyle::kMistralNamed,
                 "[TOOL_CALLS]time[ARGS]{\"a\": \"[TOOL_CALLS]time[ARGS]{} [CALL_ID]\"}[TOOL_CALLS]weather[ARGS]{}"),
            (Seen{"", {"time {\"a\": \"[TOOL_CALLS]time[ARGS]{} [CALL_ID]\"}", "weather {}"}}));
}

TEST(MistralCalls, ThatAreBrokenAreText) {
  for (const std::string text : {"[TOOL_CALLS][{\"name\": \"time\"", "[TOOL_CALLS]", "so [TOOL_CALLS][1]"}) {
    EXPECT_EQ(read(ToolCallStyle::kMistralList, text), (Seen{text, {}}));
  }
  for (const std::string text : {"[TOOL_CALLS]time[ARGS]{", "[TOOL_CALLS]time{}", "[TOOL_CALLS]other[ARGS]{}"}) {
    EXPECT_EQ(read(ToolCallStyle::kMistralNamed, text), (Seen{text, {}}));
  }
}

TEST(BareCalls, AreTheWholeAnswer) {
  EXPECT_EQ(read(ToolCallStyle::kBareObject, "{\"name\": \"time\", \"parameters\": {\"zone\": \"UTC\"}}"),
            (Seen{"", {"time {\"zone\": \"UTC\"}"}}));
  EXPECT_EQ(read(ToolCallStyle::kBareObject, "<|python_tag|>{\"name\": \"time\", \"parameters\": {}}"),
            (Seen{"", {"time {}"}}));
}

TEST(BareCalls, AreNotJsonThatSaysSomethingElse) {
  for (const std::string text : {"{\"name\": \"Ada\", \"age\": 36}", "{\"name\": \"time\"} is a call",
                                 "It is {\"name\": \"time\"}", "{", "", " ", "<|python_tag|>print(1)"}) {
    EXPECT_EQ(read(ToolCallStyle::kBareObject, text), (Seen{text, {}}));
  }
}

}  // namespace
}  // namespace ballast
