#include "ballast/text/constraint/token_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ballast/text/constraint.h"
#include "ballast/text/constraint/gbnf.h"
#include "ballast/text/constraint/json_schema.h"
#include "ballast/text/constraint/regex.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/random_schema.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using SharedGrammar = std::shared_ptr<const Grammar>;
using SharedTrees = std::shared_ptr<const TokenTrees>;

SharedTrees trees_at(const std::string& path) {
  const auto tokenizer = load_tokenizer(path);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  const auto trees = make_token_trees(*tokenizer);
  EXPECT_TRUE(trees) << trees.error().message;
  return *trees;
}
SharedTrees trees_of_data(const std::string& name) { return trees_at(test_file_path("tokenizers/" + name)); }

// Tokens of 1 to 60 bytes as texts in JSON have them, and some that end inside a character.
class RandomVocabulary {
 public:
  RandomVocabulary(unsigned seed, size_t size) : random_(seed) {
    std::string vocabulary;
    std::vector<std::string> known;
    while (known.size() < size) {
      const std::string text = token();
      if (std::ranges::find(known, text) != known.end()) continue;
      vocabulary += (known.empty() ? "\"" : ",\"") + text + "\":" + std::to_string(known.size());
      known.push_back(text);
    }
    const TempFolder folder;
    trees = trees_at(folder.write("tokenizer.json", R"({"model":{"type":"BPE","merges":[],"vocab":{)" + vocabulary +
                                                        R"(}},"decoder":{"type":"ByteLevel"},"pre_tokenizer":)"
                                                        R"({"type":"ByteLevel","add_prefix_space":false}})"));
  }

  SharedTrees trees;

 private:
  size_t below(size_t n) { return random_() % n; }

  // Characters stand for bytes as GPT-2's vocabulary has it: these are a space, a line break, and parts of letters.
  std::string token() {
    static const std::vector<std::string> kParts = {
        "a", "b",    "c",    "n", "x", "e", "0",  "1", "7", "-", ".", ",",      ":",      "{",     "}",    "[",
        "]", "\\\"", "\\\\", "Ġ", "Ċ", "u", "Ã©", "Ã", "©", "(", ")", "\\\":Ġ", "\\\",Ġ", "name0", "true", "],"};
    static const std::vector<std::string> kRuns = {"Ġ", "a", "-", "1", "Ã©", "[", "x-"};
    std::string text;
    if (below(8) == 0) {
      const std::string& part = kRuns[below(kRuns.size())];
      for (size_t count = 1 + below(part.size() == 1 ? 60 : 25); count > 0; --count) text += part;
      if (below(2) == 0) text += kParts[below(kParts.size())];
      return text;
    }
    for (size_t count = 1 + below(1 + below(8)); count > 0; --count) text += kParts[below(kParts.size())];
    return text;
  }

  std::mt19937 random_;
};

constexpr size_t kManyThreads = 100;  // comparing takes long from here on

// Whether taking the bytes needs so many threads that the limit may come sooner for a matcher or for a mask.
bool is_too_ambiguous(Matcher matcher, std::string_view bytes) {
  for (const char c : bytes) {
    const bool goes_on = matcher.advance(static_cast<uint8_t>(c));
    if (matcher.overflowed() || matcher.threads().size() > MatchStepper::kMostThreads / 4) return true;
    if (!goes_on) return false;
  }
  return false;
}

// What the masks say, a matcher says of each token by itself, along a text of tokens that are drawn from the allowed
// ones.
void compare_masks(const SharedGrammar& grammar, const SharedTrees& trees, unsigned seed, size_t steps,
                   size_t most_bytes = TokenMasks::kMostBytes) {
  TokenMasks masks(grammar, trees, most_bytes);
  Matcher matcher(grammar);
  std::mt19937 random(seed);
  TokenBits bits;
  for (size_t step = 0; step < steps; ++step) {
    ASSERT_TRUE(masks.find_allowed(matcher, step == 0, bits));
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < trees->id_count(); ++id) {
      const auto bytes = trees->bytes_of(id, step == 0);
      Matcher after = matcher;
      const bool expected = bytes && after.advance(*bytes);
      const bool is_allowed = (bits[id / 64] >> (id % 64) & 1U) != 0;
      if (is_allowed != expected && bytes && is_too_ambiguous(matcher, *bytes)) continue;
      ASSERT_EQ(is_allowed, expected) << "step " << step << ", token " << id << " " << bytes.value_or("");
      if (expected) allowed.push_back(id);
    }
    if (allowed.empty() || matcher.threads().size() > kManyThreads) break;
    ASSERT_TRUE(matcher.advance(*trees->bytes_of(allowed[random() % allowed.size()], step == 0)));
  }
}

