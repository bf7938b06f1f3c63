#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/streams.h"

namespace ballast::cli {

namespace {

// Memory holds the text, its tokens, and with --json both once more.
constexpr uint64_t kMostText = uint64_t{1} << 30;
constexpr size_t kFlushAt = 1 << 16;

struct TokenizeFlags {
  std::string model;
  std::string tokenizer;
  std::string text;
  std::string pair;
  std::string file;
  std::vector<std::string> decode;
  bool plain = false;
  bool no_special = false;
  bool fit = false;
  bool ids = false;
  bool count = false;
  bool json = false;
  bool text_given = false;
  bool pair_given = false;
};

Result<std::string> read_text(const TokenizeFlags& flags) {
  if (flags.text == "-") return read_text_input(kMostText);
  if (flags.file.empty()) return flags.text;
  return read_text_input(flags.file, kMostText);
}

void add_ids(JsonWriter& json, std::string_view key, const std::vector<TokenId>& ids) {
  json.key(key).begin_array();
  for (const TokenId id : ids) json.number(id);
  json.end_array();
}

// ---------------------------------------------------------------- text to tokens

std::string encoded_json(const Tokenizer& tokenizer, std::string_view text, const Encoding& encoding, bool only_count) {
  const std::vector<TokenId>& ids = encoding.ids;
  JsonWriter json;
  json.begin_object();
  add_number(json, "bytes", text.size());
  add_number(json, "count", ids.size());
  if (!only_count) {
    add_ids(json, "tokens", ids);
    json.key("pieces").begin_array();
    for (const TokenId id : ids) json.string(json_text(tokenizer.bytes_of(id).value_or("")));
    json.end_array();
    if (std::ranges::any_of(encoding.type_ids, [](uint32_t type) { return type != 0; })) {
      add_ids(json, "types", encoding.type_ids);
    }
  }
  json.end_object();
  return json.take() + '\n';
}

void print_ids(const std::vector<TokenId>& ids, Console& console) {
  for (size_t i = 0; i < ids.size() && !console.reader_gone(); ++i) {
    fmt::format_to(std::back_inserter(console.out()), "{}{}", i == 0 ? "" : ",", ids[i]);
    if (console.out().size() > kFlushAt) console.flush();
  }
  console.out() += '\n';
}

void print_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, Console& console) {
  if (ids.empty()) return;
  const size_t width = fmt::formatted_size("{}", std::ranges::max(ids));
  for (const TokenId id : ids) {
    if (console.reader_gone()) return;
    fmt::format_to(std::back_inserter(console.out()), "{:>{}}  \"{}\"\n", id, width,
                   printable(tokenizer.bytes_of(id).value_or("")));
    if (console.out().size() > kFlushAt) console.flush();
  }
}

Status encode(const TokenizeFlags& flags, const Tokenizer& tokenizer, Console& console) {
  BALLAST_TRY(const std::string text, read_text(flags));
  const EncodeOptions options{
      .special_tokens = !flags.plain, .add_special_tokens = !flags.no_special, .fit_length = flags.fit};
  BALLAST_TRY(const Encoding encoding, flags.pair_given ? tokenizer.encode_pair(text, flags.pair, options)
                                                        : tokenizer.encode_full(text, options));
  const std::vector<TokenId>& ids = encoding.ids;
  if (flags.json) console.out() += encoded_json(tokenizer, text, encoding, flags.count);
  else if (flags.count) console.out() += fmt::format("{}\n", ids.size());
  else if (flags.ids) print_ids(ids, console);
  else print_pieces(tokenizer, ids, console);
  return {};
}

// ---------------------------------------------------------------- tokens to text

Status decode(const TokenizeFlags& flags, const Tokenizer& tokenizer, Console& console) {
  std::vector<std::string> words = flags.decode;
  if (words == std::vector<std::string>{"-"}) {
    BALLAST_TRY(words[0], read_text_input(kMostText));
    // What --ids printed ends with a line break.
    while (words[0].ends_with('\n')) words[0].pop_back();
    if (words[0].empty()) words.clear();
  }
  BALLAST_TRY(const std::vector<TokenId> ids, parse_token_list(words, "--decode"));
  BALLAST_TRY(const std::string text, tokenizer.decode(ids, {.skip_special_tokens = flags.plain}));
  if (flags.json) {
    JsonWriter json;
    json.begin_object();
    add_number(json, "bytes", text.size());
    add_number(json, "count", ids.size());
    add_ids(json, "tokens", ids);
    add_text(json, "text", text);
    json.end_object();
    console.out() += json.take() + '\n';
  } else if (console.output().interactive) {
    console.out() += printable(text, /*keep_newlines=*/true) + '\n';
  } else {
    console.out() += text;  // the very bytes
  }
  return {};
}

Status tokenize(const TokenizeFlags& flags, Console& console) {
  const int given = int{flags.text_given} + int{!flags.file.empty()} + int{!flags.decode.empty()};
  if (given != 1) {
    return make_error(ErrorCode::kInvalidArgument, "give one of --text TEXT, --file FILE and --decode IDS");
  }
  if (!flags.decode.empty() && (flags.ids || flags.count)) {
    return make_error(ErrorCode::kInvalidArgument, "--ids and --count cannot be combined with --decode");
  }
  if (!flags.decode.empty() && (flags.pair_given || flags.no_special || flags.fit)) {
    return make_error(ErrorCode::kInvalidArgument, "--pair, --no-special and --fit cannot be combined with --decode");
  }
  std::string model = flags.model;
  if (flags.tokenizer.empty())
    BALLAST_CHECK(assign(model, model.empty() ? default_model_path() : resolve_model_name(model)));
  const ModelSource source(model);
  // A tokenizer beside something that is no model says nothing of it.
  if (flags.tokenizer.empty() && !source.is_folder()) BALLAST_CHECK(source.archive());
  BALLAST_TRY(const Tokenizer tokenizer, tokenizer_for(flags.tokenizer, source, TokenizerAdvice::kTokenizer));
  for (const std::string& note : tokenizer.notes()) console.remark(fmt::format("note: {}\n", note));
  return flags.decode.empty() ? encode(flags, tokenizer, console) : decode(flags, tokenizer, console);
}

constexpr const char* kTokenizeFooter =
    "Without MODEL and --tokenizer, uses the tokenizer of the small model that comes with Ballast. Prints one token\n"
    "per line: its id and its text. --decode and the --tokens options of other commands accept what --ids prints.\n"
    "Byte-level tokenizers encode any bytes, and --decode restores them exactly. docs/tokenizers.md lists the\n"
    "supported files.\n"
    "\n"
    "Examples:\n"
    "  ballast tokenize --text 'It is a truth universally acknowledged'\n"
    "  ballast tokenize model.gptrs --text 'Hello world' --ids\n"
    "  ballast tokenize model.gguf --text 'Hello world' --no-special\n"
    "  ballast tokenize --tokenizer bert_folder/tokenizer.json --text 'a question' --pair 'an answer' --json\n"
    "  ballast tokenize --tokenizer tokenizer.json --file README.md --count\n"
    "  ballast tokenize --decode 41,84,365,259\n"
    "  echo 'Hello' | ballast tokenize --text - --ids | ballast tokenize --decode -\n";

}  // namespace

