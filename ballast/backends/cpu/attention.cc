// Causal attention over keys and values of the past. Keys pass in blocks; each query keeps its largest score, the sum
// of its weights and its output so far, and rescales them when a block brings a larger score.
//
// Blocks begin at multiples of kBlockKeys whatever the query, so a query's result does not depend on its neighbours.
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
#include "ballast/ops/kv_pages.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/attention.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

constexpr size_t kBlockKeys = 64;
constexpr size_t kBlockRows = 64;
// Channels of a head that are packed at once.
constexpr size_t kBlockChannels = 128;
static_assert(kPagePositions % kBlockKeys == 0);
static_assert(kBlockKeys % kPanel == 0 && kBlockChannels % kPanel == 0);

// Some queries of the heads that share one head of keys and values. A row is one query of one head.
struct QueryBlock {
  size_t kv_head;
  size_t first_query, queries;
  size_t first_head, heads;  // among the heads of the group

  size_t rows() const { return queries * heads; }
  size_t query(size_t row) const { return first_query + row / heads; }
  size_t head(size_t row) const { return first_head + row % heads; }
};

// Keys [oldest, seen) are what a query looks at.
size_t keys_seen(const AttentionProblem<float>& p, size_t query) {
  return p.first_position + (p.sees_all ? p.q_count : query + 1);
}
size_t oldest_key(const AttentionProblem<float>& p, size_t query) {
  const size_t seen = keys_seen(p, query);
  return p.window != 0 && seen > p.window ? seen - p.window : 0;
}
// Where blocks of keys begin for the first query of a block, and so for all.
size_t first_key_of(const AttentionProblem<float>& p, const QueryBlock& block) {
  return oldest_key(p, block.first_query) / kBlockKeys * kBlockKeys;
}

// A part of the cache that begins at `of`, or, where there are pages, behind `page_offset` of each.
WeightView cached(const AttentionProblem<float>& p, const std::byte* of, size_t page_offset, size_t kv_head, size_t key,
                  size_t channel) {
  if (p.pages != nullptr) {
    of = p.pages[key / kPagePositions]->host_address() + page_offset;
    key %= kPagePositions;
  }
  const size_t element = (kv_head * p.capacity + key) * p.head_dim + channel;
  return {of + element * bytes_of_element(p.cache_dtype), p.cache_dtype};
}

class BlockAttention {
 public:
  // `next_keys`: what this thread reads after the block; it need not exist.
  BlockAttention(const AttentionProblem<float>& problem, const QueryBlock& block, const std::byte* next_keys)
      : p_(problem),
        block_(block),
        next_keys_(next_keys),
        group_(problem.q_heads / problem.kv_heads),
        tiles_{block.rows()} {
    for (size_t row = 0; row < block_.rows(); ++row) {
      const size_t head = block_.kv_head * group_ + block_.head(row);
      queries_[row] = p_.q + block_.query(row) * p_.q_stride + head * p_.head_dim;
      outputs_[row] = p_.out + (block_.query(row) * p_.q_heads + head) * p_.head_dim;
      largest_[row] = -__builtin_inff();
      total_[row] = 0;
    }
    first_key_ = first_key_of(p_, block_);
    keys_ = keys_seen(p_, block_.first_query + block_.queries - 1);
  }

  void run() {
    for (size_t key = first_key_; key < keys_; key += kBlockKeys) {
      const size_t count = smaller(kBlockKeys, keys_ - key);
      score(key, count);
      weigh(key, count);
      mix(key, count);
    }
    for (size_t row = 0; row < block_.rows(); ++row) {
      const Vector total = splat(total_[row]);
      map(outputs_[row], outputs_[row], p_.head_dim, [&](Vector x) HWY_ATTR { return hn::Div(x, total); });
    }
  }

 private:
  WeightView key_at(size_t key, size_t channel) const {
    return cached(p_, p_.keys, p_.keys_offset, block_.kv_head, key, channel);
  }
  WeightView value_at(size_t key, size_t channel) const {
    return cached(p_, p_.values, p_.values_offset, block_.kv_head, key, channel);
  }

  // In elements, from the keys of a block to its values, which are wanted next, and from those to the keys after them:
  // a past is rarely in the cache, and too short for the machine to see where it goes on.
  ptrdiff_t from_keys_to_values(size_t key) const { return elements(value_at(key, 0).data - key_at(key, 0).data); }
  ptrdiff_t from_values_to_next_keys(size_t key) const {
    const std::byte* next = key + kBlockKeys < keys_ ? key_at(key + kBlockKeys, 0).data : next_keys_;
    return elements(next - value_at(key, 0).data);
  }
  ptrdiff_t elements(ptrdiff_t bytes) const { return bytes / static_cast<ptrdiff_t>(bytes_of_element(p_.cache_dtype)); }

