#include "ballast/text/tokenizer/token_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ballast/text/tokenizer/byte_alphabet.h"
#include "ballast/text/tokenizer/normalizer.h"

namespace ballast {

namespace {

void replace_in(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

void clean_up_spaces(std::string& text) {
  using Words = std::pair<std::string_view, std::string_view>;
  for (const auto& [from, to] :
       {Words{" .", "."}, Words{" ?", "?"}, Words{" !", "!"}, Words{" ,", ","}, Words{" ' ", "'"}, Words{" n't", "n't"},
        Words{" 'm", "'m"}, Words{" do not", " don't"}, Words{" 's", "'s"}, Words{" 've", "'ve"},
        Words{" 're", "'re"}}) {
    replace_in(text, from, to);
  }
}

std::optional<char> byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

using Texts = std::vector<std::string>;

struct DecodeAll {
  Texts& texts;

  Status operator()(const DecodeBytes&) const {
    std::string bytes;
    for (const std::string& text : texts) bytes += from_byte_alphabet(text).value_or(text);
    texts.assign(1, std::move(bytes));
    return {};
  }

  Status operator()(const DecodeWordPiece& how) const {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) {
        if (!how.prefix.empty() && texts[i].starts_with(how.prefix)) texts[i].erase(0, how.prefix.size());
        else texts[i].insert(0, " ");
      }
      if (how.clean_up) clean_up_spaces(texts[i]);
    }
    return {};
  }

  Status operator()(const DecodeMetaspace& how) const {
    for (size_t i = 0; i < texts.size(); ++i) {
      replace_in(texts[i], how.mark, how.drop_first && i == 0 ? "" : " ");
    }
    return {};
  }

  Status operator()(const DecodeSuffix& how) const {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!how.suffix.empty()) replace_in(texts[i], how.suffix, i + 1 < texts.size() ? " " : "");
    }
    return {};
  }

  Status operator()(const DecodeCtc& how) const {
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    for (std::string& text : texts) {
      if (!how.pad.empty()) replace_in(text, how.pad, "");
      if (!how.clean_up) continue;
      clean_up_spaces(text);
      if (!how.word_delimiter.empty()) replace_in(text, how.word_delimiter, " ");
    }
    std::erase_if(texts, [](const std::string& text) { return text.empty(); });
    return {};
  }

  Status operator()(const DecodeByteTokens&) const {
    for (std::string& text : texts) {
      if (const auto byte = byte_token(text)) text.assign(1, *byte);
    }
    return {};
  }

  Status operator()(const DecodeFuse&) const {
    std::string whole;
    for (const std::string& text : texts) whole += text;
    texts.assign(1, std::move(whole));
    return {};
  }

  Status operator()(const DecodeStrip& how) const {
    if (how.character.empty()) return {};
    for (std::string& text : texts) {
      size_t begin = 0;
      for (size_t i = 0; i < how.start && text.compare(begin, how.character.size(), how.character) == 0; ++i) {
        begin += how.character.size();
      }
      text.erase(0, begin);
      for (size_t i = 0; i < how.stop && text.ends_with(how.character); ++i) {
        text.resize(text.size() - how.character.size());
      }
    }
    return {};
  }

  Status operator()(const DecodeReplace& how) const {
    for (std::string& text : texts) {
      BALLAST_CHECK(assign(text, how.pattern.replace_all(text, how.content, most_bytes_for(text.size()))));
    }
    return {};
  }

  Status operator()(const DecodeJoin&) const {
    for (size_t i = 1; i < texts.size(); ++i) texts[i].insert(0, " ");
    return {};
  }
};

bool depends_on_place(const TokenDecoder& decoder) {
  return std::holds_alternative<DecodeStrip>(decoder) || std::holds_alternative<DecodeWordPiece>(decoder) ||
         std::holds_alternative<DecodeCtc>(decoder);
}

}  // namespace

Result<std::string> decode_tokens(const std::vector<TokenDecoder>& decoders, Texts texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  const size_t most = most_bytes_for(bytes);
  for (const TokenDecoder& decoder : decoders) {
    BALLAST_CHECK(std::visit(DecodeAll{texts}, decoder));
    size_t now = 0;
    for (const std::string& text : texts) now += text.size();
    if (now > most) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("decoding {} bytes of tokens makes more than {} bytes", bytes, most));
    }
  }
  std::string whole;
  for (const std::string& text : texts) whole += text;
  return whole;
}

Result<std::string> decode_one(const std::vector<TokenDecoder>& decoders, std::string_view text) {
  // It is kept for every token of a vocabulary, so it may not grow as the text of an answer may.
  const size_t most = 8 * text.size() + 64;
  Texts texts = {std::string(text)};
  for (const TokenDecoder& decoder : decoders) {
    if (depends_on_place(decoder)) continue;
    if (const auto* metaspace = std::get_if<DecodeMetaspace>(&decoder)) {
      BALLAST_CHECK(DecodeAll{texts}(DecodeMetaspace{metaspace->mark, false}));
    } else if (const auto* suffix = std::get_if<DecodeSuffix>(&decoder)) {
      if (!suffix->suffix.empty()) replace_in(texts[0], suffix->suffix, " ");
    } else {
      BALLAST_CHECK(std::visit(DecodeAll{texts}, decoder));
    }
    if (texts.empty() || texts[0].size() <= most) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("decoding a token of {} bytes makes more than {}", text.size(), most));
  }
  return texts.empty() ? std::string() : std::move(texts[0]);
}

}  // namespace ballast
