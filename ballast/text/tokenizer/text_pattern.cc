#define PCRE2_CODE_UNIT_WIDTH 8
#include "ballast/text/tokenizer/text_pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/text/tokenizer/pattern_syntax.h"
#include "ballast/text/tokenizer/phrase_finder.h"
#include "ballast/text/tokenizer/word_split.h"

namespace ballast {

namespace {

// A match begins with few steps and sees little of the text; one that needs more gets four times as much, again and
// again. What it was given counts against what may be done for the whole text. Steps alone do not tell: running over a
// set of characters is one, however long the run.
constexpr uint32_t kFirstSteps = 4096;
constexpr size_t kFirstWindow = 256;
constexpr uint64_t kWorkPerByte = 64;
constexpr uint64_t kWorkPerText = 10'000'000;
constexpr uint32_t kMaxHeapKib = 64 * 1024;
constexpr size_t kMaxExpression = 1 << 16;
constexpr size_t kLongText = 64;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

PCRE2_SPTR as_subject(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

// Text with a noncharacter in the place of every byte that is no UTF-8, and the way back to the bytes.
class RepairedText {
 public:
  explicit RepairedText(std::string_view text) : text_(text), whole_(is_valid_utf8(text)) {
    if (whole_) return;
    for (size_t at = 0; at < text.size();) {
      const size_t length = utf8_sequence_length(text, at);
      const size_t before = repaired_.size();
      if (length == 0) append_utf8(repaired_, 0xFFFF);
      else repaired_.append(text, at, length);
      origins_.resize(repaired_.size(), at);
      at += std::max<size_t>(length, 1);
      if (length > 1) {
        for (size_t i = 1; i < length; ++i) origins_[before + i] = origins_[before] + i;
      }
    }
    origins_.push_back(text.size());
  }

  std::string_view text() const { return whole_ ? text_ : std::string_view(repaired_); }
  size_t origin(size_t at) const { return whole_ ? at : origins_[at]; }

 private:
  std::string_view text_;
  bool whole_;
  std::string repaired_;
  std::vector<size_t> origins_;
};

struct Pcre2Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

// One search through one text.
class PatternSearch {
 public:
  PatternSearch(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)),
        limits_(pcre2_match_context_create(nullptr)),
        work_left_(kWorkPerText + kWorkPerByte * text.size()) {
    if (has_memory()) pcre2_set_heap_limit(limits_.get(), kMaxHeapKib);
  }
  bool has_memory() const { return data_ != nullptr && limits_ != nullptr; }

  // PCRE2's code: not negative for a match, whose ends ends() has then.
  int find(size_t from) {
    for (size_t window = kFirstWindow;;) {
      const size_t end = window_end(from, window);
      const int found = find_before(end, from);
      if (window > kFirstWindow && !take(end - from)) return PCRE2_ERROR_MATCHLIMIT;
      if (end == text_.size() || (found != PCRE2_ERROR_PARTIAL && found != PCRE2_ERROR_NOMATCH)) return found;
      // Nothing begins before the place where a match might, if more of the text were seen.
      const size_t next = found == PCRE2_ERROR_NOMATCH ? end : ends().begin;
      window = next > from ? kFirstWindow : window * 4;
      from = std::max(from, next);
    }
  }

  TextPattern::Match ends() const {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
    return {ends[0], ends[1]};
  }

 private:
  // Not inside of a character.
  size_t window_end(size_t from, size_t window) const {
    if (window >= text_.size() - from) return text_.size();
    size_t end = from + window;
    while ((text_[end] & 0xC0) == 0x80) --end;
    return end;
  }

  int find_before(size_t end, size_t from) {
    uint32_t options = PCRE2_NO_UTF_CHECK | (end < text_.size() ? PCRE2_PARTIAL_HARD : 0);
    for (uint32_t steps = kFirstSteps;;) {
      pcre2_set_match_limit(limits_.get(), steps);
      const int found = pcre2_match(code_, as_subject(text_), end, from, options, data_.get(), limits_.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT && (options & PCRE2_NO_JIT) == 0) {
        options |= PCRE2_NO_JIT;
        continue;
      }
      const bool more = found == PCRE2_ERROR_MATCHLIMIT;
      if ((more || steps > kFirstSteps) && !take(steps)) return PCRE2_ERROR_MATCHLIMIT;
      if (!more || steps > UINT32_MAX / 4) return found;
      steps *= 4;
    }
  }

  // False when all that may be done for the text was done.
  bool take(uint64_t work) {
    const bool enough = work <= work_left_;
    work_left_ -= std::min(work, work_left_);
    return enough;
  }

  const pcre2_code* code_;
  std::string_view text_;
  std::unique_ptr<pcre2_match_data, Pcre2Free> data_;
  std::unique_ptr<pcre2_match_context, Pcre2Free> limits_;
  uint64_t work_left_;
};

std::vector<TextPattern::Match> find_exact(std::string_view text, std::string_view wanted) {
  std::vector<TextPattern::Match> matches;
  if (wanted.empty() || wanted.size() > text.size()) return matches;
  if (wanted.size() > kLongText) {
    // The simple search is quadratic for texts such as aaaaab.
    const PhraseFinder::Phrase phrase{wanted, 0};
    const PhraseFinder finder({&phrase, 1}, PhraseFinder::Reading::kForward);
    PhraseFinder::State state = PhraseFinder::kStart;
    for (size_t at = 0; at < text.size(); ++at) {
      state = finder.next(state, text[at]);
      if (finder.longest(state) == PhraseFinder::kStart) continue;
      matches.push_back({at + 1 - wanted.size(), at + 1});
      state = PhraseFinder::kStart;
    }
    return matches;
  }
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) {
    matches.push_back({at, at + wanted.size()});
  }
  return matches;
}

std::vector<TextPattern::Match> find_pieces(std::string_view text, PieceEnd piece_end) {
  std::vector<TextPattern::Match> matches;
  matches.reserve(text.size() / 4);
  for (size_t at = 0; at < text.size();) {
    const size_t end = piece_end(text, at);
    matches.push_back({at, end});
    at = end;
  }
  return matches;
}

}  // namespace