  // weights_[row][j] = query . key
  void score(size_t key, size_t count) {
    for (size_t channel = 0; channel < p_.head_dim; channel += kBlockChannels) {
      const size_t channels = smaller(kBlockChannels, p_.head_dim - channel);
      for (size_t j = 0; j < count; j += kPanel) {
        pack_panel_across(key_at(key + j, channel), p_.head_dim, channels, smaller(kPanel, count - j),
                          panels_ + j * channels, from_keys_to_values(key));
      }
      for (size_t tile = 0; tile < tiles_.tiles; ++tile) {
        const float* a[kTileRows];
        float* c[kTileRows];
        PanelProduct product = tile_product(tile, a, c);
        product.length = channels;
        product.add = channel != 0;
        for (size_t i = 0; i < product.rows; ++i) {
          a[i] = queries_[tiles_.begin(tile) + i] + channel;
          c[i] = weights_ + (tiles_.begin(tile) + i) * kBlockKeys;
        }
        multiply_panels(product, c, count, channels);
      }
    }
  }

  // Scores become weights, relative to the largest score so far.
  void weigh(size_t key, size_t count) {
    for (size_t row = 0; row < block_.rows(); ++row) {
      float* weights = weights_ + row * kBlockKeys;
      // Of this block: those between its window and its own position.
      const size_t end = smaller(count, seen(row) > key ? seen(row) - key : 0);
      const size_t begin = smaller(end, oldest(row) > key ? oldest(row) - key : 0);
      for (size_t j = 0; j < begin; ++j) weights[j] = 0;
      for (size_t j = end; j < count; ++j) weights[j] = 0;
      if (begin != end) weigh_row(row, weights + begin, end - begin, key == first_key_);
    }
  }

  void weigh_row(size_t row, float* weights, size_t visible, bool first) {
    scale_scores(weights, visible);
    const float largest = HWY_MAX(largest_[row], largest_of(weights, visible));
    const Vector shift = splat(largest);
    map(weights, weights, visible, [&](Vector x) HWY_ATTR { return exponential(hn::Sub(x, shift)); });
    const float sum = sum_of(weights, visible, Identity());
    const float kept = first ? 0 : hn::GetLane(exponential(splat(largest_[row] - largest)));
    if (!first && kept != 1) {
      map(outputs_[row], outputs_[row], p_.head_dim, [&](Vector x) HWY_ATTR { return hn::Mul(x, splat(kept)); });
    }
    total_[row] = first ? sum : total_[row] * kept + sum;
    largest_[row] = largest;
  }

  void scale_scores(float* weights, size_t count) const {
    if (p_.soft_cap == 0) {
      const Vector scale = splat(p_.scale);
      map(weights, weights, count, [&](Vector x) HWY_ATTR { return hn::Mul(x, scale); });
      return;
    }
    const Vector cap = splat(p_.soft_cap), scale = splat(p_.scale / p_.soft_cap);
    map(weights, weights, count, [&](Vector x) HWY_ATTR { return hn::Mul(cap, Tanh()(hn::Mul(x, scale))); });
  }

  size_t seen(size_t row) const { return keys_seen(p_, block_.query(row)); }
  size_t oldest(size_t row) const { return oldest_key(p_, block_.query(row)); }

  // output += weights * values
  void mix(size_t key, size_t count) {
    for (size_t channel = 0; channel < p_.head_dim; channel += kBlockChannels) {
      const size_t channels = smaller(kBlockChannels, p_.head_dim - channel);
      // Values lie as panels want them, if they are floats and enough of them.
      const bool direct = p_.cache_dtype == DType::kF32 && channels % kPanel == 0;
      const WeightView values = value_at(key, channel);
      for (size_t j = 0; !direct && j < channels; j += kPanel) {
        pack_panel(value_at(key, channel + j), p_.head_dim, count, smaller(kPanel, channels - j), panels_ + j * count);
      }
      for (size_t tile = 0; tile < tiles_.tiles; ++tile) {
        const float* a[kTileRows];
        float* c[kTileRows];
        PanelProduct product = tile_product(tile, a, c);
        product.length = count;
        product.add = key != first_key_;
        if (direct) {
          product.w = reinterpret_cast<const float*>(values.data);
          product.w_stride = p_.head_dim;
          if (tile == 0) product.fetch_ahead = from_values_to_next_keys(key);
        }
        for (size_t i = 0; i < product.rows; ++i) {
          a[i] = weights_ + (tiles_.begin(tile) + i) * kBlockKeys;
          c[i] = outputs_[tiles_.begin(tile) + i] + channel;
        }
        multiply_panels(product, c, channels, direct ? 1 : count);
      }
    }
  }

