#include "ballast/models/causal_model.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace ballast {

namespace {

// Texts without a past are of one length: attention takes them so.
Status check_kinds(const TextBatch& batch) {
  const BatchPart& first = batch.parts.front();
  for (const BatchPart& part : batch.parts) {
    if ((part.past == nullptr) != (first.past == nullptr)) {
      return make_error(ErrorCode::kInvalidArgument, "a pass has parts with a past and parts without one");
    }
    if (part.past == nullptr && (part.position != 0 || part.rows != first.rows)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{} tokens from position {} on beside {}: texts without a past begin at 0 and have "
                                    "one length",
                                    part.rows, part.position, first.rows));
    }
  }
  return {};
}

Status check_batch(const TextBatch& batch, uint64_t vocab_size, uint64_t context_length) {
  if (batch.parts.empty()) return make_error(ErrorCode::kInvalidArgument, "no tokens: the model needs at least one");
  std::span<const TokenId> ids = batch.ids;
  for (const BatchPart& part : batch.parts) {
    if (part.rows > ids.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the parts of a pass have more tokens than its {}", batch.ids.size()));
    }
    BALLAST_CHECK(check_tokens(ids.first(part.rows), vocab_size, part.position, context_length));
    ids = ids.subspan(part.rows);
  }
  if (ids.empty()) return check_kinds(batch);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} of {} tokens belong to no part", ids.size(), batch.ids.size()));
}

}  // namespace

Result<Tensor> CausalLm::forward_tokens(Context& context, std::span<const TokenId> ids, LogitRows rows) const {
  const std::array part = {BatchPart{.rows = ids.size(), .text_length = ids.size(), .logits = rows}};
  return forward_batch(context, {ids, part});
}

Result<Tensor> CausalLm::forward_sequences(Context& context, std::span<const TokenId> ids, uint64_t sequences) const {
  if (sequences == 0 || ids.size() % sequences != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} tokens are not {} sequences of one length", ids.size(), sequences));
  }
  const uint64_t length = ids.size() / sequences;
  const std::vector<BatchPart> parts(static_cast<size_t>(sequences), BatchPart{.rows = length, .text_length = length});
  return forward_batch(context, {ids, parts});
}

Result<ModelOutput> CausalModel::forward(Context& context, const ModelInput& input) const {
  BALLAST_TRY(const auto ids, tokens_of(input, kind()));
  return forward_tokens(context, ids, LogitRows::kAll);
}

Result<Tensor> CausalModel::forward_batch(Context& context, const TextBatch& batch) const {
  BALLAST_CHECK(check_batch(batch, vocab_size(), context_length()));
  return run(context, batch);
}

}  // namespace ballast
