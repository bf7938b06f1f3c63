#include "ballast/text/tokenizer/traced_text.h"

#include <algorithm>

#include "ballast/text/unicode.h"

namespace ballast {

namespace {

// The end of the part of a text, beginning at `at`, that a normalizer changes without regard to the rest.
using UnitEnd = size_t (*)(std::string_view text, size_t at);

size_t character_end(std::string_view text, size_t at) { return char_at(text, at).end; }

size_t marked_character_end(std::string_view text, size_t at) {
  size_t end = char_at(text, at).end;
  while (end < text.size() && is_mark(char_at(text, end).code_point)) end = char_at(text, end).end;
  return end;
}

// Hangul is put together of characters that are no marks, which readers see as one all the same.
size_t composed_end(std::string_view text, size_t at) {
  return std::max(grapheme_end(text, at), marked_character_end(text, at));
}

// The n-th character of what a unit became is from its n-th, the rest from its last.
void append_unit(TracedText& out, const TracedText& in, size_t begin, size_t end, std::string_view made) {
  size_t from = begin;
  for_each_char(made, [&](const CharAt& c) {
    const size_t from_end = char_at(in.text, from).end;
    out.append(made.substr(c.begin, c.end - c.begin), in.span(from, from_end));
    if (from_end < end) from = from_end;
  });
}

// Where the units do not tell: what is equal at both ends is what it was, and all between came from all between.
TracedText align_ends(const TracedText& in, const std::string& made) {
  const size_t most = std::min(in.text.size(), made.size());
  size_t head = 0, tail = 0;
  while (head < most && in.text[head] == made[head]) ++head;
  while (tail < most - head && in.text[in.text.size() - 1 - tail] == made[made.size() - 1 - tail]) ++tail;
  TracedText out = in.slice(0, head);
  const size_t left = in.text.size() - head - tail;
  TextSpan middle;
  if (left > 0) middle = in.span(head, head + left);
  else if (!in.origin.empty()) middle = in.origin[head > 0 ? head - 1 : 0];
  out.append(std::string_view(made).substr(head, made.size() - head - tail), middle);
  for (size_t i = in.text.size() - tail; i < in.text.size(); ++i)
    out.append(std::string_view(in.text).substr(i, 1), in.origin[i]);
  return out;
}

struct TraceOne {
  const TracedText& in;

  Result<TracedText> by_units(const Normalizer& how, UnitEnd unit_end) const {
    const std::vector<Normalizer> one = {how};
    BALLAST_TRY(const std::string whole, normalize(one, in.text));
    TracedText out;
    for (size_t at = 0; at < in.text.size();) {
      const size_t end = unit_end(in.text, at);
      BALLAST_TRY(const std::string made, normalize(one, std::string_view(in.text).substr(at, end - at)));
      append_unit(out, in, at, end, made);
      at = end;
    }
    return out.text == whole ? out : align_ends(in, whole);
  }

  Result<TracedText> operator()(NormalForm how) const { return by_units(how, composed_end); }
  Result<TracedText> operator()(const LowerCase& how) const { return by_units(how, character_end); }
  Result<TracedText> operator()(const StripAccents& how) const { return by_units(how, character_end); }
  Result<TracedText> operator()(const CleanForTranslation& how) const { return by_units(how, character_end); }
  Result<TracedText> operator()(const BertText& how) const { return by_units(how, character_end); }
  Result<TracedText> operator()(const SpellBytes& how) const { return by_units(how, character_end); }
  Result<TracedText> operator()(const ApplyCharsmap& how) const { return by_units(how, grapheme_end); }

  Result<TracedText> operator()(const StripSpaces& how) const {
    BALLAST_TRY(const std::string left, normalize({StripSpaces{how.left, false}}, in.text));
    BALLAST_TRY(const std::string both, normalize({how}, in.text));
    return in.slice(in.text.size() - left.size(), both.size());
  }

  Result<TracedText> operator()(const PrependText& how) const {
    if (in.text.empty()) return in;
    TracedText out;
    out.append(how.text, in.origin.front());
    for (size_t i = 0; i < in.text.size(); ++i) out.append(std::string_view(in.text).substr(i, 1), in.origin[i]);
    return out;
  }

  Result<TracedText> operator()(const ReplaceText& how) const {
    BALLAST_TRY(const auto matches, how.pattern.find_all(in.text));
    TracedText out;
    size_t at = 0;
    const auto keep_until = [&](size_t end) {
      for (; at < end; ++at) out.append(std::string_view(in.text).substr(at, 1), in.origin[at]);
    };
    for (const TextPattern::Match& match : matches) {
      keep_until(match.begin);
      at = match.end;
      out.append(how.content, at > 0 ? in.origin[at - 1] : TextSpan{});
    }
    keep_until(in.text.size());
    return out;
  }

  Result<TracedText> operator()(const SentencePieceText& how) const {
    std::vector<size_t> from;
    BALLAST_TRY(const std::string made, to_sentence_piece_text(how, in.text, from));
    TracedText out;
    for (size_t i = 0; i < made.size(); ++i) {
      const TextSpan origin = in.origin[std::min(from[i], in.origin.size() - 1)];
      out.append(std::string_view(made).substr(i, 1), origin);
    }
    return out;
  }
};

}  // namespace

TracedText TracedText::slice(size_t begin, size_t size) const {
  const auto first = origin.begin() + static_cast<std::ptrdiff_t>(begin);
  return {text.substr(begin, size), {first, first + static_cast<std::ptrdiff_t>(size)}};
}

void TracedText::append(std::string_view more, TextSpan from) {
  text += more;
  origin.resize(text.size(), from);
}

TracedText trace_text(std::string_view text, bool replace_broken) {
  TracedText traced;
  traced.text.reserve(text.size());
  traced.origin.reserve(text.size());
  for_each_char(text, [&](const CharAt& c) {
    const bool broken = replace_broken && c.code_point == kBrokenByte;
    traced.append(broken ? "\uFFFD" : text.substr(c.begin, c.end - c.begin), {c.begin, c.end});
  });
  return traced;
}

Result<TracedText> normalize_traced(const std::vector<Normalizer>& normalizers, TracedText text) {
  for (const Normalizer& normalizer : normalizers) BALLAST_CHECK(assign(text, std::visit(TraceOne{text}, normalizer)));
  return text;
}

}  // namespace ballast
