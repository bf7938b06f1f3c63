#include "ballast/exchange/gguf_model_id.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "ballast/archive/pattern.h"

namespace ballast {

namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c - 32) : c; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c + 32) : c; }

// Words in small letters get a capital one, unless they are numbers or versions.
std::string title_word(std::string word) {
  const bool small = std::ranges::any_of(word, is_lower) && std::ranges::none_of(word, is_upper);
  const bool is_version = word[0] == 'v' && word.size() > 1 && word.find_first_not_of("0123456789.", 1) == word.npos;
  if (!small || is_digit(word[0]) || is_version) return word;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i == 0 || !is_letter(word[i - 1])) word[i] = upper(word[i]);
  }
  return word;
}

std::vector<std::string> split_words(std::string_view text, std::string_view at) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (at.find(c) == at.npos) words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string title(std::string_view id) {
  std::string text;
  for (const std::string& word : split_words(id, "- \t\n")) text += (text.empty() ? "" : " ") + title_word(word);
  return text;
}

// ---------------------------------------------------------------- one word

struct IdWord {
  enum class Kind : uint8_t { kUnknown, kVersion, kType, kSize, kFinetune };
  std::string text;
  Kind kind = Kind::kUnknown;
  bool basename = false;
};

class IdPatterns {
 public:
  static Result<IdPatterns> compile() {
    IdPatterns patterns;
    BALLAST_TRY(patterns.all_,
                Pattern::compile_all({R"((?i)^(v|iter)?\d+([.]\d+)*$)", R"((?i)^(i?q\d(_\w)*|b?fp?(16|32))$)",
                                      R"((?i)^((A|\d+x)?\d+([._]\d+)?[KMBT]\d?|small|mini|medium|large|x?xl)$)",
                                      R"((?i)^(chat|instruct|vision|lora)$)"}));
    return patterns;
  }

  // The first that fits; sizes and finetunes are never the first word.
  Result<IdWord::Kind> kind_of(const std::string& word, bool is_first) const {
    using enum IdWord::Kind;
    constexpr IdWord::Kind kKinds[] = {kVersion, kType, kSize, kFinetune};
    for (size_t i = 0; i < all_.size(); ++i) {
      if (is_first && i >= 2) break;
      BALLAST_TRY(const bool fits, all_[i].found_in(word));
      if (fits) return kKinds[i];
    }
    return kUnknown;
  }

 private:
  std::vector<Pattern> all_;
};

// "7b1" is 7.1B; other sizes get a capital letter.
void normalise_size(std::string& size) {
  std::ranges::replace(size, '_', '.');
  const size_t end = size.size();
  if (end > 2 && is_digit(size[end - 1])) size = size.substr(0, end - 2) + "." + size[end - 1] + size[end - 2];
  if (size.size() > 1 && is_digit(size[size.size() - 2])) size.back() = upper(size.back());
}

// nullopt for words, and for sizes of several numbers.
std::optional<double> size_in_numbers(const std::string& size) {
  double number = 0;
  const char* const last = size.data() + size.size() - 1;
  const auto [end, error] = std::from_chars(size.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  const size_t power = std::string_view(" KMBT").find(size.back());
  return power == std::string_view::npos ? std::nullopt : std::optional(number * std::pow(1000, power));
}

void judge_size(IdWord& word, double params) {
  normalise_size(word.text);
  const auto said = size_in_numbers(word.text);
  if (!said || params == 0 || std::abs(*said - params) <= std::floor(7 * params / 8)) return;
  word.kind = IdWord::Kind::kFinetune;  // likely the length of a context
  word.text.back() = lower(word.text.back());
}

// ---------------------------------------------------------------- all of them

// Of sizes in words and in numbers the latter count.
void drop_word_sizes(std::vector<IdWord>& words) {
  const auto is_size = [](const IdWord& word) { return word.kind == IdWord::Kind::kSize; };
  const bool any_number = std::ranges::any_of(
      words, [&](const IdWord& word) { return is_size(word) && std::ranges::any_of(word.text, is_digit); });
  for (IdWord& word : words) {
    if (any_number && is_size(word) && std::ranges::all_of(word.text, is_letter)) word.kind = IdWord::Kind::kUnknown;
  }
}

// The name begins with it, versions inside included; what is left unknown was done to the model afterwards.
void find_basename(std::vector<IdWord>& words) {
  using enum IdWord::Kind;
  bool at_start = true;
  for (IdWord& word : words) {
    at_start = at_start && ((word.kind == kUnknown && is_letter(word.text[0])) || word.kind == kVersion);
    if (at_start) word.basename = true;
    else if (word.kind == kUnknown) word.kind = kFinetune;
  }
  for (auto word = words.rbegin(); word != words.rend() && word->basename && word->kind == kVersion; ++word) {
    word->basename = false;
  }
}

template <typename Wanted>
std::string join_words(const std::vector<IdWord>& words, const Wanted& wanted) {
  std::vector<std::string> seen;
  std::string text;
  for (const IdWord& word : words) {
    if (!wanted(word)) continue;
    if (word.kind == IdWord::Kind::kSize && std::ranges::find(seen, word.text) != seen.end()) continue;
    seen.push_back(word.text);
    text += (text.empty() ? "" : "-") + word.text;
  }
  return text;
}

}  // namespace

Result<GgufModelId> parse_gguf_model_id(std::string_view id, double params) {
  using enum IdWord::Kind;
  GgufModelId found;
  if (id.find(' ') != std::string_view::npos) {  // a sentence is a name and nothing else
    found.name = title(id);
    return found;
  }
  const size_t slash = id.find('/');
  if (slash != std::string_view::npos && slash > 0 && id[0] != '.') found.organization = title(id.substr(0, slash));
  const std::string_view name = slash == std::string_view::npos ? id : id.substr(slash + 1);
  found.name = title(name);
  BALLAST_TRY(const IdPatterns patterns, IdPatterns::compile());
  std::vector<IdWord> words;
  for (std::string& text : split_words(name, "-")) {
    IdWord word{.text = std::move(text)};
    BALLAST_TRY(word.kind, patterns.kind_of(word.text, words.empty()));
    if (word.kind == kType) std::ranges::transform(word.text, word.text.begin(), upper);
    if (word.kind == kSize) judge_size(word, params);
    words.push_back(std::move(word));
  }
  drop_word_sizes(words);
  find_basename(words);
  found.size_label = join_words(words, [](const IdWord& word) { return word.kind == kSize; });
  found.finetune = join_words(words, [](const IdWord& word) { return word.kind == kFinetune; });
  found.version = join_words(words, [](const IdWord& word) { return word.kind == kVersion && !word.basename; });
  const bool says_much = !found.size_label.empty() || !found.finetune.empty() || !found.version.empty();
  if (says_much) found.basename = join_words(words, [](const IdWord& word) { return word.basename; });
  return found;
}

}  // namespace ballast