SharedGrammar grammar_of(std::string_view gbnf) {
  const auto grammar = compile_gbnf(gbnf);
  EXPECT_TRUE(grammar) << gbnf << ": " << grammar.error().message;
  return grammar ? *grammar : nullptr;
}

TEST(TokenMasks, AreWhatAMatcherSaysOfEachToken) {
  const SharedTrees words = trees_of_data("bpe_llama2.json"), mixed = RandomVocabulary(1, 600).trees;
  const char* const grammars[] = {
      "root ::= item (\", \" item)*\nitem ::= [a-z]+ | \"(\" root \")\"",
      "root ::= ([a-zA-Z ,.]{0,30} \"\\n\"){2,40}",
      "root ::= (\"a\" | \"an\" | \"and\" | \" \" [b-z]{3,200}){5,900} \"!\"",
      "root ::= (\"[\" root \"]\" | \"{\" root \"}\" | \"x\") root?",
  };
  unsigned seed = 0;
  for (const char* text : grammars) {
    compare_masks(grammar_of(text), mixed, ++seed, 60);
    compare_masks(grammar_of(text), words, ++seed, 40);
  }
}

TEST(TokenMasks, AreWhatAMatcherSaysForRandomSchemas) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::string schema = RandomSchema(seed).make();
    SCOPED_TRACE(schema);
    const auto grammar = compile_json_schema(schema);
    ASSERT_TRUE(grammar) << grammar.error().message;
    compare_masks(*grammar, RandomVocabulary(seed, 250).trees, seed, 40);
    const auto combined = compile_json_schema(RandomSchema(seed).make_combined());
    if (combined) compare_masks(*combined, RandomVocabulary(seed, 250).trees, seed, 20);
  }
}

// Counts decide at every place here: near either limit, far from both, nested, and with tokens longer than the rest.
TEST(TokenMasks, AreWhatAMatcherSaysNearAndFarFromTheLimitsOfRepetitions) {
  const char* const grammars[] = {
      "root ::= [a-z]{3,70} \".\"",
      "root ::= [a-z -]{66,90} \".\"",
      "root ::= [ -z]{40,} \"}\"",
      "root ::= (\"\\\"\" [^\\\"]{0,75} \"\\\",\" \" \"?){2,80} \"]\"",
      "root ::= (\"a\"? \"-\"?){0,100} \"x\"",
      "root ::= ((\"a\" | \"aa\" | \"x-\"){20,70} \"1\"{0,65} \",\"?){1,66}",
      "root ::= ([^a]{1,66} \"a\"){65,1000}",
      "root ::= ([é]{1,80} | \"[\" root \"]\"){1,70}",
  };
  unsigned seed = 0;
  for (const char* text : grammars) {
    SCOPED_TRACE(text);
    for (int i = 0; i < 3; ++i, ++seed) compare_masks(grammar_of(text), RandomVocabulary(seed, 400).trees, seed, 50);
  }
}

// Rules begin with a text, so that none is left-recursive.
class RandomGrammar {
 public:
  explicit RandomGrammar(unsigned seed) : random_(seed) {}

