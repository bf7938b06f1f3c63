#include "ballast/text/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/text/tokenizer/byte_alphabet.h"
#include "ballast/text/tokenizer/script_runs.h"
#include "ballast/text/tokenizer/word_split.h"
#include "ballast/text/unicode.h"

namespace ballast {

namespace {

struct Part {
  std::string_view text;
  bool match;
};

// Matches and what lies between them, in order; without the empty ones.
std::vector<Part> parts_of(std::string_view text, const std::vector<TextPattern::Match>& matches, bool invert) {
  std::vector<Part> parts;
  const auto add = [&](size_t begin, size_t end, bool match) {
    if (begin < end) parts.push_back({text.substr(begin, end - begin), match != invert});
  };
  size_t at = 0;
  for (const TextPattern::Match& match : matches) {
    add(at, match.begin, false);
    add(match.begin, match.end, true);
    at = match.end;
  }
  add(at, text.size(), false);
  return parts;
}

// Runs of characters with and without a property.
template <typename Is>
std::vector<Part> parts_where(std::string_view text, Is&& is, bool individual) {
  std::vector<Part> parts;
  for_each_char(text, [&](const CharAt& c) {
    const bool match = is(c.code_point);
    const std::string_view here = text.substr(c.begin, c.end - c.begin);
    if (!parts.empty() && parts.back().match == match && !(match && individual)) {
      parts.back().text = {parts.back().text.data(), parts.back().text.size() + here.size()};
    } else {
      parts.push_back({here, match});
    }
  });
  return parts;
}

std::string_view joined(std::string_view left, std::string_view right) {
  return {left.data(), left.size() + right.size()};
}

// Neighbours in `parts` are neighbours in the text.
std::vector<std::string_view> arranged(const std::vector<Part>& parts, SplitBehavior behavior) {
  std::vector<std::string_view> out;
  bool last_match = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [text, match] = parts[i];
    const bool has_last = !out.empty() && i > 0;
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kRemoved: break;
      case SplitBehavior::kIsolated: break;
      case SplitBehavior::kMergedWithPrevious: join = match && !last_match; break;
      case SplitBehavior::kMergedWithNext: join = !match && last_match; break;
      case SplitBehavior::kContiguous: join = match == last_match; break;
    }
    last_match = match;
    if (behavior == SplitBehavior::kRemoved && match) continue;
    if (has_last && join) out.back() = joined(out.back(), text);
    else out.push_back(text);
  }
  return out;
}

}  // namespace

size_t PieceList::origin(const Piece& piece, size_t at) const {
  if (piece.made == nullptr) return static_cast<size_t>(piece.text.data() - whole_.data()) + at;
  return piece.made->from[static_cast<size_t>(piece.text.data() - piece.made->text.data()) + at];
}

// Cuts one piece and adds what comes of it to the list.
struct PreTokenizeOne {
  PieceList& out;
  const PieceList::Piece& piece;
  std::string_view text = piece.text;
  bool first = piece.first;

  void add(std::string_view part, bool is_first) const { out.add(part, is_first, piece.made); }
  void add_all(const std::vector<std::string_view>& parts, std::string_view whole) const {
    for (const std::string_view part : parts) add(part, first && part.data() == whole.data());
  }

  // Builds a text of bytes of the piece, each of which may become several.
  class Maker {
   public:
    explicit Maker(const PreTokenizeOne& one) : one_(one), made_(one.out.kept_.emplace_back()) {}
    void append(std::string_view more, size_t at) {
      made_.text += more;
      if (one_.out.traced_) made_.from.resize(made_.text.size(), one_.out.origin(one_.piece, at));
    }
    // All bytes from `begin` on, each as it is or in GPT-2's alphabet.
    void append_bytes(size_t begin, size_t end, bool spell) {
      const std::string_view part = one_.text.substr(begin, end - begin);
      if (!one_.out.traced_) {
        made_.text += spell ? to_byte_alphabet(part) : std::string(part);
        return;
      }
      for (size_t i = begin; i < end; ++i)
        append(spell ? to_byte_alphabet(one_.text.substr(i, 1)) : std::string(1, one_.text[i]), i);
    }
    // What was made so far becomes a piece of its own.
    void add(bool is_first) const { one_.out.add(made_.text, is_first, &made_); }
    const PieceList::Made& made() const { return made_; }