struct TextPattern::State {
  std::string source;
  std::unique_ptr<pcre2_code, Pcre2Free> code;  // none: `source` is the text itself
  PieceEnd piece_end = nullptr;                 // instead of it
};

TextPattern TextPattern::exact(std::string text) {
  return TextPattern(std::make_shared<State>(State{std::move(text), nullptr, nullptr}));
}

Result<TextPattern> TextPattern::expression(const std::string& text) {
  if (text.size() > kMaxExpression) {
    return make_error(ErrorCode::kUnsupported, fmt::format("an expression of {} bytes is too long", text.size()));
  }
  if (const PieceEnd known = piece_end_of(text))
    return TextPattern(std::make_shared<State>(State{text, nullptr, known}));
  BALLAST_TRY(const std::string pattern, to_pcre2_syntax(text));
  const std::unique_ptr<pcre2_compile_context, Pcre2Free> context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) return make_error(ErrorCode::kOutOfMemory, "not enough memory for an expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
  int code = 0;
  PCRE2_SIZE where = 0;
  std::unique_ptr<pcre2_code, Pcre2Free> compiled(
      pcre2_compile(as_subject(pattern), pattern.size(), kOptions, &code, &where, context.get()));
  if (!compiled && code == PCRE2_ERROR_HEAP_FAILED) {
    return make_error(ErrorCode::kOutOfMemory, "not enough memory for an expression");
  }
  if (!compiled) {
    return make_error(ErrorCode::kCorrupt, fmt::format("expression \"{}\": {}", text, pcre2_message(code)));
  }
  pcre2_jit_compile(compiled.get(),
                    PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);  // only faster; without it the interpreter runs
  return TextPattern(std::make_shared<State>(State{text, std::move(compiled), nullptr}));
}

Result<std::vector<TextPattern::Match>> TextPattern::find_all(std::string_view text) const {
  if (state_->piece_end != nullptr) return find_pieces(text, state_->piece_end);
  if (state_->code) return find_expression(text);
  return find_exact(text, state_->source);
}

Result<std::vector<TextPattern::Match>> TextPattern::find_expression(std::string_view text) const {
  const RepairedText repaired(text);
  const std::string_view subject = repaired.text();
  PatternSearch search(state_->code.get(), subject);
  if (!search.has_memory()) return make_error(ErrorCode::kOutOfMemory, "not enough memory to search a text");
  std::vector<Match> matches;
  size_t last_end = SIZE_MAX;
  for (size_t from = 0; from <= subject.size();) {
    const int found = search.find(from);
    if (found == PCRE2_ERROR_NOMATCH) break;
    const auto [begin, end] = found >= 0 ? search.ends() : Match{1, 0};
    if (begin > end || begin < from) {
      const std::string why = found >= 0 ? "it matches backwards" : pcre2_message(found);
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("expression \"{}\" gave up on a text of {} bytes: {}", source(), text.size(), why));
    }
    if (begin < end || end != last_end) matches.push_back({repaired.origin(begin), repaired.origin(end)});
    last_end = end;
    from = end;
    // Behind an empty match the search goes on a character further.
    if (begin == end) from += end < subject.size() ? utf8_sequence_length(subject, end) : 1;
  }
  return matches;
}

Result<std::string> TextPattern::replace_all(std::string_view text, std::string_view content, size_t most) const {
  BALLAST_TRY(const std::vector<Match> matches, find_all(text));
  if (matches.empty()) return std::string(text);
  size_t size = text.size();
  for (const Match& match : matches) size -= match.end - match.begin;
  if (size > most || (!content.empty() && matches.size() > (most - size) / content.size())) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("replacing \"{}\" in {} bytes of text would make more than {} bytes", source(), text.size(), most));
  }
  std::string out;
  out.reserve(size + matches.size() * content.size());
  size_t at = 0;
  for (const Match& match : matches) {
    out.append(text, at, match.begin - at).append(content);
    at = match.end;
  }
  return out.append(text, at);
}

const std::string& TextPattern::source() const { return state_->source; }

PieceEnd TextPattern::piece_end() const { return state_->piece_end; }

}  // namespace ballast
