#include "ballast/engine/text_pass.h"

#include "ballast/io/guard.h"

namespace ballast {

namespace {

struct PartList {
  std::vector<TokenId> ids;
  std::vector<BatchPart> parts;
};

PartList parts_of(const CausalLm& model, std::span<const TextChunk> chunks) {
  PartList list;
  for (const TextChunk& chunk : chunks) {
    const EngineText& text = *chunk.text;
    const auto piece = text.window(model).subspan(text.computed(), chunk.rows);
    list.ids.insert(list.ids.end(), piece.begin(), piece.end());
    list.parts.push_back({.rows = chunk.rows,
                          .position = text.computed(),
                          .text_length = chunk.text_length,
                          .logits = chunk.reaches_end ? LogitRows::kLast : LogitRows::kNone,
                          .past = text.past ? &text.past->past() : nullptr});
  }
  return list;
}

Status keep_row(Context& context, const Tensor& logits, TextChunk& chunk) {
  if (!chunk.text->request.keep_logits) return {};
  if (logits.dims()[0] == 1) {
    chunk.kept = logits;
    return {};
  }
  return assign(chunk.kept, ops::slice_along_axis(context, logits, 0, chunk.row, 1));
}

// Chunks that all have a past, or a single one that has none. Waits for the device: reading does, and where nothing is
// read an error must not wait for a pass that has no part in it.
Status compute_chunks(const CausalLm& model, Context& context, std::span<TextChunk> chunks) {
  const PartList list = parts_of(model, chunks);
  auto logits = std::make_shared<TextChunk::Logits>();
  BALLAST_TRY(logits->tensor, model.forward_batch(context, {list.ids, list.parts}));
  size_t row = 0;
  for (TextChunk& chunk : chunks) {
    if (!chunk.reaches_end) continue;
    chunk.row = row++;
    BALLAST_CHECK(keep_row(context, logits->tensor, chunk));
  }
  if (row != 0) BALLAST_CHECK(assign(logits->values, HostValues<float>::of(logits->tensor)));
  else BALLAST_CHECK(context.workspace().queue().finish());
  for (TextChunk& chunk : chunks) chunk.logits = logits;
  return {};
}

// Which text is to blame for an error is not known: halves of a pass that failed are tried again, so that a text fails
// alone, and what was too large at once may fit.
void run_together(const CausalLm& model, Context& context, std::span<TextChunk> chunks) {
  if (chunks.empty()) return;
  Status computed = guarded([&] { return compute_chunks(model, context, chunks); });
  if (computed) return;
  static_cast<void>(context.workspace().queue().finish());  // what else went wrong is no error of the next pass
  if (chunks.size() == 1) {
    chunks.front().error = std::move(computed).error();
    return;
  }
  run_together(model, context, chunks.first(chunks.size() / 2));
  run_together(model, context, chunks.subspan(chunks.size() / 2));
}

}  // namespace

void run_chunks(const CausalLm& model, Context& context, std::span<TextChunk> chunks) {
  const auto without =
      std::ranges::stable_partition(chunks, [](const TextChunk& chunk) { return chunk.text->past != nullptr; });
  run_together(model, context, chunks.first(chunks.size() - without.size()));
  // Texts without a past would have to be of one length.
  for (TextChunk& chunk : without) run_together(model, context, {&chunk, 1});
}

}  // namespace ballast
