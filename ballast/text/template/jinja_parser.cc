#include "ballast/text/template/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/template/jinja_expression_parser.h"

namespace ballast::jinja {

namespace {

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Result<Block> run() { return block({}, "", 0); }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to one of the tags `ends`, whose name is the next token then; up to the end where there are none.
  Result<Block> block(Ends ends, std::string_view opened, uint32_t line) {
    if (++nesting_ > kMostNesting)
      return syntax_error(tokens_.line(), fmt::format("blocks nested more than {} deep", kMostNesting));
    Block body;
    for (;;) {
      const Token& token = tokens_.peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) break;
        return syntax_error(line,
                            fmt::format("{{% {} %}} is not closed: {{% {} %}} is missing", opened, *(ends.end() - 1)));
      }
      tokens_.take();
      if (token.kind == TokenKind::kData) {
        Statement& data = add(body, StatementKind::kData, token.line);
        data.text = token.text;
      } else if (token.kind == TokenKind::kVariableBegin) {
        Statement& output = add(body, StatementKind::kOutput, token.line);
        BALLAST_CHECK(assign(output.value, expressions_.expression_or_tuple()));
        BALLAST_CHECK(expect(TokenKind::kVariableEnd, "'}}'"));
      } else {
        if (tokens_.is_one_of(ends)) break;
        BALLAST_CHECK(statement(body));
      }
    }
    --nesting_;
    return body;
  }

  static Statement& add(Block& body, StatementKind kind, uint32_t line) {
    Statement& statement = body.emplace_back();
    statement.kind = kind;
    statement.line = line;
    return statement;
  }
  Status expect(TokenKind kind, std::string_view text) {
    if (!tokens_.is(kind)) return tokens_.unexpected(text);
    tokens_.take();
    return {};
  }
  Status end_tag() { return expect(TokenKind::kBlockEnd, "'%}'"); }

  Status statement(Block& body) {
    struct Row {
      std::string_view tag;
      StatementKind kind;
      Status (TemplateParser::*parse)(Statement&);
    };
    static constexpr Row kTags[] = {
        {"if", StatementKind::kIf, &TemplateParser::if_tag},
        {"for", StatementKind::kFor, &TemplateParser::for_tag},
        {"set", StatementKind::kSet, &TemplateParser::set_tag},
        {"macro", StatementKind::kMacro, &TemplateParser::macro_tag},
        {"call", StatementKind::kCall, &TemplateParser::call_tag},
        {"with", StatementKind::kWith, &TemplateParser::with_tag},
        {"filter", StatementKind::kFilterBlock, &TemplateParser::filter_tag},
        {"generation", StatementKind::kScope, &TemplateParser::generation_tag},
        {"break", StatementKind::kBreak, &TemplateParser::loop_control_tag},
        {"continue", StatementKind::kContinue, &TemplateParser::loop_control_tag},
    };
    const uint32_t line = tokens_.line();
    BALLAST_TRY(const std::string tag, tokens_.expect_name());
    const auto* row = std::ranges::find(kTags, tag, &Row::tag);
    if (row == std::end(kTags)) return unknown_tag(tag, line);
    Statement made;
    made.kind = row->kind;
    made.line = line;
    BALLAST_CHECK((this->*row->parse)(made));
    body.push_back(std::move(made));
    return {};
  }

  static Error unknown_tag(const std::string& tag, uint32_t line) {
    static constexpr std::string_view kOthers[] = {"include", "import", "from", "extends", "block", "autoescape"};
    if (std::ranges::find(kOthers, tag) == std::end(kOthers)) {
      return syntax_error(line, fmt::format("{{% {} %}} does not belong here, or is no tag", tag));
    }
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("chat template, line {}: {{% {} %}} is not supported: a chat template is one file, "
                                  "and text is all it makes",
                                  line, tag));
  }

  Status if_tag(Statement& made) {
    for (bool last = false;;) {
      Branch& branch = made.branches.emplace_back();
      if (!last) BALLAST_CHECK(assign(branch.condition, expressions_.expression_or_tuple()));
      BALLAST_CHECK(end_tag());
      if (last) BALLAST_CHECK(assign(branch.body, block({"endif"}, "if", made.line)));
      else BALLAST_CHECK(assign(branch.body, block({"elif", "else", "endif"}, "if", made.line)));
      const std::string closing = tokens_.take().text;
      if (closing == "endif") return end_tag();
      last = closing == "else";
    }
  }

  // One name, names with commas, or a field of a namespace.
  Result<Target> target() {
    Target made;
    const bool parenthesis = tokens_.skip_operator("(");
    for (;;) {
      BALLAST_TRY(std::string name, tokens_.expect_name());
      made.names.push_back(std::move(name));
      if (!tokens_.skip_operator(",")) break;
      made.unpack = true;
      if (!tokens_.is(TokenKind::kName) || tokens_.is_name("in")) break;
    }
    if (parenthesis) BALLAST_CHECK(tokens_.expect_operator(")"));
    if (!made.unpack && tokens_.skip_operator(".")) BALLAST_CHECK(assign(made.field, tokens_.expect_name()));
    return made;
  }

  Status for_tag(Statement& made) {
    BALLAST_CHECK(assign(made.target, target()));
    if (!made.target.field.empty()) return syntax_error(made.line, "a loop cannot set a field");
    if (std::ranges::find(made.target.names, "loop") != made.target.names.end()) {
      return syntax_error(made.line, "'loop' cannot be the variable of a loop");
    }
    if (!tokens_.skip_name("in")) return tokens_.unexpected("'in'");
    BALLAST_CHECK(assign(made.value, expressions_.expression_or_tuple(false)));
    if (tokens_.skip_name("if")) BALLAST_CHECK(assign(made.condition, expressions_.expression()));
    made.recursive = tokens_.skip_name("recursive");
    BALLAST_CHECK(end_tag());
    ++loops_;
    BALLAST_CHECK(assign(made.body, block({"else", "endfor"}, "for", made.line)));
    --loops_;
    if (tokens_.take().text == "else") {
      BALLAST_CHECK(end_tag());
      BALLAST_CHECK(assign(made.otherwise, block({"endfor"}, "for", made.line)));
      tokens_.take();
    }
    return end_tag();
  }

  Status set_tag(Statement& made) {
    BALLAST_CHECK(assign(made.target, target()));
    if (tokens_.skip_operator("=")) {
      BALLAST_CHECK(assign(made.value, expressions_.expression_or_tuple()));
      return end_tag();
    }
    made.kind = StatementKind::kSetBlock;
    if (tokens_.skip_operator("|")) BALLAST_CHECK(assign(made.value, expressions_.filters_alone()));
    return body_until(made, "set", "endset");
  }

  Status macro_tag(Statement& made) {
    BALLAST_CHECK(assign(made.name, tokens_.expect_name()));
    BALLAST_CHECK(parameters(made));
    return macro_body(made, "macro", "endmacro");
  }

  Status parameters(Statement& made) {
    BALLAST_CHECK(tokens_.expect_operator("("));
    while (!tokens_.skip_operator(")")) {
      if (!made.parameters.empty()) BALLAST_CHECK(tokens_.expect_operator(","));
      if (tokens_.skip_operator(")")) break;
      Parameter& parameter = made.parameters.emplace_back();
      BALLAST_CHECK(assign(parameter.name, tokens_.expect_name()));
      if (tokens_.skip_operator("=")) {
        BALLAST_CHECK(assign(parameter.standard, expressions_.expression()));
      } else if (made.parameters.size() > 1 && (made.parameters.end() - 2)->standard) {
        return syntax_error(tokens_.line(), "a parameter without a default behind one with a default");
      }
    }
    return {};
  }

  // A loop around the macro is none inside of it, and what its body reads of `caller` and its like is the macro's own.
  Status macro_body(Statement& made, std::string_view tag, std::string_view end) {
    const uint32_t loops = std::exchange(loops_, 0);
    const MacroExtras around = expressions_.take_extras();
    BALLAST_CHECK(body_until(made, tag, end));
    made.extras = expressions_.take_extras();
    loops_ = loops;
    expressions_.add_extras(around);
    expressions_.add_extras(made.extras);
    for (const Parameter& parameter : made.parameters) {
      if (parameter.name == "caller" && made.extras.caller && !parameter.standard) {
        return syntax_error(made.line, "a parameter called 'caller' needs a default");
      }
    }
    return {};
  }

  Status call_tag(Statement& made) {
    made.name = "caller";
    if (tokens_.is_operator("(")) BALLAST_CHECK(parameters(made));
    BALLAST_CHECK(assign(made.value, expressions_.expression()));
    if (made.value->kind != ExprKind::kCall) return syntax_error(made.line, "{% call %} needs a call");
    return macro_body(made, "call", "endcall");
  }

  Status with_tag(Statement& made) {
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      if (!made.assignments.empty()) BALLAST_CHECK(tokens_.expect_operator(","));
      Assignment& one = made.assignments.emplace_back();
      BALLAST_CHECK(assign(one.target, target()));
      if (!one.target.field.empty()) return syntax_error(made.line, "{% with %} cannot set a field");
      BALLAST_CHECK(tokens_.expect_operator("="));
      BALLAST_CHECK(assign(one.value, expressions_.expression()));
    }
    return body_until(made, "with", "endwith");
  }

  Status filter_tag(Statement& made) {
    BALLAST_CHECK(assign(made.value, expressions_.filters_alone()));
    return body_until(made, "filter", "endfilter");
  }

  Status generation_tag(Statement& made) { return body_until(made, "generation", "endgeneration"); }

  Status loop_control_tag(Statement& made) {
    if (loops_ == 0) return syntax_error(made.line, "break or continue outside of a loop");
    return end_tag();
  }

  Status body_until(Statement& made, std::string_view tag, std::string_view end) {
    BALLAST_CHECK(end_tag());
    BALLAST_CHECK(assign(made.body, block({end}, tag, made.line)));
    tokens_.take();
    // {% endmacro name %} may repeat the name.
    if (made.kind == StatementKind::kMacro) tokens_.skip_name(made.name);
    return end_tag();
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  uint32_t nesting_ = 0;
  uint32_t loops_ = 0;  // around this place, inside the same macro
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
  BALLAST_TRY(std::vector<Token> tokens, cut_template(source));
  return TemplateParser(std::move(tokens)).run();
}

}  // namespace ballast::jinja
