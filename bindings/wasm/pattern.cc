// archive/pattern.h without PCRE2, which would be half of the module: JavaScript has regular expressions of its own and
// names the tensors that they find. An expression that reaches this is refused.
#include "ballast/archive/pattern.h"

namespace ballast {

struct Pattern::State {
  std::string expression;
};

Pattern::Pattern(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<std::vector<Pattern>> Pattern::compile_all(const std::vector<std::string>& expressions) {
  if (expressions.empty()) return std::vector<Pattern>();
  return make_error(ErrorCode::kUnsupported,
                    "\"" + expressions.front() + "\": the module has no regular expressions; name the tensors instead");
}

Result<bool> any_found(const std::vector<Pattern>& patterns, std::string_view /*text*/) { return !patterns.empty(); }

}  // namespace ballast
