#include "ballast/text/tokenizer/pattern_syntax.h"

#include <fmt/format.h>

#include <optional>

namespace ballast {

namespace {

// White_Space; PCRE2's own \s has U+180E as well.
constexpr std::string_view kSpaces =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// PCRE2's own \w has no marks.
constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

class PatternSyntax {
 public:
  explicit PatternSyntax(std::string_view expression) : text_(expression) {}

  Result<std::string> rewrite() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\\') {
        rewrite_escape();
      } else if (text_[at_] == '[') {
        BALLAST_TRY(const std::string set, read_set());
        out_ += set;
      } else if (text_[at_] == '(') {
        rewrite_options();
      } else {
        out_ += text_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  static std::string_view class_of(char letter) {
    switch (letter) {
      case 's':
      case 'S': return kSpaces;
      case 'w':
      case 'W': return kWordCharacters;
      case 'h':
      case 'H': return kHexDigits;
      default: return {};
    }
  }

  // Outside of a set.
  void rewrite_escape() {
    const std::string_view escape = text_.substr(at_, 2);
    at_ += escape.size();
    const std::string_view known = escape.size() == 2 ? class_of(escape[1]) : std::string_view();
    if (known.empty()) out_ += escape;
    else out_ += fmt::format("[{}{}]", escape[1] >= 'a' ? "" : "^", known);
  }

  // (?m: lets the dot match a line break; PCRE2 calls that s.
  void rewrite_options() {
    out_ += text_[at_++];
    if (at_ >= text_.size() || text_[at_] != '?') return;
    const size_t end = text_.find_first_not_of("imx-", at_ + 1);
    if (end == std::string_view::npos || (text_[end] != ':' && text_[end] != ')')) return;
    for (; at_ < end; ++at_) out_ += text_[at_] == 'm' ? 's' : text_[at_];
  }

  struct Set {
    std::string items;  // between the brackets, with the ^
    bool negative = false;
  };

  // From [ to its ]. A set of the form [a&&[b]] becomes a look-ahead for b in front of [a].
  Result<std::string> read_set() {
    BALLAST_TRY(const Set set, read_items());
    if (!cut_) {
      return fmt::format("[{}]", set.items);
    }
    const Set cut = *std::exchange(cut_, std::nullopt);
    if (set.negative) return unsupported("a negative set that is cut with &&");
    return fmt::format("(?:(?=[{}])[{}])", cut.items, set.items);
  }

  Result<Set> read_items() {
    Set set;
    ++at_;
    if (at_ < text_.size() && text_[at_] == '^') {
      set.negative = true;
      set.items += text_[at_++];
    }
    if (at_ < text_.size() && text_[at_] == ']') set.items += fmt::format("\\{}", text_[at_++]);
    while (at_ < text_.size() && text_[at_] != ']') BALLAST_CHECK(read_item(set));
    if (at_ >= text_.size()) {
      return make_error(ErrorCode::kCorrupt, fmt::format("expression \"{}\": a set is not closed", text_));
    }
    ++at_;
    return set;
  }

  Status read_item(Set& set) {
    if (text_[at_] == '\\') {
      const std::string_view escape = text_.substr(at_, 2);
      const std::string_view known = escape.size() == 2 ? class_of(escape[1]) : std::string_view();
      at_ += escape.size();
      // Inside a set the opposite of a class cannot be spelled out.
      set.items += known.empty() || escape[1] < 'a' ? escape : known;
      return {};
    }
    if (text_.substr(at_).starts_with("&&")) return read_cut();
    if (text_[at_] == '[') {
      if (!text_.substr(at_).starts_with("[:")) return unsupported("a set inside a set");
      const size_t end = text_.find(":]", at_);
      if (end == std::string_view::npos) return unsupported("a set inside a set");
      set.items += text_.substr(at_, end + 2 - at_);
      at_ = end + 2;
      return {};
    }
    set.items += text_[at_++];
    return {};
  }

  Status read_cut() {
    at_ += 2;
    if (cut_ || at_ >= text_.size() || text_[at_] != '[') return unsupported("&& with anything but one set behind it");
    BALLAST_TRY(Set cut, read_items());
    if (cut_ || at_ >= text_.size() || text_[at_] != ']') return unsupported("&& with anything but one set behind it");
    cut_ = std::move(cut);
    return {};
  }

  Error unsupported(std::string_view what) const {
    return make_error(ErrorCode::kUnsupported, fmt::format("expression \"{}\" has {}", text_, what));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  std::optional<Set> cut_;
};

}  // namespace

Result<std::string> to_pcre2_syntax(std::string_view expression) { return PatternSyntax(expression).rewrite(); }

}  // namespace ballast
