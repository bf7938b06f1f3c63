#include "apps/ballast/models/running_memory.h"

#include "ballast/base/checked.h"
#include "ballast/engine/generator.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"

namespace ballast::cli {

namespace {

std::optional<KvLayout> decoder_past_of(const Description& file) {
  const auto config = runnable_config(file);
  if (!config) return std::nullopt;
  const auto model = describe_model(*config, std::nullopt, "");
  if (!model || model->kind != "decoder") return std::nullopt;
  const auto description = describe_decoder(model->config);
  if (!description) return std::nullopt;
  auto layout = KvLayout::make(decoder_kv_shape(*description));
  return layout ? std::optional(*std::move(layout)) : std::nullopt;
}

}  // namespace

std::optional<RunningMemory> running_memory(const Description& file, const ModelSummary& summary, uint64_t tokens) {
  const auto past = decoder_past_of(file);
  const auto each = summary.cache_bytes_per_token;
  const auto cache = past   ? past->bytes_for(tokens, Generator::kPromptPiece + Generator::kTakenBack)
                     : each ? checked_mul(*each, tokens)
                            : std::nullopt;
  const auto total = cache ? checked_add(*cache, summary.weight_bytes) : std::nullopt;
  return total ? std::optional(RunningMemory{*cache, *total}) : std::nullopt;
}

}  // namespace ballast::cli
