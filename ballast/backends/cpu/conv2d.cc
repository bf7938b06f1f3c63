// Convolutions: products of pixels with panels of outputs, without copying the image. For each place of the kernel a
// table says where the channels of each pixel of a tile begin; pixels beyond the edge are a row of zeros. Where each
// channel has a filter of its own (depthwise), channels are the lanes instead.
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/conv2d.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

using Problem = Conv2dProblem<float>;

size_t element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
size_t taps_of(const Problem& p) { return p.kernel_h * p.kernel_w; }
size_t inputs_of(const Problem& p) { return p.c_in / p.groups; }    // of a group
size_t outputs_of(const Problem& p) { return p.c_out / p.groups; }  // of a group
bool is_empty(const Problem& p) { return p.groups == 0 || p.c_out == 0 || p.o_count == 0; }
bool is_depthwise(const Problem& p) { return p.groups == p.c_in && p.c_in == p.c_out; }

// ---------------------------------------------------------------- the packed form
// [group][panel][tap][input][kPanel], for outputs [begin, end). A group that is cut keeps its number of panels, the
// first of which begins with its first output.
struct PackedForm {
  const Problem& p;
  size_t begin, end;
  size_t first_group = begin / outputs_of(p);
  size_t groups = divide_up(end, outputs_of(p)) - first_group;
  size_t panels_per_group = divide_up(outputs_of(p), kPanel);
  size_t panel_floats = taps_of(p) * inputs_of(p) * kPanel;
  size_t panels = groups * panels_per_group;

  size_t floats() const { return panels * panel_floats; }
  size_t group(size_t panel) const { return first_group + panel / panels_per_group; }
  size_t first_output(size_t panel) const {
    const size_t start = larger(begin, group(panel) * outputs_of(p)) + panel % panels_per_group * kPanel;
    return smaller(start, last_output(panel));
  }
  size_t last_output(size_t panel) const { return smaller(end, (group(panel) + 1) * outputs_of(p)); }
  size_t columns(size_t panel) const { return smaller(kPanel, last_output(panel) - first_output(panel)); }
};

PackedForm whole_form(const Problem& p) { return {p, 0, static_cast<size_t>(p.c_out)}; }
PackedForm tile_form(const Problem& p) {
  return {p, static_cast<size_t>(p.o_begin), static_cast<size_t>(p.o_begin + p.o_count)};
}

// Some columns of one panel, from a weight [output][input][tap]; with the last of them the zeros behind it.
void pack_columns(const Problem& p, size_t output, size_t columns, float* panel, size_t column, bool last) {
  const size_t written = last ? kPanel - column : columns;
  const size_t taps = taps_of(p), inputs = inputs_of(p);
  const size_t terms = taps * inputs;
  constexpr size_t kTerms = 64;
  HWY_ALIGN float turned[kTerms * kPanel];
  WeightView w = p.w;
  w.data += (output - p.o_begin) * terms * element_bytes(w.dtype);
  for (size_t begin = 0; begin < terms; begin += kTerms) {
    const size_t count = smaller(kTerms, terms - begin);
    pack_panel_across(w, terms, count, columns, turned);
    w.data += kTerms * element_bytes(w.dtype);
    for (size_t k = 0; k < count; ++k) {
      const size_t input = (begin + k) / taps, tap = (begin + k) % taps;
      float* to = panel + (tap * inputs + input) * kPanel;
      std::memcpy(to + column, turned + k * kPanel, written * sizeof(float));
    }
  }
}

// The outputs of this tile into their places in `form`.
void pack_panels(const Problem& p, const PackedForm& form, float* packed, size_t panel_begin, size_t panel_end) {
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    const size_t first = form.first_output(panel), last = first + form.columns(panel);
    const size_t begin = larger(first, p.o_begin), end = smaller(last, p.o_begin + p.o_count);
    if (begin >= end) continue;
    pack_columns(p, begin, end - begin, packed + panel * form.panel_floats, begin - first, end == last);
  }
}

