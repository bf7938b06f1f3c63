// The names of tokenizer.ggml.pre. The expressions are those that the models' own tokenizer.json files have, which
// llama.cpp rewrites for its own engine; where it cuts otherwise than they do, its recorded tokens decide.
#include <algorithm>
#include <array>

#include "ballast/text/gguf_vocabulary.h"

namespace ballast {

namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
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
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-"
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-"
    "ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-"
    "𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
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
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", {kLlama3}, true, true},
    {" dbrx smaug-bpe chatglm-bpe ", {kLlama3}},
    {" glm4 glm5 ", {kLlama3}, true},
    {" minicpm5 ", {R"(\p{N}{1,3})", kLlama3}, true},
    {" qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ", {kQwen2}},
    {" qwen35 ", {kQwen35}},
    {" gpt-4o llama4 kanana2 talkie minimax-m2 ", {kO200k}},
    {" granite-embed-multi-97m ", {kO200k}, true},
    {" tiny_aya cohere2moe ", {kDigitGroups, kO200k}},
    {" tekken ", {kTekken}, true, true},
    {" gpt-2 phi-2 jina-es jina-de gigachat jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe a.x-4.0 mellum "
     "modern-bert mpt olmo jais trillion granite-docling exaone4 ",
     {kGpt2}},
    {" starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 ", {R"(\p{N})", kGpt2}},
    {" falcon ", {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
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
constexpr std::array<std::string_view, 4> kDefault = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};

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

}  // namespace ballast