RunCommand add_tokenize(CLI::App& program, Console& console) {
  auto command = std::make_shared<Command>(program, "tokenize", "Convert text to tokens and back");
  auto flags = std::make_shared<TokenizeFlags>();
  command->optional_path("MODEL", flags->model, "A model with a tokenizer");
  command->text("--tokenizer", "FILE", flags->tokenizer,
                "Use this tokenizer: tokenizer.json, tokenizer.model, GGUF, vocab.json with merges.txt, or a folder");
  command->text("--text", "TEXT", flags->text, "Encode this text; - reads standard input");
  command->text("--file", "FILE", flags->file, "Encode the text of this file");
  command->texts("--decode", "IDS", flags->decode, "Print the text of these tokens: 1,2,3; - reads standard input");
  command->flag("--plain", flags->plain,
                "Treat special tokens such as <|endoftext|> as plain text; omit them when decoding");
  command->text("--pair", "TEXT", flags->pair, "Encode a second text, for models that compare two");
  command->flag("--no-special", flags->no_special, "Do not add special tokens such as begin-of-text");
  command->flag("--fit", flags->fit, "Truncate and pad as the tokenizer file says");
  command->flag("--ids", flags->ids, "Print only the ids, separated by commas");
  command->flag("--count", flags->count, "Print only the number of tokens");
  command->json(flags->json);
  command->footer(kTokenizeFooter);
  return [flags, command, &console] {
    flags->text_given = std::ranges::count(command->given(), "--text") > 0;
    flags->pair_given = std::ranges::count(command->given(), "--pair") > 0;
    const Status status = tokenize(*flags, console);
    return status ? kExitYes : console.fail(status.error(), flags->json);
  };
}

}  // namespace ballast::cli
