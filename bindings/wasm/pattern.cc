// archive/pattern.h by JavaScript's regular expressions: PCRE2 would be half of the module. Expressions are those of
// the library's own tables, which both understand alike; what callers choose by expressions, JavaScript has chosen
// already.
#include "ballast/archive/pattern.h"

#include "bindings/wasm/javascript.h"

extern "C" {
// 1: found, 0: not found, -1: no regular expression.
BALLAST_IMPORT("find_pattern")
int32_t ballast_import_find_pattern(const char* expression, uint32_t expression_size, const char* text,
                                    uint32_t text_size);
}

namespace ballast {

struct Pattern::State {
  std::string expression;
};

namespace {

int32_t find_pattern(const std::string& expression, std::string_view text) {
  return ballast_import_find_pattern(expression.data(), static_cast<uint32_t>(expression.size()), text.data(),
                                     static_cast<uint32_t>(text.size()));
}

}  // namespace

Pattern::Pattern(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<Pattern> Pattern::compile(const std::string& expression) {
  if (find_pattern(expression, "") >= 0) return Pattern(std::make_unique<State>(State{expression}));
  return make_error(ErrorCode::kInvalidArgument, "\"" + expression + "\" is no regular expression");
}

Result<std::vector<Pattern>> Pattern::compile_all(const std::vector<std::string>& expressions) {
  std::vector<Pattern> patterns;
  for (const std::string& expression : expressions) {
    BALLAST_TRY(Pattern pattern, compile(expression));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

Result<bool> Pattern::found_in(std::string_view text) const { return find_pattern(state_->expression, text) == 1; }

Result<bool> any_found(const std::vector<Pattern>& patterns, std::string_view text) {
  for (const Pattern& pattern : patterns) {
    BALLAST_TRY(const bool found, pattern.found_in(text));
    if (found) return true;
  }
  return false;
}

}  // namespace ballast