// [tap][channel], for channels [begin, begin + channels) of the form.
void pack_depthwise(const Problem& p, size_t begin, size_t channels, float* packed) {
  const size_t taps = taps_of(p);
  for (size_t channel = 0; channel < p.o_count; ++channel) {
    for (size_t tap = 0; tap < taps; ++tap) {
      float* to = packed + tap * channels + p.o_begin - begin + channel;
      const std::byte* from = p.w.data + (channel * taps + tap) * element_bytes(p.w.dtype);
      Vector value = zeros();
      switch (p.w.dtype) {
        case DType::kF16: value = load_weight_part<F16Weight>(from, 1); break;
        case DType::kBF16: value = load_weight_part<Bf16Weight>(from, 1); break;
        default: value = load_weight_part<F32Weight>(from, 1);
      }
      *to = hn::GetLane(value);
    }
  }
}

void conv2d_pack(const Problem& p, std::byte* packed, ThreadPool& pool) {
  if (is_empty(p)) return;
  auto* to = reinterpret_cast<float*>(packed);
  if (is_depthwise(p)) return pack_depthwise(p, 0, p.c_out, to);
  const PackedForm form = whole_form(p);
  pool.for_ranges(form.panels, 1, [&](size_t begin, size_t end) HWY_ATTR { pack_panels(p, form, to, begin, end); });
}

uint64_t conv2d_packed_bytes(const Problem& p) {
  if (is_empty(p)) return 0;
  return sizeof(float) * (is_depthwise(p) ? taps_of(p) * p.c_out : whole_form(p).floats());
}

// ---------------------------------------------------------------- few channels
// With few channels, taps of one line of the kernel are short pieces. In an image with its margins they are one piece.
struct Widened {
  size_t height, width;  // of the image with its margins
  size_t floats;         // of all images; 0: not worth it
};
Widened widened(const Problem& p) {
  constexpr size_t kFewChannels = 8;
  if (p.groups != 1 || p.c_in > kFewChannels || p.kernel_w < 2 || p.dilation_w != 1) return {};
  if (p.out_h == 0 || p.out_w == 0 || p.kernel_h == 0) return {};
  const size_t height = (p.out_h - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1;
  const size_t width = (p.out_w - 1) * p.stride_w + p.kernel_w;
  return {height, width, divide_up(p.n * height * width * p.c_in, 16) * 16};
}

void add_margins(const Problem& p, const Widened& wide, float* to, ThreadPool& pool) {
  pool.for_ranges(p.n * wide.height, 16, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      float* line = to + row * wide.width * p.c_in;
      std::memset(line, 0, wide.width * p.c_in * sizeof(float));
      const size_t y = row % wide.height - p.pad_top;  // modulo 2^64
      if (y >= p.h || p.pad_left >= wide.width) continue;
      const size_t columns = smaller(p.width, wide.width - p.pad_left);
      std::memcpy(line + p.pad_left * p.c_in, p.x + (row / wide.height * p.h + y) * p.width * p.c_in,
                  columns * p.c_in * sizeof(float));
    }
  });
}

// The same convolution over the image with margins: a line of the kernel is one tap of many inputs.
Problem over_lines(const Problem& p, const Widened& wide, const float* x) {
  Problem lines = p;
  lines.x = x;
  lines.h = wide.height;
  lines.width = wide.width;
  lines.c_in = p.c_in * p.kernel_w;
  lines.kernel_w = 1;
  lines.pad_top = lines.pad_left = 0;
  return lines;
}

// Scratch: a row of zeros, the image with margins, then the packed form of the tile where it does not come packed.
size_t zero_floats(const Problem& p) { return divide_up(p.c_in, 16) * 16; }

uint64_t conv2d_scratch(const Problem& p, unsigned /*threads*/) {
  if (is_empty(p)) return 0;
  if (is_depthwise(p)) return p.w.packed ? 0 : taps_of(p) * p.o_count;
  return zero_floats(p) + widened(p).floats + (p.w.packed ? 0 : tile_form(p).floats());
}

// ---------------------------------------------------------------- pixels times panels
constexpr size_t kBlockTiles = 8;
constexpr size_t kBlockPixels = kBlockTiles * kTileRows;
// Terms that are summed before the sums go back to memory, and places of the kernel among them.
constexpr size_t kBlockTerms = 640;
constexpr size_t kBlockTaps = 32;

// Where the window of an output pixel begins; coordinates are modulo 2^64, so that what is left of or above the image
// is beyond its other end.
struct Pixel {
  const float* image;
  size_t y, x;
};

