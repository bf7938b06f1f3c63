// Arguments of kernels that are more than a few plain values: the same struct for kernels and for those who launch
// them.
#pragma once

#include <cstdint>

namespace ballast::cuda {

using DeviceAddress = uint64_t;  // 0: absent

// Element i of the output, whose dimensions are these, lies at the sum of index times stride in the input.
struct Permutation {
  uint64_t dims[6] = {};
  uint64_t strides[6] = {};
  uint32_t rank = 0;
  uint32_t padding = 0;
};

// Parts that stand side by side in rows of `width` words.
struct Columns {
  static constexpr uint32_t kMost = 4;
  DeviceAddress from[kMost] = {};
  uint64_t widths[kMost] = {};
  uint64_t width = 0;
  uint32_t count = 0;
  uint32_t padding = 0;
};

// y[m, n] = bend(x[m, k] * weights + bias) + residual: what all products of activations with weights have.
struct ProductEnds {
  DeviceAddress bias = 0;      // n values of bias_type; 0: none
  DeviceAddress residual = 0;  // f32 [m, n]; 0: none
  DeviceAddress y = 0;         // f32
  uint64_t m = 0, n = 0, k = 0;
  uint32_t bias_type = 0, bend = 0;
};

// By product_<type>_<how> (products.cu, products_many.cu).
struct Product : ProductEnds {
  DeviceAddress x = 0;        // f32
  DeviceAddress parts = 0;    // of x, as split_activations_* writes them
  DeviceAddress weights = 0;  // plain types: [n, row_bytes]; blocks: as repack_<type> writes them
  uint64_t row_bytes = 0;
};

// The same for weights of any type and layout, one after the other: weight [n, k], or [k, n] where in_out is not 0.
struct PlainProduct : ProductEnds {
  DeviceAddress x = 0, weights = 0;
  uint64_t row_bytes = 0;  // of a weight
  uint64_t x_batch = 0, weight_batch = 0,
           y_batch = 0;  // elements, bytes, elements from one product of a batch to the next
  uint64_t batch = 0;
  uint32_t weight_type = 0, in_out = 0;
};

// One of the products of a RowProduct: n outputs, from column `column` of y on, by the blocks from first_block on.
struct RowPart {
  DeviceAddress weights = 0, bias = 0;  // as of Product
  uint64_t n = 0, row_bytes = 0;
  uint64_t column = 0;
  uint32_t first_block = 0;
  uint32_t bias_type = 0, bend = 0;
  uint32_t padding = 0;
};

enum class NormOfRow : uint32_t { kNone, kRms, kLayer };

// Products of the same few rows of x, by product_<type>_row (products_row.cu): side by side in y[m, n], or two of which
// y has bent(first) * second. Each block normalises x, if it is to be, and splits it.
struct RowProduct {
  static constexpr uint32_t kParts = 3;
  DeviceAddress x = 0, y = 0;         // f32
  DeviceAddress residual = 0;         // f32 [m, n]; 0: none
  DeviceAddress gamma = 0, beta = 0;  // of the norm
  uint64_t m = 0, n = 0, k = 0;
  uint32_t gamma_type = 0, beta_type = 0;
  float eps = 0, shift = 0;
  NormOfRow norm = NormOfRow::kNone;
  uint32_t norm_threads = 0;  // of a block that would compute the norm by itself
  // Warps that share the segments of an output, and how many segments shared memory holds the activations of, as many
  // of each such warp.
  uint32_t spread = 0, stage_segments = 0;
  uint32_t part_count = 0;
  uint32_t is_gated = 0, gate_bend = 0;
  uint32_t padding = 0;
  RowPart parts[kParts] = {};
};

// What products agree on: bits depend on all of these.
inline constexpr uint64_t kTileRows = 16;       // weights' rows that a warp multiplies
inline constexpr uint64_t kGroupTerms = 64;     // terms that are loaded at once
inline constexpr uint64_t kSegmentTerms = 256;  // terms whose sum is one chain; the sums of segments are added in order
inline constexpr uint64_t kProductWarps = 8;    // of a block

// Bytes of 16 rows of 64 terms as repack_<type> writes them; 0 of types that it does not.
constexpr uint64_t packed_group_bytes(uint32_t type) {
  constexpr uint64_t kBytes[] = {0, 0, 0, 1088, 576, 640, 704, 768, 384, 512, 640, 768, 896};
  return kBytes[type];
}

// Of 64 rows of x and one group of terms, what split_activations_* writes: parts, of which there are 2 or 3, then
// scales, then the sums of parts of 16 or 32 terms each where weights have offsets.
inline constexpr uint32_t kPartsRows = 64;
constexpr uint32_t parts_bytes(uint32_t parts, uint32_t totals) {
  return kPartsRows * (kGroupTerms * 2 * parts + 4 + 4 * totals);
}

// How a block of products of many rows works (products_many.cu): two groups of four warps multiply 64 outputs each with
// 64 or 128 rows of x, and a third copies parts of x into one stage of shared memory after the other.
inline constexpr uint32_t kManyThreads = 3 * 128;
inline constexpr uint32_t kManyOutputs = 128;
constexpr uint32_t many_stages(uint32_t rows, uint32_t parts, uint32_t totals) {
  const uint32_t fitting = (200 << 10) / (rows / kPartsRows * parts_bytes(parts, totals));
  return fitting < 8 ? fitting : 8;
}
// Stages, and their barriers.
constexpr uint32_t many_shared_bytes(uint32_t rows, uint32_t parts, uint32_t totals) {
  return many_stages(rows, parts, totals) * (rows / kPartsRows * parts_bytes(parts, totals) + 16);
}

// ---------------------------------------------------------------- images
// Windows of NHWC images, position after position. What of them lies outside the image is 0, or absent.
struct Windows {
  DeviceAddress x = 0;  // f32 [images, h, w, c]
  uint32_t h = 0, w = 0, c = 0;
  uint32_t out_h = 0, out_w = 0;
  uint32_t window_h = 1, window_w = 1, stride_h = 1, stride_w = 1;
  uint32_t pad_top = 0, pad_left = 0, dilation_h = 1, dilation_w = 1;
  uint32_t padding = 0;
};

// Of a convolution: m positions and n outputs, y[m, n] = bend(sum + bias + residual). A sum has k terms.
struct Convolution {
  ProductEnds ends{};
  Windows windows{};
  // Of one group: bf16 [parts][n, k], as arrange_filters_<type> writes them. Of as many as there are outputs: f32
  // [window_h * window_w, n].
  DeviceAddress filters = 0;
  DeviceAddress partial = 0;  // f32 [segments][m, n] where segments have blocks of their own
};

// How a block works: on 64 or 128 windows and 64 outputs, with some stages of shared memory, each of 32 terms of these.
inline constexpr uint32_t kConvolutionRows = 64, kConvolutionOutputs = 64, kConvolutionThreads = 256;
inline constexpr uint32_t kConvolutionTerms = 32, kConvolutionStages = 4;
constexpr uint32_t convolution_shared_bytes(uint32_t rows, uint32_t parts) {
  return kConvolutionStages * kConvolutionTerms * (rows * 4 + kConvolutionOutputs * 2 * parts);
}

// One whose groups have `channels` channels each.
struct GroupedConvolution : Convolution {
  DeviceAddress weights = 0;  // as the file has them: [n, channels, window_h, window_w]
  uint32_t channels = 0, outputs_of_group = 0;
  uint32_t weight_type = 0;
  uint32_t padding = 0;
};

// The gradient of a convolution of one group to its input: x is [images, h, w, c], y [images, out_h, out_w, outputs].
struct TransposedConvolution {
  DeviceAddress x = 0, y = 0;           // f32
  DeviceAddress weights = 0, bias = 0;  // weights [c, outputs, window_h, window_w]
  uint64_t count = 0;                   // of y
  uint32_t h = 0, w = 0, c = 0;
  uint32_t out_h = 0, out_w = 0, outputs = 0;
  uint32_t window_h = 0, window_w = 0, stride = 0, pad = 0;
  uint32_t weight_type = 0, bias_type = 0;
};

// How many elements lie between neighbours: those of NHWC and NCHW differ in this alone.
struct ImageStrides {
  uint64_t image = 0, y = 0, x = 0, c = 0;
};
enum class Pooling : uint32_t { kLargest, kMean };

// A number for each channel, and what norms of channels and of groups of them read. Group norm has no mean and
// variance.
struct ChannelValues {
  DeviceAddress values = 0;
  uint32_t type = 0;
  uint32_t padding = 0;
};
struct ChannelNorm {
  ChannelValues mean{}, variance{}, gamma{}, beta{};
  float eps = 0;
  uint32_t padding = 0;
};

// ---------------------------------------------------------------- attention
// Consecutive positions of one sequence among the rows of a pass.
struct AttentionPart {
  uint64_t row = 0;       // the first
  uint64_t position = 0;  // of that row
  uint64_t rows = 0;
  uint32_t first_tile = 0;  // of those that its rows are divided into
  uint32_t first_page = 0;  // where the sequence's table begins
};

// Short tables go with the launch; longer ones lie in memory.
struct Attention {
  static constexpr uint32_t kParts = 24, kPages = 256;
  DeviceAddress qkv = 0;                        // f32 [rows, width]: q | k | v
  DeviceAddress out = 0;                        // f32 [rows, q_heads * head_dim]
  DeviceAddress partial = 0;                    // of chunks: [rows, q_heads, chunks, head_dim + 2]
  DeviceAddress parts = 0, pages = 0;           // 0: below
  uint64_t keys_offset = 0, values_offset = 0;  // in a page
  uint64_t rows = 0, width = 0, q_heads = 0, kv_heads = 0, head_dim = 0;
  uint64_t window = 0;  // 0: everything
  uint32_t part_count = 0;
  uint32_t heads_of_tile = 0, rows_of_tile = 0;  // queries that a block computes together; the heads have the same keys
  uint32_t chunks = 0;                           // room in `partial`; 0: outputs are written at once
  uint32_t is_causal = 0, is_paged = 0, is_half = 0;
  float scale = 0, soft_cap = 0;
  uint32_t padding = 0;
  AttentionPart few_parts[kParts] = {};
  DeviceAddress few_pages[kPages] = {};
};

// How rows are turned on their way into the past.
struct Turning {
  DeviceAddress cosines = 0, sines = 0;  // f32 [rows, half]
  DeviceAddress queries = 0;             // f32 [rows, q_heads * head_dim]: where turned queries go
  uint64_t half = 0;
  uint32_t in_pairs = 0;    // channels that turn together are side by side
  uint32_t from_pairs = 0;  // channels that are side by side in qkv are to be a half apart
};

// Positions whose keys are weighed against each other before they are merged with those before them. A page has as
// many.
inline constexpr uint64_t kChunkPositions = 64;

// Queries of a tensor core's operand: a warp's, or those of a block that has one chunk alone.
inline constexpr uint64_t kQueriesOfTile = 16;
inline constexpr uint64_t kAttentionWarps = 8;  // at most
inline constexpr uint64_t kMostHeadDim = 256;

// Kernels are compiled for three widths of heads, in f16 in shared memory.
constexpr uint64_t attention_width(uint64_t head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }
constexpr uint64_t attention_stride(uint64_t width) { return width + 8; }  // no bank is asked twice
constexpr bool attention_takes_turns(uint64_t width) { return width > 128; }
// Of a block: queries in two parts, keys and values in one or two, and a factor for each row.
constexpr uint64_t attention_bytes(uint64_t queries, uint64_t width, bool is_half) {
  const uint64_t rows = 2 * queries + (attention_takes_turns(width) ? 1 : 2) * (is_half ? 1 : 2) * kChunkPositions;
  return rows * attention_stride(width) * 2 + (queries + 2 * kChunkPositions) * 4;
}
// What a block that has one chunk needs beyond that: sums, weights in two parts, and what becomes of them.
inline constexpr uint64_t kScoreStride = kChunkPositions + 8;
inline constexpr uint64_t kChunkBytes = kQueriesOfTile * (kScoreStride * 8 + 12);

}  // namespace ballast::cuda
