// Which part of a text each of its tokens stands for: the stages once more, with where everything came from. This is
// the slower way to the same tokens.
#include <algorithm>
#include <charconv>
#include <type_traits>

#include "ballast/text/tokenizer/tokenizer_stages.h"
#include "ballast/text/unicode.h"

namespace ballast {

namespace {

SpellingMarks marks_of(const BytePairVocabulary&) { return {}; }
SpellingMarks marks_of(const UnigramVocabulary&) { return {}; }
SpellingMarks marks_of(const CharPairVocabulary& v) { return {v.continuing_prefix, "", v.ending}; }
SpellingMarks marks_of(const WordVocabulary& v) {
  return {v.continuing_prefix, v.continuing_prefix.empty() ? v.beginning_prefix : "", ""};
}

bool has_byte_tokens(const CharPairVocabulary& v) { return v.byte_fallback; }
bool has_byte_tokens(const UnigramVocabulary& v) { return v.byte_fallback; }
bool has_byte_tokens(const auto&) { return false; }

// The bytes of unknown characters that follow each other stand for all of these characters.
void join_bytes(std::span<const TokenSpelling> tokens, std::vector<TextSpan>& spans) {
  for (size_t begin = 0; begin < tokens.size();) {
    size_t end = begin + 1;
    while (tokens[begin].byte && end < tokens.size() && tokens[end].byte) ++end;
    const TextSpan joined{spans[begin].begin, spans[end - 1].end};
    std::fill(spans.begin() + static_cast<std::ptrdiff_t>(begin), spans.begin() + static_cast<std::ptrdiff_t>(end),
              joined);
    begin = end;
  }
}

}  // namespace

void Tokenizer::Stages::learn_spelling(const TokenModel& model) {
  spelling_marks_ = std::visit([](const auto& v) { return marks_of(v); }, model);
  byte_tokens_ = std::visit([](const auto& v) { return has_byte_tokens(v); }, model);
}

Result<Tokenizer::Stages::Tokens> Tokenizer::Stages::encode_traced(std::string_view text, bool special) const {
  const TracedText whole = trace_text(text, replace_broken_);
  const std::string_view all = whole.text;
  Tokens out;
  BytePairEncoder::Cache cache(all.size());
  for (const TextPart& part : added_.split(all, /*normalized=*/false, special)) {
    const auto begin = static_cast<size_t>(part.text.data() - all.data());
    if (part.token == nullptr) {
      BALLAST_CHECK(trace_between(whole.slice(begin, part.text.size()), special, begin == 0, cache, out));
      continue;
    }
    add_found(*part.token, whole, begin, part.text.size(), out);
  }
  if (post_processor_.trim_offsets) trim_spans(out);
  return out;
}

// A token that was found in the text, perhaps with white space around it.
void Tokenizer::Stages::add_found(const AddedToken& token, const TracedText& text, size_t begin, size_t size,
                                  Tokens& out) const {
  size_t end = begin + size;
  const std::string_view all = text.text;
  const bool keeps_left = post_processor_.trims_behind_prefix && text.origin[begin].begin == 0;
  if (post_processor_.trim_offsets) {
    while (!keeps_left && begin + 1 < end && is_white_space(char_at(all, begin).code_point))
      begin = char_at(all, begin).end;
    while (begin + 1 < end && is_white_space(char_before(all, end).code_point)) end = char_before(all, end).begin;
  }
  out.ids.push_back(token.id);
  out.spans.push_back(text.span(begin, end));
}

Status Tokenizer::Stages::trace_between(const TracedText& text, bool special, bool first, BytePairEncoder::Cache& cache,
                                        Tokens& out) const {
  BALLAST_TRY(const TracedText normalized, normalize_traced(normalizers_, text));
  const std::string_view all = normalized.text;
  for (const TextPart& part : added_.split(all, /*normalized=*/true, special)) {
    const auto begin = static_cast<size_t>(part.text.data() - all.data());
    if (part.token == nullptr) {
      BALLAST_CHECK(trace_segment(normalized, begin, part.text.size(), first && begin == 0, cache, out));
      continue;
    }
    add_found(*part.token, normalized, begin, part.text.size(), out);
  }
  return {};
}

Status Tokenizer::Stages::trace_segment(const TracedText& text, size_t begin, size_t size, bool first,
                                        BytePairEncoder::Cache& cache, Tokens& out) const {
  PieceList list(std::string_view(text.text).substr(begin, size), first, /*traced=*/true);
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers_) BALLAST_CHECK(list.apply(pre_tokenizer));
  for (const PieceList::Piece& piece : list.pieces()) {
    const size_t before = out.ids.size();
    BALLAST_CHECK(encode_piece(piece.text, cache, out.ids));
    std::vector<TokenSpelling> tokens;
    for (size_t i = before; i < out.ids.size(); ++i) tokens.push_back(spelling_of(out.ids[i]));
    TextSpan last{begin + list.origin(piece, 0), begin + list.origin(piece, 0) + 1};
    std::vector<TextSpan> spans = find_token_spans(piece.text, tokens, spelling_marks_);
    if (std::holds_alternative<UnigramEncoder>(model_)) join_bytes(tokens, spans);
    for (const TextSpan& span : spans) {
      // A token for which nothing is left in the piece is said to be where the one before it is.
      if (span.begin < span.end)
        last = {begin + list.origin(piece, span.begin), begin + list.origin(piece, span.end - 1) + 1};
      out.spans.push_back(text.span(last.begin, last.end));
    }
  }
  return {};
}