class PixelBlock {
 public:
  // `stride`: floats from pixel to pixel of the image.
  PixelBlock(const Problem& p, size_t stride, const float* zero, size_t begin, size_t end)
      : p_(p), stride_(stride), zero_(zero), begin_(begin), tiles_{end - begin} {
    size_t x = begin % p.out_w, y = begin / p.out_w % p.out_h, image = begin / p.out_w / p.out_h;
    for (size_t i = 0; i < end - begin; ++i) {
      pixels_[i] = {p.x + image * p.h * p.width * stride, static_cast<size_t>(y * p.stride_h - p.pad_top),
                    static_cast<size_t>(x * p.stride_w - p.pad_left)};
      if (++x == p.out_w) {
        x = 0;
        if (++y == p.out_h) y = 0, ++image;
      }
    }
  }

  // All terms of the panels [panel_begin, panel_end) of `form`.
  void multiply(const PackedForm& form, const float* packed, size_t panel_begin, size_t panel_end) {
    const size_t taps = taps_of(p_), inputs = inputs_of(p_);
    const size_t length = smaller(larger(1, inputs), kBlockTerms);
    const size_t taps_at_once = smaller(kBlockTaps, larger(1, kBlockTerms / length));
    for (size_t panel = panel_begin; panel < panel_end;) {
      const size_t group = form.group(panel);
      size_t group_end = panel + 1;
      while (group_end < panel_end && form.group(group_end) == group) ++group_end;
      for (size_t tap = 0; tap < taps; tap += taps_at_once) {
        const size_t tap_count = inputs > length ? 1 : smaller(taps_at_once, taps - tap);
        for (size_t input = 0; input < inputs; input += length) {
          fill_table(tap, tap_count, group * inputs + input);
          terms_.count = smaller(length, inputs - input);
          terms_.first = tap * inputs + input;
          terms_.taps = tap_count;
          for (size_t at = panel; at < group_end; ++at) multiply_panel_terms(form, packed, at);
        }
      }
      finish(form, panel, group_end);
      panel = group_end;
    }
  }

 private:
  // table_[tile][tap][row]: where the factors of a pixel begin.
  void fill_table(size_t tap_begin, size_t tap_count, size_t channel) {
    size_t at = 0;
    for (size_t tile = 0; tile < tiles_.tiles; ++tile) {
      size_t ky = tap_begin / p_.kernel_w, kx = tap_begin % p_.kernel_w;
      for (size_t tap = 0; tap < tap_count; ++tap) {
        for (size_t i = tiles_.begin(tile); i < tiles_.begin(tile + 1); ++i) {
          const size_t y = pixels_[i].y + ky * p_.dilation_h;
          const size_t x = pixels_[i].x + kx * p_.dilation_w;
          const bool inside = y < p_.h && x < p_.width;
          table_[at++] = inside ? pixels_[i].image + (y * p_.width + x) * stride_ + channel : zero_;
        }
        if (++kx == p_.kernel_w) kx = 0, ++ky;
      }
    }
  }

  void multiply_panel_terms(const PackedForm& form, const float* packed, size_t panel) {
    PanelProduct product;
    product.columns = form.columns(panel);
    if (product.columns == 0) return;
    float* c[kTileRows];
    product.c = c;
    product.a = table_;
    product.segments = terms_.taps;
    product.length = terms_.count;
    product.w = packed + panel * form.panel_floats + terms_.first * kPanel;
    product.add = terms_.first != 0;
    const size_t first_output = form.first_output(panel);
    for (size_t tile = 0; tile < tiles_.tiles; ++tile) {
      product.rows = tiles_.begin(tile + 1) - tiles_.begin(tile);
      // The last tile brings the weights that come next, which are too many to wait for in its place.
      if (tile + 1 == tiles_.tiles) product.fetch_ahead = static_cast<ptrdiff_t>(terms_.taps * terms_.count * kPanel);
      for (size_t i = 0; i < product.rows; ++i) c[i] = output(tiles_.begin(tile) + i) + first_output;
      multiply_panel(product);
      product.a += terms_.taps * product.rows;
    }
  }

  void finish(const PackedForm& form, size_t panel_begin, size_t panel_end) {
    const size_t first = form.first_output(panel_begin);
    const size_t columns = form.first_output(panel_end - 1) + form.columns(panel_end - 1) - first;
    Ending ending{.bias = p_.bias != nullptr ? p_.bias + first : nullptr};
    ending.activation = p_.activation;
    ending.residual_first = true;
    if (ending.none() && p_.residual == nullptr) return;
    for (size_t i = 0; i < tiles_.count; ++i) {
      if (p_.residual != nullptr) ending.residual = p_.residual + (begin_ + i) * p_.c_out + first;
      finish_row(output(i) + first, columns, ending);
    }
  }

