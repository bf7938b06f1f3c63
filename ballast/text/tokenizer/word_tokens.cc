#include "ballast/text/tokenizer/word_tokens.h"

#include <fmt/format.h>

#include "ballast/text/unicode.h"

namespace ballast {

Result<WordEncoder> WordEncoder::make(const WordVocabulary& vocabulary) {
  WordEncoder encoder;
  encoder.unknown_text_ = vocabulary.unknown;
  encoder.max_chars_ = vocabulary.max_chars;
  const std::string_view mark =
      vocabulary.continuing_prefix.empty() ? vocabulary.beginning_prefix : vocabulary.continuing_prefix;
  std::vector<PhraseFinder::Phrase> marked;
  std::vector<PhraseFinder::Phrase> plain;
  for (const auto& [text, id] : vocabulary.tokens) {
    if (text == vocabulary.unknown) encoder.unknown_ = id;
    else if (vocabulary.whole_words) encoder.words_[text] = id;
    else if (!mark.empty() && text.starts_with(mark))
      marked.push_back({std::string_view(text).substr(mark.size()), id});
    else plain.push_back({text, id});
  }
  if (vocabulary.whole_words) return encoder;
  const bool marks_beginning = vocabulary.continuing_prefix.empty() && !vocabulary.beginning_prefix.empty();
  // Without any mark the same tokens begin and continue words.
  const auto& beginnings = marks_beginning ? marked : plain;
  const auto& continuations = marks_beginning || mark.empty() ? plain : marked;
  encoder.beginnings_ = std::make_shared<PhraseFinder>(beginnings, PhraseFinder::Reading::kBackward);
  encoder.continuations_ = std::make_shared<PhraseFinder>(continuations, PhraseFinder::Reading::kBackward);
  return encoder;
}

Status WordEncoder::encode(std::string_view word, std::vector<TokenId>& out) const {
  if (beginnings_ == nullptr) {
    const auto found = words_.find(std::string(word));
    if (found == words_.end()) return add_unknown(word, out);
    out.push_back(found->second);
    return {};
  }
  if (word.empty()) return {};
  if (word.size() > max_chars_ && count_chars(word) > max_chars_) return add_unknown(word, out);
  std::vector<PhraseFinder::State> longest(word.size());  // that begins at each place
  PhraseFinder::State first = PhraseFinder::kStart;
  PhraseFinder::State later = PhraseFinder::kStart;
  for (size_t at = word.size(); at-- > 0;) {
    first = beginnings_->next(first, word[at]);
    later = continuations_->next(later, word[at]);
    longest[at] = continuations_->longest(later);
  }
  const size_t before = out.size();
  PhraseFinder::State match = beginnings_->longest(first);
  const PhraseFinder* finder = beginnings_.get();
  for (size_t at = 0;;) {
    if (match == PhraseFinder::kStart) {
      out.resize(before);
      return add_unknown(word, out);
    }
    out.push_back(finder->value(match));
    at += finder->length(match);
    if (at == word.size()) return {};
    finder = continuations_.get();
    match = longest[at];
  }
}

Status WordEncoder::add_unknown(std::string_view word, std::vector<TokenId>& out) const {
  if (!unknown_) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" is no word of the vocabulary, and neither is \"{}\", the token for the unknown",
                    word.substr(0, 40), unknown_text_));
  }
  out.push_back(*unknown_);
  return {};
}

}  // namespace ballast