Status Tokenizer::Stages::encode_piece(std::string_view piece, BytePairEncoder::Cache& cache,
                                       std::vector<TokenId>& out) const {
  const auto encode = [&](const auto& model) -> Status {
    if constexpr (!std::is_same_v<decltype(model), const BytePairEncoder&>) return model.encode(piece, out);
    else model.encode_pieces(std::span(&piece, 1), piece, cache, out);
    return {};
  };
  return std::visit(encode, model_);
}

TokenSpelling Tokenizer::Stages::spelling_of(TokenId id) const {
  const IdText* entry = find_id(id);
  if (entry == nullptr) return {};
  TokenSpelling spelling{std::holds_alternative<BytePairEncoder>(model_) ? entry->bytes : entry->text};
  const std::string_view text = spelling.text;
  if (!byte_tokens_ || text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return spelling;
  unsigned value = 0;
  const auto [end, failure] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  if (failure == std::errc() && end == text.data() + 5) spelling.byte = static_cast<unsigned char>(value);
  return spelling;
}

// Spaces at the ends of tokens are left out, as ByteLevel and RoBERTa's post-processor do. One that was put before the
// text is no part of it.
void Tokenizer::Stages::trim_spans(Tokens& tokens) const {
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::string_view bytes = spelling_of(tokens.ids[i]).text;
    TextSpan& span = tokens.spans[i];
    size_t before = std::min(bytes.find_first_not_of(' '), bytes.size());
    const size_t last = bytes.find_last_not_of(' ');
    const size_t behind = last == std::string_view::npos ? bytes.size() : bytes.size() - 1 - last;
    if ((i == 0 || span.begin == 0) && post_processor_.trims_behind_prefix) before = 0;
    span.begin = std::min(span.begin + before, span.end);
    if (span.end >= behind) span.end = std::max(span.end - behind, span.begin);
  }
}

std::vector<TextSpan> to_character_spans(std::string_view text, std::span<const TextSpan> spans) {
  std::vector<size_t> before(text.size() + 1);  // characters that end at or before each place
  size_t count = 0;
  for_each_char(text, [&](const CharAt& c) {
    for (size_t i = c.begin; i < c.end; ++i) before[i] = count;
    before[c.end] = ++count;
  });
  std::vector<TextSpan> characters;
  characters.reserve(spans.size());
  for (const TextSpan& span : spans) characters.push_back({before[span.begin], before[span.end]});
  return characters;
}

}  // namespace ballast