  float* output(size_t pixel) const { return p_.y + (begin_ + pixel) * p_.c_out; }

  struct Terms {
    size_t first, count, taps;  // count for each tap
  };

  const Problem& p_;
  const size_t stride_;
  const float* zero_;
  const size_t begin_;
  const Tiles tiles_;
  Terms terms_{};
  Pixel pixels_[kBlockPixels];
  const float* table_[kBlockPixels * kBlockTaps];
};

// No terms at all: the sums are zero.
void clear_outputs(const Problem& p, size_t begin, size_t end) {
  for (size_t pixel = begin; pixel < end; ++pixel) {
    std::memset(p.y + pixel * p.c_out + p.o_begin, 0, p.o_count * sizeof(float));
  }
}

void multiply_blocks(const Problem& p, size_t stride, const PackedForm& form, const float* packed, const float* zero,
                     ThreadPool& pool) {
  const size_t pixels = p.n * p.out_h * p.out_w;
  const size_t blocks = divide_up(pixels, kBlockPixels);
  const size_t wanted = pool.size() == 1 ? 1 : 4 * pool.size();
  const size_t parts = smaller(form.panels, divide_up(wanted, larger(1, blocks)));
  pool.for_ranges(blocks * parts, 1, [&](size_t from, size_t to) HWY_ATTR {
    for (size_t index = from; index < to; ++index) {
      // Neighbours in `index` share their panels, which are what is large where there are several parts.
      const size_t block = index % blocks, part = index / blocks;
      const size_t begin = pixels * block / blocks, end = pixels * (block + 1) / blocks;
      if (form.panel_floats == 0) clear_outputs(p, begin, end);
      PixelBlock(p, stride, zero, begin, end)
          .multiply(form, packed, form.panels * part / parts, form.panels * (part + 1) / parts);
    }
  });
}

void multiply_pixels(const Problem& p, float* scratch, ThreadPool& pool) {
  const PackedForm form = p.w.packed ? whole_form(p) : tile_form(p);
  float* image = scratch + zero_floats(p);
  const Widened wide = widened(p);
  const float* packed = reinterpret_cast<const float*>(p.w.data);
  if (!p.w.packed) {
    float* to = image + wide.floats;
    packed = to;
    pool.for_ranges(form.panels, 1, [&](size_t begin, size_t end) HWY_ATTR { pack_panels(p, form, to, begin, end); });
  }
  std::memset(scratch, 0, zero_floats(p) * sizeof(float));
  if (wide.floats == 0) return multiply_blocks(p, p.c_in, form, packed, scratch, pool);
  add_margins(p, wide, image, pool);
  multiply_blocks(over_lines(p, wide, image), p.c_in, form, packed, scratch, pool);
}

// ---------------------------------------------------------------- depthwise
// The places of the kernel that lie inside the image, for one axis of one output.
struct TapSpan {
  size_t begin, end;
};
TapSpan taps_inside(size_t start, size_t dilation, size_t kernel, size_t size) {
  size_t begin = 0;
  while (begin < kernel && start + begin * dilation >= size) ++begin;
  size_t end = begin;
  while (end < kernel && start + end * dilation < size) ++end;
  return {begin, end};
}

struct DepthwiseRow {
  const Problem& p;
  const float* w;  // [tap][channels]
  size_t channels;
  const float* image;
  float* y;               // the output row
  const float* residual;  // beside it, or null
  size_t top;             // of the window; modulo 2^64
  TapSpan rows;

