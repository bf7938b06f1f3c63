#define PCRE2_CODE_UNIT_WIDTH 8
#include "ballast/archive/pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

namespace ballast {

namespace {

constexpr uint32_t kMatchLimit = 1'000'000;  // steps before a runaway expression is stopped

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

Error no_memory() { return make_error(ErrorCode::kOutOfMemory, "not enough memory for a regular expression"); }

}  // namespace

struct Pattern::State {
  std::string expression;
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  ~State() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Pattern::Pattern(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<Pattern> Pattern::compile(const std::string& expression) {
  auto state = std::make_unique<State>();
  state->expression = expression;
  int code = 0;
  PCRE2_SIZE where = 0;
  state->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF, &code,
                              &where, nullptr);
  if (state->code == nullptr && code == PCRE2_ERROR_HEAP_FAILED) return no_memory();
  if (state->code == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("regular expression \"{}\": at character {}: {}",
                                                               expression, where + 1, message_of(code)));
  }
  pcre2_jit_compile(state->code, PCRE2_JIT_COMPLETE);  // only faster; without it the interpreter runs
  state->limits = pcre2_match_context_create(nullptr);
  if (state->limits == nullptr) return no_memory();
  pcre2_set_match_limit(state->limits, kMatchLimit);
  return Pattern(std::move(state));
}

Result<bool> Pattern::found_in(std::string_view text) const {
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(state_->code, nullptr);
  if (data == nullptr) return no_memory();
  const int found =
      pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data, state_->limits);
  pcre2_match_data_free(data);
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  return gave_up(text, found);
}

Error Pattern::gave_up(std::string_view text, int code) const {
  if (code == PCRE2_ERROR_NOMEMORY) return no_memory();
  return make_error(ErrorCode::kInvalidArgument, fmt::format("regular expression \"{}\" gave up on \"{}\": {}",
                                                             state_->expression, text.substr(0, 80), message_of(code)));
}

Result<std::optional<std::string>> Pattern::first_group(std::string_view text) const {
  using Free = decltype(&pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(state_->code, nullptr),
                                                     pcre2_match_data_free);
  if (data == nullptr) return no_memory();
  const int found = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data.get(),
                                state_->limits);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<std::string>();
  if (found < 0) return gave_up(text, found);
  // A group that took no part in the match counts as empty.
  const size_t group = pcre2_get_ovector_count(data.get()) > 1 ? 1 : 0;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get()) + 2 * group;
  if (static_cast<int>(group) >= found || ends[0] == PCRE2_UNSET) return std::optional(std::string());
  return std::optional(std::string(text.substr(ends[0], ends[1] - ends[0])));
}

Result<Pattern::Replaced> Pattern::replace_all(std::string_view text, const std::string& replacement) const {
  Replaced result;
  result.text.resize(text.size() * 2 + replacement.size() + 64);
  constexpr uint32_t kOptions =
      PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_UNSET_EMPTY | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
  while (true) {
    PCRE2_SIZE length = result.text.size();
    const int done = pcre2_substitute(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, kOptions,
                                      nullptr, state_->limits, reinterpret_cast<PCRE2_SPTR>(replacement.data()),
                                      replacement.size(), reinterpret_cast<PCRE2_UCHAR*>(result.text.data()), &length);
    if (done == PCRE2_ERROR_NOMEMORY && length > result.text.size() && length <= kMaxReplaced) {
      result.text.resize(length);
      continue;
    }
    if (done < 0) return cannot_replace(text, replacement, done, length);
    if (length > kMaxReplaced) return cannot_replace(text, replacement, PCRE2_ERROR_NOMEMORY, length);
    result.text.resize(length);
    result.matches = static_cast<size_t>(done);
    return result;
  }
}

Error Pattern::cannot_replace(std::string_view text, const std::string& replacement, int code, size_t length) const {
  const std::string why =
      code == PCRE2_ERROR_NOMEMORY ? fmt::format("the result would have {} bytes", length) : message_of(code);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("regular expression \"{}\" with replacement \"{}\" on \"{}\": {}", state_->expression,
                                replacement, text.substr(0, 80), why));
}

const std::string& Pattern::expression() const { return state_->expression; }

Result<std::vector<Pattern>> Pattern::compile_all(const std::vector<std::string>& expressions) {
  std::vector<Pattern> patterns;
  for (const std::string& expression : expressions) {
    BALLAST_TRY(Pattern pattern, Pattern::compile(expression));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

Result<bool> any_found(const std::vector<Pattern>& patterns, std::string_view text) {
  for (const Pattern& pattern : patterns) {
    BALLAST_TRY(const bool found, pattern.found_in(text));
    if (found) return true;
  }
  return false;
}

std::string exactly(std::string_view text) {
  std::string expression = "\\A\\Q";
  for (size_t end = text.find("\\E"); end != std::string_view::npos; end = text.find("\\E")) {
    expression.append(text.substr(0, end)).append("\\E\\\\E\\Q");
    text.remove_prefix(end + 2);
  }
  return expression.append(text).append("\\E\\z");
}

}  // namespace ballast
