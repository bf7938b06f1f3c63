#include "ballast/engine/engine_text.h"

namespace ballast {

EngineText::EngineText(RequestId number, Request asked, const CausalLm& model)
    : id(number),
      request(std::move(asked)),
      tokens(std::move(request.prompt)),
      prompt_size(tokens.size()),
      sampler(request.sampling),
      base_length(std::min<uint64_t>(tokens.size(), model.context_length())) {}

std::span<const TokenId> EngineText::window(const CausalLm& model) const {
  return std::span(tokens).last(std::min<size_t>(tokens.size(), model.context_length()));
}

bool EngineText::goes_before(const EngineText& other) const {
  return request.priority != other.request.priority ? request.priority > other.request.priority : id < other.id;
}

void EngineText::follow_length(const CausalLm& model) {
  const uint64_t length = window(model).size();
  // Positions count from the beginning of the window, so nothing holds any more when that moves.
  const bool has_moved = tokens.size() > length;
  if (!has_moved && model.past_kind(length) == model.past_kind(base_length)) return;
  base_length = length;
  if (past) past->clear(model.length_kind(base_length));
}

void EngineText::leave_one(const CausalLm& model) {
  const uint64_t length = window(model).size();
  if (computed() >= length) past->truncate(length - 1);
}

void EngineText::take_past(std::shared_ptr<KvSequence> given, const CausalLm& model) {
  past = std::move(given);
  const uint64_t kind = model.length_kind(base_length);
  const auto seen = window(model);
  const auto known = past->tokens();
  const auto alike = static_cast<uint64_t>(std::ranges::mismatch(seen, known).in1 - seen.begin());
  // Of another kind it would be another past, even where the tokens are the same.
  if (alike == 0 || past->kind() != kind) past->clear(kind);
  else past->truncate(alike);
  leave_one(model);
  reused = furthest = past->length();
}

}  // namespace ballast
