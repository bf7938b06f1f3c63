#include "ballast/text/tokenizer/normalizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/text/tokenizer/byte_alphabet.h"

namespace ballast {

namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// Builds a text from the characters of another. Bytes that are no UTF-8 stay as they are.
template <typename Visit>
std::string rebuild(std::string_view text, Visit&& visit) {
  std::string out;
  out.reserve(text.size());
  for_each_char(text, [&](const CharAt& c) {
    if (c.code_point == kBrokenByte) out += text[c.begin];
    else visit(c.code_point, out);
  });
  return out;
}

std::string_view strip_spaces(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_white_space(char_at(text, 0).code_point)) {
    text.remove_prefix(char_at(text, 0).end);
  }
  while (right && !text.empty() && is_white_space(char_before(text, text.size()).code_point)) {
    text.remove_suffix(text.size() - char_before(text, text.size()).begin);
  }
  return text;
}

bool nmt_drops(uint32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool nmt_makes_space(uint32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

// ---------------------------------------------------------------- BERT

// A space, nothing, or the character itself.
uint32_t cleaned(uint32_t c, bool as_llama_cpp) {
  const bool line = c == '\t' || c == '\n' || c == '\r';
  if (line || (is_white_space(c) && (as_llama_cpp || !is_control(c)))) return ' ';
  if (c == 0 || c == 0xFFFD || is_control(c)) return 0;
  return c;
}

std::string bert_text(std::string_view text, const BertText& how) {
  std::string out;
  if (how.clean) {
    for_each_char(text, [&](const CharAt& c) {
      // A broken byte would be U+FFFD to those who read text only, which goes too.
      const uint32_t kept = c.code_point == kBrokenByte ? 0 : cleaned(c.code_point, how.as_llama_cpp);
      if (kept != 0) append_utf8(out, kept);
    });
  } else {
    out = text;
  }
  if (how.space_ideographs) {
    out = rebuild(out, [](uint32_t c, std::string& to) {
      const bool alone = is_cjk_ideograph(c);
      if (alone) to += ' ';
      append_utf8(to, c);
      if (alone) to += ' ';
    });
  }
  if (how.strip_accents && !how.as_llama_cpp) out = to_normal_form(out, NormalForm::kNfd);
  if (how.strip_accents) {
    out = rebuild(out, [&](uint32_t c, std::string& to) {
      if (how.as_llama_cpp) c = base_character(c);
      if (how.as_llama_cpp ? !is_mark(c) : !is_spaceless_mark(c)) append_utf8(to, c);
    });
  }
  if (how.lower_case) out = rebuild(out, [](uint32_t c, std::string& to) { append_lower_case(to, c); });
  return out;
}

// ---------------------------------------------------------------- SentencePiece

// What stands at the beginning of `text` after the table was applied, and how much of `text` that took.
Charsmap::Replacement next_of_sentence(std::string_view text, const SentencePieceText& how, size_t kept) {
  if (kept > 0) return {kept, text.substr(0, kept)};
  if (how.map) {
    if (const auto found = how.map->find_longest(text)) return *found;
  }
  const size_t length = utf8_sequence_length(text, 0);
  if (length == 0) return {1, "\uFFFD"};
  return {length, text.substr(0, length)};
}

// Length of the longest user-defined piece at each place, from right to left.
std::vector<uint32_t> find_kept(std::string_view text, const PhraseFinder* finder) {
  std::vector<uint32_t> lengths;
  if (finder == nullptr) return lengths;
  lengths.resize(text.size());
  PhraseFinder::State state = PhraseFinder::kStart;
  for (size_t at = text.size(); at-- > 0;) {
    state = finder->next(state, text[at]);
    lengths[at] = finder->length(finder->longest(state));
  }
  return lengths;
}

// Ends early, beyond `most`, where the text grows too much. `from`, where it is given, has for each byte where it came
// from.
std::string sentence_piece_text(std::string_view text, const SentencePieceText& how, size_t most,
                                std::vector<size_t>* from = nullptr) {
  const std::string_view space = how.escape_spaces ? kSpaceMark : std::string_view(" ");
  const std::vector<uint32_t> kept = find_kept(text, how.kept.get());
  std::string out;
  size_t space_at = 0;     // where the last space stood
  bool space_due = false;  // between words, once it is clear that another one follows
  bool anything = false;
  const auto add = [&](std::string_view more, size_t place) {
    out += more;
    if (from != nullptr) from->resize(out.size(), place);
  };
  for (size_t at = 0; at < text.size() && out.size() <= most;) {
    const auto [length, part] = next_of_sentence(text.substr(at), how, kept.empty() ? 0 : kept[at]);
    const size_t here = at;
    at += length;
    for (const char& c : part) {
      if (c == ' ' && how.remove_extra_spaces) {
        space_due = anything;
        space_at = here;
        continue;
      }
      if (!anything && how.add_prefix && !how.space_behind) add(space, here);
      if (space_due) add(space, space_at);
      anything = true;
      space_due = false;
      add(c == ' ' ? space : std::string_view(&c, 1), here);
    }
  }
  // Marks that the text itself ends with go too.
  while (how.remove_extra_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
  if (from != nullptr) from->resize(out.size());
  if (anything && how.add_prefix && how.space_behind) add(space, text.size() - 1);
  return out;
}

// ---------------------------------------------------------------- one at a time

struct NormalizeOne {
  std::string_view text;
  size_t most;

  Result<std::string> operator()(NormalForm form) const { return to_normal_form(text, form); }
  Result<std::string> operator()(const LowerCase&) const {
    return rebuild(text, [](uint32_t c, std::string& to) { append_lower_case(to, c); });
  }
  Result<std::string> operator()(const StripSpaces& how) const {
    return std::string(strip_spaces(text, how.left, how.right));
  }
  Result<std::string> operator()(const StripAccents&) const {
    return rebuild(text, [](uint32_t c, std::string& to) {
      if (!is_mark(c)) append_utf8(to, c);
    });
  }
  Result<std::string> operator()(const CleanForTranslation&) const {
    return rebuild(text, [](uint32_t c, std::string& to) {
      if (!nmt_drops(c)) append_utf8(to, nmt_makes_space(c) ? ' ' : c);
    });
  }
  Result<std::string> operator()(const PrependText& how) const {
    return text.empty() ? std::string() : fmt::format("{}{}", how.text, text);
  }
  Result<std::string> operator()(const ReplaceText& how) const {
    return how.pattern.replace_all(text, how.content, most);
  }
  Result<std::string> operator()(const BertText& how) const { return bert_text(text, how); }
  Result<std::string> operator()(const SpellBytes&) const { return to_byte_alphabet(text); }
  Result<std::string> operator()(const ApplyCharsmap& how) const { return how.map.replace_graphemes(text, most); }
  Result<std::string> operator()(const SentencePieceText& how) const { return sentence_piece_text(text, how, most); }
};

}  // namespace

size_t most_bytes_for(size_t size) {
  constexpr size_t kGrowth = 64;
  constexpr size_t kAtLeast = 1 << 16;
  return size > SIZE_MAX / (2 * kGrowth) ? SIZE_MAX : size * kGrowth + kAtLeast;
}

Result<std::string> to_sentence_piece_text(const SentencePieceText& how, std::string_view text,
                                           std::vector<size_t>& from) {
  const size_t most = most_bytes_for(text.size());
  std::string made = sentence_piece_text(text, how, most, &from);
  if (made.size() <= most) return made;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("normalizing {} bytes of text makes more than {}", text.size(), most));
}

Result<std::string> normalize(const std::vector<Normalizer>& normalizers, std::string_view text) {
  const size_t most = most_bytes_for(text.size());
  std::string current(text);
  for (const Normalizer& normalizer : normalizers) {
    BALLAST_CHECK(assign(current, std::visit(NormalizeOne{current, most}, normalizer)));
    if (current.size() > most) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("normalizing {} bytes of text makes more than {}", text.size(), most));
    }
  }
  return current;
}

}  // namespace ballast