  std::string make() {
    std::string text;
    for (const char* rule : {"root", "r1", "r2"}) text += std::string(rule) + " ::= " + alternatives(0) + "\n";
    return text;
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  std::string literal() {
    static const char* const kTexts[] = {"a", "ab", "x", "\\\"", "[", "]", " ", "1", "é", "name0", "-", "\\n", "("};
    std::string text = "\"";
    for (size_t count = 1 + below(2); count > 0; --count) text += kTexts[below(std::size(kTexts))];
    return text + "\"";
  }
  std::string part(int depth) {
    static const char* const kSets[] = {"[a-z]", "[^\\\"]", "[ -~]", "[0-9a-f]", "[é-ü]", "."};
    static const char* const kTimes[] = {"", "", "*", "+", "?", "{0,3}", "{2,80}", "{40,}", "{17,21}"};
    const std::string times = kTimes[below(std::size(kTimes))];
    switch (depth > 3 ? below(2) : below(5)) {
      case 0: return literal() + times;
      case 1: return kSets[below(std::size(kSets))] + times;
      case 2: return literal() + " " + (below(2) == 0 ? "root?" : below(2) == 0 ? "r1?" : "r2?");
      default: return "(" + alternatives(depth + 1) + ")" + times;
    }
  }
  std::string sequence(int depth) {
    std::string text;
    for (size_t count = 1 + below(3); count > 0; --count) text += part(depth) + " ";
    return text;
  }
  std::string alternatives(int depth) {
    std::string text = sequence(depth);
    for (size_t count = below(3); count > 0; --count) text += "| " + sequence(depth);
    return text;
  }

  std::mt19937 random_;
};

TEST(TokenMasks, AreWhatAMatcherSaysForRandomGrammars) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::string text = RandomGrammar(seed).make();
    SCOPED_TRACE(text);
    const SharedGrammar grammar = grammar_of(text);
    if (!grammar) return;
    compare_masks(grammar, RandomVocabulary(seed, 200).trees, seed, 25);
  }
}

TEST(TokenMasks, AreWhatAMatcherSaysForExpressions) {
  const char* const expressions[] = {"([a-z]+(-[0-9]{2,40})?,? ?)*",
                                     "\"(\\\\.|[^\"\\\\]){0,50}\"",
                                     "(a|b|ab|ba|x-)*[^a]{3}",
                                     "(true|name0|\\[+\\]*)+",
                                     ".*é.*",
                                     "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"};
  unsigned seed = 0;
  for (const char* text : expressions) {
    SCOPED_TRACE(text);
    GrammarDraft draft;
    const RuleId root = draft.add_rule("the expression");
    const auto expr = parse_regex(draft, text, {.where = "regular expression"});
    ASSERT_TRUE(expr) << expr.error().message;
    draft.define(root, *expr);
    const auto grammar = draft.compile(root, "regular expression");
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const char* vocabulary : {"bpe_gpt2.json", "unigram_t5.json", "wordpiece_bert_uncased.json"}) {
      compare_masks(*grammar, trees_of_data(vocabulary), ++seed, 25);
    }
    compare_masks(*grammar, RandomVocabulary(seed, 300).trees, seed, 40);
  }
}

TEST(TokenMasks, AreTheSameWhereNothingCanBeKept) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const auto schema = compile_json_schema(RandomSchema(seed).make());
    ASSERT_TRUE(schema);
    const SharedTrees trees = RandomVocabulary(seed, 400).trees;
    for (const size_t most_bytes : {size_t{0}, size_t{6000}}) compare_masks(*schema, trees, seed, 20, most_bytes);
    compare_masks(grammar_of(RandomGrammar(seed).make()), trees, seed, 20, 0);
  }
}

TEST(TokenMasks, StopBeforeATextNestsTooDeeply) {
  const SharedGrammar grammar = grammar_of("root ::= \"[\" root? \"]\" | \"(\" root? \")\"");
  const SharedTrees trees = RandomVocabulary(3, 300).trees;
  TokenMasks masks(grammar, trees);
  Matcher matcher(grammar);
  TokenBits bits;
  for (int i = 0; i < 250 && matcher.advance(uint8_t{'('}); ++i) {
    ASSERT_TRUE(masks.find_allowed(matcher, false, bits));
    for (TokenId id = 0; id < trees->id_count(); ++id) {
      Matcher after = matcher;
      const auto text = trees->bytes_of(id, false);
      ASSERT_EQ((bits[id / 64] >> (id % 64) & 1U) != 0, text && after.advance(*text)) << i << " " << text.value_or("");
    }
  }
}

