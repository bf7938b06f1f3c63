#include "ballast/text/tokenizer/token_spans.h"

#include "ballast/text/unicode.h"

namespace ballast {

namespace {

class SpanFinder {
 public:
  SpanFinder(std::string_view piece, std::span<const TokenSpelling> tokens, const SpellingMarks& marks)
      : piece_(piece), tokens_(tokens), marks_(marks) {}

  std::vector<TextSpan> find() {
    std::vector<TextSpan> spans;
    spans.reserve(tokens_.size());
    size_t at = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      size_t size = length_at(i, at);
      if (size == 0) size = place_of_next(i, at) - at;
      spans.push_back({at, at + size});
      at += size;
    }
    return spans;
  }

 private:
  // How much of the piece the token spells there; 0: it does not.
  size_t length_at(size_t i, size_t at) const {
    const std::string_view rest = piece_.substr(at);
    if (rest.empty()) return 0;
    if (tokens_[i].byte) return static_cast<unsigned char>(rest.front()) == *tokens_[i].byte ? 1 : 0;
    std::string_view text = tokens_[i].text;
    const std::string& prefix = i == 0 ? marks_.beginning_prefix : marks_.continuing_prefix;
    if (!prefix.empty() && text.starts_with(prefix)) text.remove_prefix(prefix.size());
    if (!marks_.ending.empty() && text.ends_with(marks_.ending) && text.size() - marks_.ending.size() == rest.size())
      text.remove_suffix(marks_.ending.size());
    return rest.starts_with(text) ? text.size() : 0;
  }

  // Where the token behind this one can begin. Of several that spell nothing, each has a character.
  size_t place_of_next(size_t i, size_t at) const {
    if (at == piece_.size()) return at;
    if (i + 1 == tokens_.size()) return piece_.size();
    const size_t next = char_at(piece_, at).end;
    for (size_t place = next; place < piece_.size(); place = char_at(piece_, place).end) {
      if (length_at(i + 1, place) > 0) return place;
    }
    return next;
  }

  std::string_view piece_;
  std::span<const TokenSpelling> tokens_;
  const SpellingMarks& marks_;
};

}  // namespace

std::vector<TextSpan> find_token_spans(std::string_view piece, std::span<const TokenSpelling> tokens,
                                       const SpellingMarks& marks) {
  return SpanFinder(piece, tokens, marks).find();
}

}  // namespace ballast
