#include "ballast/text/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include "ballast/text/unicode.h"

namespace ballast {

namespace {

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_character(char_before(text, begin).code_point)) return false;
  return end >= text.size() || !is_word_character(char_at(text, end).code_point);
}

size_t spaces_before(std::string_view text, size_t begin, size_t least) {
  while (begin > least && is_white_space(char_before(text, begin).code_point)) begin = char_before(text, begin).begin;
  return std::max(begin, least);
}

size_t spaces_behind(std::string_view text, size_t end) {
  while (end < text.size() && is_white_space(char_at(text, end).code_point)) end = char_at(text, end).end;
  return end;
}

}  // namespace

Result<AddedTokens> AddedTokens::make(std::vector<AddedToken> tokens, const std::vector<Normalizer>& normalizers) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  std::vector<std::string> texts;  // as they are looked for
  size_t given = 0, made = 0;
  for (const AddedToken& token : added.tokens_) {
    texts.push_back(token.text);
    if (token.normalized) BALLAST_CHECK(assign(texts.back(), normalize(normalizers, token.text)));
    given += token.text.size();
    made += texts.back().size();
    if (made <= most_bytes_for(given)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("normalizing {} bytes of added tokens makes {}", given, made));
  }
  for (const bool normalized : {false, true}) {
    for (const bool special : {false, true}) {
      std::vector<PhraseFinder::Phrase> phrases;
      for (size_t i = 0; i < added.tokens_.size(); ++i) {
        const AddedToken& token = added.tokens_[i];
        if (token.normalized != normalized || (token.special && !special)) continue;
        phrases.push_back({texts[i], static_cast<uint32_t>(i)});
      }
      added.finders_.emplace_back(phrases, PhraseFinder::Reading::kBackward);
    }
  }
  return added;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, bool normalized, bool special) const {
  const PhraseFinder& found = finder(normalized, special);
  std::vector<TextPart> parts;
  if (text.empty()) return parts;
  struct Place {
    size_t at;
    PhraseFinder::State match;
  };
  std::vector<Place> places;  // the longest token that begins at each of them, last first
  if (!found.empty()) {
    PhraseFinder::State state = PhraseFinder::kStart;
    for (size_t at = text.size(); at-- > 0;) {
      state = found.next(state, text[at]);
      if (state != PhraseFinder::kStart && found.longest(state) != PhraseFinder::kStart) {
        places.push_back({at, found.longest(state)});
      }
    }
  }
  size_t done = 0;     // how much of the text is in parts
  size_t matched = 0;  // where the next match may begin
  for (size_t i = places.size(); i-- > 0;) {
    const auto& [at, match] = places[i];
    if (at < matched) continue;
    size_t begin = at;
    size_t end = at + found.length(match);
    matched = end;
    const AddedToken& token = tokens_[found.value(match)];
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.strip_left) begin = spaces_before(text, begin, done);
    if (token.strip_right) end = spaces_behind(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done), nullptr});
    parts.push_back({text.substr(begin, end - begin), &token});
    done = matched = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), nullptr});
  return parts;
}

}  // namespace ballast