// A thousand long texts, many of which begin alike, are one prefix tree however they are written.
TEST(TokenMasks, OfAThousandChoicesCostNoMoreThanOfFew) {
  std::string gbnf = "root ::= ";
  for (int i = 0; i < 1000; ++i) {
    gbnf += (i == 0 ? "\"" : " | \"") + std::string("name0 ") + std::to_string(i * 7919) + " and so on, for long\"";
  }
  const SharedGrammar grammar = grammar_of(gbnf);
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.advance("name0 "));
  EXPECT_EQ(matcher.threads().size(), 1U);
  compare_masks(grammar, RandomVocabulary(5, 500).trees, 5, 40);
}

std::string times(size_t count, std::string_view text) {
  std::string all;
  for (; count > 0; --count) all += text;
  return all;
}

// Behind `depth` times "x", it is at `last` in 2^depth ways.
std::string many_ways_to(int depth, const std::string& last) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < depth; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    text += "r" + std::to_string(i) + " ::= \"x\" " + next + " \"b\" | \"x\" " + next + " \"c\"\n";
  }
  return text + "r" + std::to_string(depth) + " ::= " + last + "\n";
}

// As many ways as fit, none of which can be entered: d never ends.
std::string many_endless_calls() { return "\"y\"" + times(30'000, "|d\"a\""); }
constexpr std::string_view kEndless = "\nd ::= \"b\" d\n";

struct HostileGrammar {
  std::string text, prefix;
};

std::vector<HostileGrammar> hostile_grammars() {
  std::string overlapping = "root ::= (", nested = "[a-z]", letters;
  for (int i = 0; i < 900; ++i)
    overlapping += (i == 0 ? "" : " | ") + std::string("[a-z]{") + std::to_string(i + 1) + "} \"-\"";
  for (int i = 0; i < 6; ++i) nested = "(" + nested + "{1,1000} | " + nested + "{2,70}){1,999}";
  for (char c = 'a'; c < 'y'; ++c) letters += std::string("[") + c + "]e|";
  return {
      {overlapping + ")*", ""},
      {"root ::= " + nested, ""},
      {"root ::= (.* [a-z]{1,9}){1,900}", ""},
      {many_ways_to(9, "[ -~] e\ne ::= " + letters + many_endless_calls()) + std::string(kEndless), "xxxxxxxxx"},
      {many_ways_to(9, "\"a\" e\ne ::= " + many_endless_calls()) + std::string(kEndless), "xxxxxxxxx"},
      {many_ways_to(7, "\"a\" e\ne ::= [ -~] e" + times(40'000, "|[\t]")), "xxxxxxx"},
  };
}

TEST(TokenMasks, OfHostileGrammarsTakeBoundedWorkAndMemory) {
  const SharedTrees trees = RandomVocabulary(7, 2000).trees;
  for (const auto& [text, prefix] : hostile_grammars()) {
    SCOPED_TRACE(text.substr(0, 60));
    const SharedGrammar grammar = grammar_of(text);
    ASSERT_TRUE(grammar);
    TokenMasks masks(grammar, trees);
    Matcher matcher(grammar);
    ASSERT_TRUE(matcher.advance(prefix));
    TokenBits bits;
    for (int i = 0; i < 20; ++i) {
      const uint64_t before = masks.automaton().work();
      const Status found = masks.find_allowed(matcher, false, bits);
      EXPECT_LE(masks.automaton().work() - before, TokenMasks::kMostWork + 2 * MatchStepper::kMostStepWork);
      EXPECT_LE(masks.automaton().bytes(), TokenMasks::kMostBytes);
      EXPECT_LE(matcher.stacks().bytes(), TokenMasks::kMostBytes);
      if (!found || !matcher.advance(uint8_t{'a'})) break;  // it says that the grammar is too ambiguous
    }
  }
}

TEST(TokenMasks, ThatAreEmptyForWantOfThreadsSayThatTheGrammarIsTooAmbiguous) {
  std::string last = "[a] \"0\"";
  for (int i = 1; i < 40; ++i) last += " | [a] \"" + std::to_string(i) + "\"";
  const SharedGrammar grammar = grammar_of(many_ways_to(7, last));
  TokenMasks masks(grammar, RandomVocabulary(7, 500).trees);
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.advance("xxxxxxx"));
  TokenBits bits;
  const Status found = masks.find_allowed(matcher, false, bits);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnsupported);
}

// ---------------------------------------------------------------- steps

TEST(Matcher, MakesNoFramesForRulesThatCannotBeEntered) {
  const SharedGrammar grammar =
      grammar_of(many_ways_to(9, "\"a\" e\ne ::= " + many_endless_calls()) + std::string(kEndless));
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.advance("xxxxxxxxx"));
  matcher.advance(uint8_t{'a'});
  EXPECT_LE(matcher.stacks().size(), 4 * MatchStepper::kMostThreads);
}

TEST(Matcher, RefusesATokenThatWouldTakeTooLong) {
  const SharedGrammar grammar = grammar_of(many_ways_to(7, "\"a\" e\ne ::= [ -~] e" + times(40'000, "|[\t]")));
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.advance("xxxxxxx"));
  EXPECT_FALSE(matcher.advance("a word"));
  EXPECT_TRUE(matcher.overflowed());
  EXPECT_TRUE(matcher.advance("a"));  // nothing has changed
}

TEST(Matcher, ATextIsNotCompleteWhereItsLastByteNeedsTooManyThreads) {
  std::string rules;
  for (int i = 0; i < 11; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    rules += "\nr" + std::to_string(i) + " ::= " + next + " \"b\" | " + next + " \"c\"";
  }
  for (const char* root : {"root ::= \"a\" | [a] r0", "root ::= [a] r0 | \"a\""}) {
    Matcher matcher(grammar_of(root + rules + "\nr11 ::= \"x\""));
    EXPECT_FALSE(matcher.advance(uint8_t{'a'})) << root;
    EXPECT_TRUE(matcher.overflowed()) << root;
    EXPECT_FALSE(matcher.is_complete()) << root;
  }
}

// ---------------------------------------------------------------- the automaton

TEST(MatchAutomaton, AStringIsOneStateWhereverItsLimitIsFar) {
  const SharedGrammar grammar = grammar_of("root ::= \"\\\"\" [a-z]{0,100} \"\\\"\"");
  MatchAutomaton automaton(grammar);
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.advance("\"ab"));
  const auto early = automaton.state_of(matcher, 16);
  EXPECT_EQ(automaton.next(early, 'x'), early);
  ASSERT_TRUE(matcher.advance(std::string(80, 'x')));
  EXPECT_EQ(automaton.state_of(matcher, 16), early);
  ASSERT_TRUE(matcher.advance("xx"));
  EXPECT_NE(automaton.state_of(matcher, 16), early);
  EXPECT_EQ(automaton.next(early, '-'), MatchAutomaton::kDead);
}

TEST(MatchAutomaton, ForgetsAllButTheStatesThatAreAskedFor) {
  const SharedGrammar grammar = grammar_of("root ::= \"(\" root? [a-z]{2,90} \")\"");
  MatchAutomaton automaton(grammar);
  auto state = automaton.state_of(Matcher(grammar), 0);
  for (int i = 0; i < 100; ++i) state = automaton.next(state, '(');
  const size_t before = automaton.bytes();
  std::vector<MatchAutomaton::State> kept = {state, MatchAutomaton::kEnd};
  automaton.forget_but(kept);
  EXPECT_LT(automaton.bytes(), before / 2);
  EXPECT_EQ(kept[1], MatchAutomaton::kEnd);
  state = kept[0];
  for (int i = 0; i < 100; ++i) {
    for (const char c : {'a', 'b', ')'}) state = automaton.next(state, static_cast<uint8_t>(c));
    ASSERT_NE(state, MatchAutomaton::kDead) << i;
  }
  EXPECT_EQ(automaton.next(state, 'a'), MatchAutomaton::kDead);
}

}  // namespace
}  // namespace ballast::testing
