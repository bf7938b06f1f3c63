// mask_bench TOKENIZER schema|grammar|regex FORM FIRST LATER RUNS: what a constraint costs, on one thread.
// scripts/bench_structured runs it beside llguidance. It
// compiles the form in the file FORM RUNS times, and follows the texts in the files FIRST and LATER with each. Prints
// JSON: the times of compiling, in ms, and of both texts the tokens and the times in us of the mask before each token,
// of taking the token, and of a rule, which is both and forbidding logits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include "ballast/io/file.h"
#include "ballast/text/constraint.h"
#include "ballast/text/constraint/gbnf.h"
#include "ballast/text/constraint/json_schema.h"
#include "ballast/text/constraint/regex.h"
#include "ballast/text/constraint/token_masks.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

Result<std::string> text_of(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

Result<std::shared_ptr<const Grammar>> compile(const std::string& kind, const std::string& form) {
  if (kind == "schema") return compile_json_schema(form);
  if (kind == "grammar") return compile_gbnf(form);
  GrammarDraft draft;
  const RuleId root = draft.add_rule("the expression");
  BALLAST_TRY(const ExprId expr, parse_regex(draft, form, {.where = "regular expression"}));
  draft.define(root, expr);
  return draft.compile(root, "regular expression");
}

struct Text {
  std::vector<TokenId> ids;
  std::vector<double> mask{}, advance{}, rule{};

  std::string to_json() const {
    return fmt::format("{{\"tokens\":[{}],\"mask_us\":[{:.3f}],\"advance_us\":[{:.3f}],\"rule_us\":[{:.3f}]}}",
                       fmt::join(ids, ","), fmt::join(mask, ","), fmt::join(advance, ","), fmt::join(rule, ","));
  }
};

bool allows(const TokenBits& allowed, TokenId id) { return (allowed[id / 64] >> (id % 64) & 1U) != 0; }

Status follow(TokenMasks& masks, Text& text) {
  const std::vector<TokenId>& ids = text.ids;
  Matcher matcher(masks.grammar());
  TokenBits allowed;
  for (size_t i = 0; i <= ids.size(); ++i) {
    const auto start = Clock::now();
    BALLAST_CHECK(masks.find_allowed(matcher, i == 0, allowed));
    text.mask.push_back(Microseconds(Clock::now() - start).count());
    if (i == ids.size()) break;
    const auto bytes = masks.trees().bytes_of(ids[i], i == 0);
    const auto taken = Clock::now();
    const bool fits = bytes && matcher.advance(*bytes);
    text.advance.push_back(Microseconds(Clock::now() - taken).count());
    if (!fits || !allows(allowed, ids[i]))
      return make_error(ErrorCode::kInvalidArgument, fmt::format("token {} breaks the constraint", i));
  }
  if (matcher.is_complete()) return {};
  return make_error(ErrorCode::kInvalidArgument, "the text is incomplete");
}

// What an engine waits for.
Status follow_rule(const TokenConstraint& constraint, Text& text, size_t vocabulary, TokenId end) {
  auto rule = constraint(0, std::span(&end, 1));
  std::vector<float> logits(vocabulary);
  for (size_t i = 0; i <= text.ids.size(); ++i) {
    std::ranges::fill(logits, 1.0F);
    const auto start = Clock::now();
    BALLAST_CHECK(rule(logits, std::span(text.ids).first(i)));
    text.rule.push_back(Microseconds(Clock::now() - start).count());
  }
  return {};
}

Result<Constraint> constraint_of(const std::string& kind, const std::string& form) {
  if (kind == "schema") return Constraint::of_schema(form);
  if (kind == "grammar") return Constraint::of_grammar(form);
  return Constraint::of_regex(form);
}

Result<Text> read_text(const Tokenizer& tokenizer, const std::string& path) {
  BALLAST_TRY(const std::string text, text_of(path));
  BALLAST_TRY(auto ids, tokenizer.encode(text, {.special_tokens = false, .add_special_tokens = false}));
  return Text{std::move(ids)};
}

Result<TokenId> special_token(const Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_special(id)) return id;
  }
  return make_error(ErrorCode::kInvalidArgument, "the vocabulary has no special token, so no text could end");
}

Status measure(const std::vector<std::string>& words, int runs) {
  BALLAST_TRY(const Tokenizer tokenizer, load_tokenizer(words[0]));
  BALLAST_TRY(const std::string form, text_of(words[2]));
  BALLAST_TRY(Text first, read_text(tokenizer, words[3]));
  BALLAST_TRY(Text later, read_text(tokenizer, words[4]));
  BALLAST_TRY(const TokenId end, special_token(tokenizer));
  BALLAST_TRY(const auto trees, make_token_trees(tokenizer));
  std::vector<double> compiling;
  for (int run = 0; run < runs; ++run) {
    const auto start = Clock::now();
    BALLAST_TRY(const auto grammar, compile(words[1], form));
    compiling.push_back(Microseconds(Clock::now() - start).count() / 1e3);
    TokenMasks masks(grammar, trees);
    BALLAST_TRY(const Constraint constraint, constraint_of(words[1], form));
    BALLAST_TRY(const TokenConstraint rules, TokenConstraint::make(constraint, trees));
    for (Text* text : {&first, &later}) {
      BALLAST_CHECK(follow(masks, *text));
      BALLAST_CHECK(follow_rule(rules, *text, trees->id_count(), end));
    }
  }
  fmt::print("{{\"compile_ms\":[{:.4f}],\"first\":{},\"later\":{}}}\n", fmt::join(compiling, ","), first.to_json(),
             later.to_json());
  return {};
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  int runs = 0;
  if (words.size() == 6) std::from_chars(words[5].data(), words[5].data() + words[5].size(), runs);
  if (runs < 1) {
    fmt::print(stderr, "usage: mask_bench TOKENIZER schema|grammar|regex FORM FIRST LATER RUNS\n");
    return 2;
  }
  if (const auto status = ballast::measure(words, runs); !status) {
    fmt::print(stderr, "mask_bench: {}\n", status.error().message);
    return 2;
  }
  return 0;
}
