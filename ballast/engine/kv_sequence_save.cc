// KvSequence::save and restore.
#include <algorithm>
#include <cstring>

#include "ballast/engine/kv_pool.h"
#include "ballast/engine/kv_pool_state.h"
#include "ballast/engine/sequence_file.h"
#include "ballast/io/file.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

class HashingWriter {
 public:
  explicit HashingWriter(ByteSink& sink) : sink_(sink) {}
  Status write(ByteSpan bytes) {
    hasher_.update(bytes);
    return sink_.write(bytes);
  }
  Status finish() { return sink_.write(hasher_.finish()); }

 private:
  ByteSink& sink_;
  Blake3 hasher_;
};

// Behind the last position a page holds whatever was in its memory before, perhaps of another text.
void clear_unused(MutableByteSpan page, uint64_t row_bytes, uint64_t used) {
  const size_t head_bytes = row_bytes * kPagePositions;
  for (size_t head = 0; head < page.size(); head += head_bytes) {
    std::memset(page.data() + head + used * row_bytes, 0, head_bytes - used * row_bytes);
  }
}

Status write_page(Queue& queue, const KvLayout& layout, const DeviceMemory& page, uint64_t used,
                  HashingWriter& writer) {
  ByteVector bytes(page.bytes());
  queue.copy_out({&page}, bytes);
  BALLAST_CHECK(queue.finish());
  clear_unused(bytes, layout.row_bytes(), used);
  return writer.write(bytes);
}

}  // namespace

Status KvSequence::save(const std::string& path, const Digest& model) const {
  return guarded([&]() -> Status {
    const KvLayout& layout = *past_.layout;
    const std::string head = encode_sequence_head(model, layout.shape(), kind_, tokens_);
    const uint64_t size = head.size() + saved_page_bytes(layout, length()).value_or(0) + sizeof(Digest);
    AtomicFiles files({.overwrite = true});
    BALLAST_TRY(ByteSink* const sink, files.add(path, size));
    HashingWriter writer(*sink);
    BALLAST_CHECK(writer.write(as_bytes(head)));
    for (size_t group = 0; group < past_.pages.size(); ++group) {
      for (size_t i = layout.groups()[group].first_page(length()); i < kv_pages_for(length()); ++i) {
        const uint64_t used = std::min(kPagePositions, length() - i * kPagePositions);
        BALLAST_CHECK(write_page(pool_->state_->store->queue(), layout, *past_.pages[group][i], used, writer));
      }
    }
    BALLAST_CHECK(writer.finish());
    return files.commit();
  });
}

Result<KvSequence> KvSequence::restore(const std::string& path, const Digest& model, std::shared_ptr<KvPool> pool) {
  return guarded([&]() -> Result<KvSequence> {
    BALLAST_TRY(const std::shared_ptr<const ByteSource> file, open_file(path, FileAccess::kPositional));
    BALLAST_TRY(const SequenceHead head, check_sequence_file(*file, model, pool->layout()));
    KvSequence sequence(std::move(pool), head.kind);
    BALLAST_TRY(const ByteVector ids, read_bytes(*file, head.tokens_offset, head.length * sizeof(TokenId)));
    std::vector<TokenId> tokens;
    tokens.reserve(head.length);
    for (size_t i = 0; i < head.length; ++i) {
      tokens.push_back(load_le<TokenId>(ids.data() + i * sizeof(TokenId)));
    }
    BALLAST_CHECK(sequence.load_pages(*file, head.pages_offset, std::move(tokens)));
    return sequence;
  });
}

// The tokens belong to the sequence when all of its pages are there: what goes before that is of no use to anybody.
Status KvSequence::load_pages(const ByteSource& file, uint64_t offset, std::vector<TokenId> tokens) {
  KvPool::State& state = *pool_->state_;
  const size_t count = kv_pages_for(tokens.size());
  make_room_for(tokens.size());
  blocks_.resize(count);
  for (std::vector<KvPage>& pages : past_.pages) pages.resize(count);
  for (size_t group = 0; group < past_.pages.size(); ++group) {
    for (size_t i = past_.layout->groups()[group].first_page(tokens.size()); i < count; ++i) {
      BALLAST_TRY(KvPage page, state.take(group));
      BALLAST_TRY(const ByteVector bytes, read_bytes(file, offset, page->bytes()));
      state.store->queue().copy_in({page.get()}, bytes);
      past_.pages[group][i] = std::move(page);
      offset += bytes.size();
    }
  }
  BALLAST_CHECK(state.store->queue().finish());
  tokens_ = std::move(tokens);
  if (state.options.share_prefixes) share_blocks(0);
  return {};
}

}  // namespace ballast