  // kPixels outputs from x on, whose windows all have the columns `taps` inside the image.
  template <size_t kPixels>
  HWY_INLINE void compute(size_t x, TapSpan taps) const {
    const size_t left = x * p.stride_w - p.pad_left;
    const auto sums_at = [&](size_t i, size_t count, Vector* sums) HWY_ATTR {
      const bool whole = count == kLanes;
      for (size_t ky = rows.begin; ky < rows.end; ++ky) {
        const float* line = image + (top + ky * p.dilation_h) * p.width * p.c_in + p.o_begin + i;
        for (size_t kx = taps.begin; kx < taps.end; ++kx) {
          const float* at = w + (ky * p.kernel_w + kx) * channels + i;
          const Vector weight = whole ? load(at) : load_part(at, count);
          const float* from = line + (left + kx * p.dilation_w) * p.c_in;
          BALLAST_UNROLL for (size_t pixel = 0; pixel < kPixels; ++pixel) {
            const float* factor = from + pixel * p.stride_w * p.c_in;
            sums[pixel] = hn::MulAdd(whole ? load(factor) : load_part(factor, count), weight, sums[pixel]);
          }
        }
      }
    };
    const auto step = [&](size_t i, size_t count) HWY_ATTR {
      Vector sums[kPixels];
      BALLAST_UNROLL for (size_t pixel = 0; pixel < kPixels; ++pixel) sums[pixel] = zeros();
      sums_at(i, count, sums);
      BALLAST_UNROLL for (size_t pixel = 0; pixel < kPixels; ++pixel) {
        float* to = y + (x + pixel) * p.c_out + p.o_begin + i;
        if (count == kLanes) store(sums[pixel], to);
        else store_part(sums[pixel], to, count);
      }
    };
    size_t i = 0;
    for (; i + kLanes <= p.o_count; i += kLanes) step(i, kLanes);
    if (i < p.o_count) step(i, p.o_count - i);
  }

  void run() const {
    constexpr size_t kPixels = 4;
    size_t x = 0;
    while (x < p.out_w) {
      const TapSpan taps = columns_inside(x);
      const bool four = x + kPixels <= p.out_w && all_inside(taps) && all_inside(columns_inside(x + kPixels - 1));
      if (four) compute<kPixels>(x, taps);
      else compute<1>(x, taps);
      const size_t done = four ? kPixels : 1;
      for (size_t i = x; i < x + done; ++i) finish(i);
      x += done;
    }
  }

  TapSpan columns_inside(size_t x) const {
    return taps_inside(x * p.stride_w - p.pad_left, p.dilation_w, p.kernel_w, p.width);
  }
  bool all_inside(TapSpan taps) const { return taps.begin == 0 && taps.end == p.kernel_w; }

  void finish(size_t x) const {
    Ending ending{.bias = p.bias != nullptr ? p.bias + p.o_begin : nullptr};
    ending.activation = p.activation;
    ending.residual_first = true;
    if (residual != nullptr) ending.residual = residual + x * p.c_out + p.o_begin;
    if (!ending.none()) finish_row(y + x * p.c_out + p.o_begin, p.o_count, ending);
  }
};

void multiply_depthwise(const Problem& p, float* scratch, ThreadPool& pool) {
  const float* w = reinterpret_cast<const float*>(p.w.data);
  if (!p.w.packed) {
    pack_depthwise(p, p.o_begin, p.o_count, scratch);
    w = scratch;
  }
  pool.for_ranges(p.n * p.out_h, 1, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) {
      const size_t top = row % p.out_h * p.stride_h - p.pad_top;
      const size_t output = row * p.out_w * p.c_out;
      const DepthwiseRow work{p,
                              w,
                              static_cast<size_t>(p.o_count),
                              p.x + row / p.out_h * p.h * p.width * p.c_in,
                              p.y + output,
                              p.residual != nullptr ? p.residual + output : nullptr,
                              top,
                              taps_inside(top, p.dilation_h, p.kernel_h, p.h)};
      work.run();
    }
  });
}

void conv2d(const Problem& p, float* scratch, ThreadPool& pool) {
  if (is_empty(p)) return;
  if (is_depthwise(p)) multiply_depthwise(p, scratch, pool);
  else multiply_pixels(p, scratch, pool);
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu {

HWY_EXPORT(conv2d);
HWY_EXPORT(conv2d_scratch);
HWY_EXPORT(conv2d_packed_bytes);
HWY_EXPORT(conv2d_pack);

void conv2d(const Conv2dProblem<float>& problem, float* scratch, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(conv2d)(problem, scratch, pool);
}
uint64_t conv2d_scratch(const Conv2dProblem<float>& problem, unsigned threads) {
  return HWY_DYNAMIC_DISPATCH(conv2d_scratch)(problem, threads);
}
uint64_t conv2d_packed_bytes(const Conv2dProblem<float>& problem) {
  return HWY_DYNAMIC_DISPATCH(conv2d_packed_bytes)(problem);
}
void conv2d_pack(const Conv2dProblem<float>& problem, std::byte* packed, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(conv2d_pack)(problem, packed, pool);
}

}  // namespace ballast::cpu
#endif
