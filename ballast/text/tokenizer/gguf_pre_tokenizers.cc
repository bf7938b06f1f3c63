// The names of tokenizer.ggml.pre. The expressions are those that the models' own tokenizer.json files have, which
// llama.cpp rewrites for its own engine; where it cuts otherwise than they do, its recorded tokens decide.
#include <algorithm>
#include <array>

#include "ballast/text/tokenizer/gguf_vocabulary.h"
#include "ballast/text/tokenizer/word_split.h"

namespace ballast {

namespace {

constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters that have cases.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6}\x{00F8}-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293})"
    R"(\x{0295}-\x{02AF}\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A})"
    R"(\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-\x{0556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-)"
    R"(\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6})"
    R"(-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-)"
    R"(\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D})"
    R"(\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-)"
    R"(\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-)"
    R"(\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-)"
    R"(\x{1E943}]+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
// Three digits at a time from the right.
constexpr std::string_view kDigitGroups = R"(\p{N}{1,3}(?=(?:\p{N}{3})*+(?!\p{N})))";

struct Row {
  std::string_view names;  // each with a space on both sides
  std::array<std::string_view, 6> expressions;
  bool whole_pieces = false;
  bool add_begin = false;
};

constexpr Row kRows[] = {
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", {kLlama3Words}, true, true},
    {" dbrx smaug-bpe chatglm-bpe ", {kLlama3Words}},
    {" glm4 glm5 ", {kLlama3Words}, true},
    {" minicpm5 ", {R"(\p{N}{1,3})", kLlama3Words}, true},
    {" qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ", {kQwen2Words}},
    {" qwen35 ", {kQwen35}},
    {" gpt-4o llama4 kanana2 talkie minimax-m2 ", {kO200k}},
    {" granite-embed-multi-97m ", {kO200k}, true},
    {" tiny_aya cohere2moe ", {kDigitGroups, kO200k}},
    {" tekken ", {kTekken}, true, true},
    {" gpt-2 phi-2 jina-es jina-de gigachat jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe a.x-4.0 mellum "
     "modern-bert mpt olmo jais trillion granite-docling exaone4 ",
     {kGpt2Words}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", {R"(\p{N})", kGpt2Words}},
    {" falcon ", {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, "[0-9][0-9][0-9]"}},
    {" deepseek-llm ",
     {R"([\r\n])", kDeepSeekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"((?<!\s)\s+$)",
      R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N}+)"}},
    {" deepseek-coder ", {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}},
    {" deepseek-v3 hunyuan-dense joyai-llm hy_v4 ", {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)", kDeepSeek3}},
    {" poro-chat bloom gpt3-finnish ", {kBloom}},
    {" viking ", {kBloom, R"(\p{N})"}},
    {" bailingmoe bailingmoe2 llada-moe ",
     {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {" seed-coder ",
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {" gemma4 granite-embed-multi-311m sarvam-moe ", {R"([^\n]+|[\n]+)"}},
};

// What llama.cpp does where a file has no name.
constexpr std::array<std::string_view, 4> kDefault = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, R"(\p{N}+)",
                                                      "[0-9][0-9][0-9]"};

}  // namespace

GgufPreTokenizer gguf_pre_tokenizer(std::string_view name) {
  GgufPreTokenizer found;
  const std::string word = " " + std::string(name) + " ";
  for (const Row& row : kRows) {
    if (name.empty() || row.names.find(word) == std::string_view::npos) continue;
    for (const std::string_view expression : row.expressions) {
      if (!expression.empty()) found.expressions.emplace_back(expression);
    }
    found.whole_pieces = row.whole_pieces;
    found.add_begin = row.add_begin;
    return found;
  }
  found.expressions.assign(kDefault.begin(), kDefault.end());
  found.known = name == "default";
  return found;
}

std::optional<std::string> gguf_pre_tokenizer_name(const std::vector<std::string>& expressions, bool whole_pieces) {
  std::optional<std::string> other;
  for (const Row& row : kRows) {
    const auto end = std::ranges::find(row.expressions, std::string_view());
    if (!std::equal(row.expressions.begin(), end, expressions.begin(), expressions.end())) continue;
    std::string name(row.names.substr(1, row.names.find(' ', 1) - 1));
    if (row.whole_pieces == whole_pieces) return name;
    if (!other) other = std::move(name);
  }
  return other;
}

}  // namespace ballast
