// What files call the parameters of decoders and of the like: tables from a part to a pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ballast {

enum class DecoderPart : uint8_t {
  kEmbedding,
  kPositions,
  kTokenTypes,
  kEmbeddingNorm,
  kFinalNorm,
  kHead,
  // Of a layer.
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQkv,
  kQueryNorm,
  kKeyNorm,
  kOutput,
  kAttentionPostNorm,
  kFeedNorm,
  kGate,
  kUp,
  kGateUp,
  kDown,
  kFeedPostNorm,
  // Of a mixture of experts.
  kRouter,
  kExpertGate,  // of one expert
  kExpertUp,
  kExpertDown,
  kStackedGate,  // of all of them
  kStackedUp,
  kStackedGateUp,
  kStackedDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedSwitch,
  // Divisors of the frequencies of rope.
  kRopeDivisors,
  kRopeLongDivisors,
  kRopeShortDivisors,
  // Of a layer: what old files keep beside the weights and nobody reads.
  kMaskBuffer,
  kMaskValueBuffer,
  kRopeBuffer,
};

struct DecoderName {
  DecoderPart part;
  // '@' is the prefix of the file, '^' that of what holds the model, the first {} the layer, the second the expert.
  std::string_view pattern;
  // Behind the pattern.
  std::string_view weight = ".weight";
  std::string_view bias = ".bias";
};

struct DecoderNaming {
  std::span<const std::string_view> prefixes;  // the first whose embedding or output matrix is there
  std::span<const DecoderName> own;            // looked at first
  std::span<const DecoderName> shared;

  // Null where this naming has no such part.
  const DecoderName* find(DecoderPart part) const;
};

struct DecoderPlace {
  std::string_view prefix;
  uint64_t layer = 0;
  uint64_t expert = 0;
};
std::string decoder_param_name(const DecoderName& name, const DecoderPlace& place, std::string_view ending);

// The other way: which part a parameter of a file is.
struct FoundDecoderName {
  const DecoderName* name;
  uint64_t layer = 0;
  uint64_t expert = 0;
  std::string_view ending{};  // ".weight", ".bias" or nothing
};
// nullopt for names that are none of this naming's behind `prefix`.
std::optional<FoundDecoderName> find_decoder_name(const DecoderNaming& naming, std::string_view prefix,
                                                  std::string_view param);

extern const DecoderNaming kHuggingFaceNaming;  // llama, mistral, qwen, phi3, ...
extern const DecoderNaming kGemmaNaming;
extern const DecoderNaming kMixtralNaming;
extern const DecoderNaming kGpt2Naming;
extern const DecoderNaming kGptrsGptNaming;  // a GPT of gpt.rs's later generations
extern const DecoderNaming kGptNaming;       // gpt.rs's checkpoints
extern const DecoderNaming kMinistralNaming;
extern const DecoderNaming kGgufNaming;
extern const DecoderNaming kBertNaming;
extern const DecoderNaming kBertGgufNaming;

}  // namespace ballast