   private:
    const PreTokenizeOne& one_;
    PieceList::Made& made_;
  };

  Status operator()(const SplitAtPattern& how) const {
    BALLAST_TRY(const auto matches, how.pattern.find_all(text));
    add_all(arranged(parts_of(text, matches, how.invert), how.behavior), text);
    return {};
  }

  Status operator()(const SplitBytes& how) const {
    if (how.add_prefix_space && !text.starts_with(' ')) {
      Maker prefixed(*this);
      prefixed.append(" ", 0);
      prefixed.append_bytes(0, text.size(), false);
      const PieceList::Piece whole{prefixed.made().text, first, &prefixed.made()};
      return PreTokenizeOne{out, whole}.cut_bytes(how);
    }
    return cut_bytes(how);
  }
  Status cut_bytes(const SplitBytes& how) const {
    for (size_t at = 0; at < text.size();) {
      const size_t end = how.cut ? gpt2_piece_end(text, at) : text.size();
      if (how.spell) {
        Maker spelled(*this);
        spelled.append_bytes(at, end, true);
        spelled.add(first && at == 0);
      } else {
        add(text.substr(at, end - at), first && at == 0);
      }
      at = end;
    }
    return {};
  }

  Status operator()(const SplitMetaspace& how) const {
    using Prepend = SplitMetaspace::Prepend;
    const bool prepend = how.prepend == Prepend::kAlways || (how.prepend == Prepend::kFirst && first);
    Maker marked(*this);
    if (prepend && !text.starts_with(' ') && !text.starts_with(how.mark)) marked.append(how.mark, 0);
    for (size_t i = 0; i < text.size(); ++i) marked.append(text[i] == ' ' ? how.mark : text.substr(i, 1), i);
    if (!how.cut) {
      marked.add(first);
      return {};
    }
    const std::string_view whole = marked.made().text;
    BALLAST_TRY(const auto matches, TextPattern::exact(how.mark).find_all(whole));
    for (const std::string_view part : arranged(parts_of(whole, matches, false), SplitBehavior::kMergedWithNext))
      out.add(part, first && part.data() == whole.data(), &marked.made());
    return {};
  }

  Status operator()(const SplitDigits& how) const {
    add_all(arranged(parts_where(text, is_number, how.individual), SplitBehavior::kIsolated), text);
    return {};
  }
  Status operator()(const SplitPunctuation& how) const {
    add_all(arranged(parts_where(text, is_punctuation, true), how.behavior), text);
    return {};
  }
  Status operator()(const SplitWords&) const {
    for (const Part& part : parts_where(text, is_white_space, false)) {
      if (part.match) continue;
      add_all(arranged(parts_where(part.text, is_word_character, false), SplitBehavior::kIsolated), text);
    }
    return {};
  }
  Status operator()(const SplitWhiteSpace&) const {
    add_all(arranged(parts_where(text, is_white_space, false), SplitBehavior::kRemoved), text);
    return {};
  }
  Status operator()(const SplitBert&) const {
    for (const Part& part : parts_where(text, is_white_space, false)) {
      if (part.match) continue;
      add_all(arranged(parts_where(part.text, is_punctuation, true), SplitBehavior::kIsolated), text);
    }
    return {};
  }
  Status operator()(const SplitAtCharacter& how) const {
    const auto is_it = [&](uint32_t c) { return c == how.code_point; };
    add_all(arranged(parts_where(text, is_it, true), SplitBehavior::kRemoved), text);
    return {};
  }
  Status operator()(const SplitScripts&) const {
    BALLAST_TRY(const auto runs, script_runs(text));
    add_all(runs, text);
    return {};
  }
  Status operator()(const SplitFixedLength& how) const {
    size_t begin = 0;
    size_t count = 0;
    for_each_char(text, [&](const CharAt& c) {
      if (++count % how.length != 0 && c.end != text.size()) return;
      add(text.substr(begin, c.end - begin), first && begin == 0);
      begin = c.end;
    });
    return {};
  }
};

Status PieceList::apply(const PreTokenizer& pre_tokenizer) {
  const std::vector<Piece> before = std::move(pieces_);
  pieces_.clear();
  for (const Piece& piece : before) {
    BALLAST_CHECK(std::visit(PreTokenizeOne{*this, piece}, pre_tokenizer));
  }
  return {};
}

}  // namespace ballast
