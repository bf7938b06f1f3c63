// interop_tokenize TOKENIZER: encodes the texts that standard input names, one a line, and prints the ids of each.
//   WORDS HEX      text as hexadecimal bytes ("-": empty); WORDS: "plain", or "special" and "add" with a comma between
//   decode IDS     prints the text in hexadecimal
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iostream>
#include <string>

#include "ballast/text/load_tokenizer.h"

namespace ballast {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    unsigned value = 0;
    std::from_chars(hex.data() + at, hex.data() + at + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::vector<TokenId> to_ids(std::string_view text) {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    TokenId id = 0;
    std::from_chars(text.data(), text.data() + comma, id);
    ids.push_back(id);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ids;
}

std::string answer(const Tokenizer& tokenizer, const std::string& line) {
  const size_t space = line.find(' ');
  const std::string words = line.substr(0, space);
  const std::string rest = space == std::string::npos || line.substr(space + 1) == "-" ? "" : line.substr(space + 1);
  if (words == "decode") {
    const auto text = tokenizer.decode(to_ids(rest), {.skip_special_tokens = true});
    return text ? to_hex(*text) : "error " + text.error().message;
  }
  const bool special = words.find("special") != std::string::npos;
  const bool add = words.find("add") != std::string::npos;
  const auto ids = tokenizer.encode(
      from_hex(rest), {.special_tokens = special, .add_special_tokens = add, .fit_length = add && special});
  return ids ? fmt::format("{}", fmt::join(*ids, ",")) : "error " + ids.error().message;
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  if (count != 2) return fmt::print(stderr, "usage: interop_tokenize TOKENIZER\n"), 2;
  const auto tokenizer = ballast::load_tokenizer(arguments[1]);
  if (!tokenizer) return fmt::print(stderr, "{}\n", tokenizer.error().message), 1;
  for (std::string line; std::getline(std::cin, line);) fmt::print("{}\n", ballast::answer(*tokenizer, line));
}