  PanelProduct tile_product(size_t tile, const float** a, float** c) const {
    PanelProduct product;
    product.a = a;
    product.c = c;
    product.rows = tiles_.begin(tile + 1) - tiles_.begin(tile);
    product.w = panels_;
    return product;
  }

  // From panel to panel: `step` floats of the weight for each column.
  static void multiply_panels(PanelProduct& product, float** c, size_t columns, size_t step) {
    for (size_t j = 0; j < columns; j += kPanel) {
      product.columns = smaller(kPanel, columns - j);
      multiply_panel(product);
      product.w += kPanel * step;
      for (size_t i = 0; i < product.rows; ++i) c[i] += kPanel;
    }
  }

  const AttentionProblem<float>& p_;
  const QueryBlock& block_;
  const std::byte* const next_keys_;
  const size_t group_;
  const Tiles tiles_;
  size_t first_key_ = 0;  // of the first block that any row looks at
  size_t keys_ = 0;       // up to the last that any row looks at
  const float* queries_[kBlockRows];
  float* outputs_[kBlockRows];
  float largest_[kBlockRows];
  float total_[kBlockRows];
  HWY_ALIGN float weights_[kBlockRows * kBlockKeys];
  HWY_ALIGN float panels_[kBlockKeys * kBlockChannels];
};

// How one problem is cut into blocks.
struct BlockCut {
  size_t heads, queries;  // of a block, at most
  size_t query_parts, parts;

  explicit BlockCut(const AttentionProblem<float>& p) {
    const size_t group = p.kv_heads == 0 ? 0 : p.q_heads / p.kv_heads;
    heads = smaller(group, kBlockRows);
    queries = larger(1, kBlockRows / larger(1, heads));
    query_parts = p.head_dim == 0 ? 0 : divide_up(p.q_count, queries);
    parts = heads == 0 ? 0 : divide_up(group, heads) * query_parts;
  }

  size_t blocks(const AttentionProblem<float>& p) const { return p.kv_heads * parts; }

  QueryBlock block(const AttentionProblem<float>& p, size_t index) const {
    QueryBlock block;
    block.kv_head = index / parts;
    block.first_head = index % parts / query_parts * heads;
    block.heads = smaller(heads, p.q_heads / p.kv_heads - block.first_head);
    block.first_query = index % query_parts * queries;
    block.queries = smaller(queries, p.q_count - block.first_query);
    return block;
  }
};

// The last problem whose blocks begin at `index` or before: the one that has it, since those without blocks begin where
// the next does. By halving, because a batch has hundreds of texts, and each of them as many blocks as heads.
const AttentionProblem<float>& problem_of(const AttentionProblem<float>* problems, size_t count, size_t index) {
  size_t begin = 0, end = count;
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    (problems[middle].first_piece <= index ? begin : end) = middle;
  }
  return problems[begin];
}

// Where the keys of block `index` of all problems together begin.
const std::byte* first_keys(const AttentionProblem<float>* problems, size_t count, size_t index) {
  const AttentionProblem<float>& p = problem_of(problems, count, index);
  const QueryBlock block = BlockCut(p).block(p, index - p.first_piece);
  return cached(p, p.keys, p.keys_offset, block.kv_head, first_key_of(p, block), 0).data;
}

// Blocks [begin, end) of all problems together.
void attend_blocks(const AttentionProblem<float>* problems, size_t count, size_t begin, size_t end) {
  for (size_t index = begin; index < end; ++index) {
    const AttentionProblem<float>& problem = problem_of(problems, count, index);
    const QueryBlock block = BlockCut(problem).block(problem, index - problem.first_piece);
    BlockAttention(problem, block, first_keys(problems, count, smaller(index + 1, end - 1))).run();
  }
}

void attend(AttentionProblem<float>* problems, size_t count, ThreadPool& pool) {
  size_t blocks = 0;
  for (size_t i = 0; i < count; ++i) {
    problems[i].first_piece = blocks;
    blocks += BlockCut(problems[i]).blocks(problems[i]);
  }
  // In a few pieces for each thread: the next block of a piece is fetched while one is computed.
  const size_t grain = larger(1, blocks / (8 * pool.size()));
  pool.for_ranges(blocks, grain,
                  [&](size_t begin, size_t end) HWY_ATTR { attend_blocks(problems, count, begin, end); });
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu {

HWY_EXPORT(attend);
void attention(std::span<AttentionProblem<float>> problems, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(attend)(problems.data(), problems.size(), pool);
}

}  // namespace ballast::cpu
#endif
