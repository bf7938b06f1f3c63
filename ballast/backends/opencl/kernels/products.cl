// Products of activations with weights of type BALLAST_WEIGHT_TYPE, [n, k] as the file stores them.
//
// One element of y is one chain of operations, whatever else is computed in the same pass: work-item l of 64 takes the
// parts l, l + 64, ... of the row, term after term, and the 64 sums are added up as a tree. A group that takes several
// rows of x decodes each weight once for all of them and keeps a chain for each.

#if BALLAST_WEIGHT_TYPE <= TYPE_BF16
#define PART 8
#else
#define PART 32
#endif

// The part that begins at term `begin`, a multiple of PART; behind the last term there are zeros.
static inline void decode_part(Bytes row, ulong begin, ulong k, float* terms) {
#if BALLAST_WEIGHT_TYPE <= TYPE_BF16
  for (int i = 0; i < PART; ++i) terms[i] = begin + i < k ? weight_at(BALLAST_WEIGHT_TYPE, row, begin + i) : 0;
#elif BALLAST_WEIGHT_TYPE == TYPE_Q8_0
  Bytes block = row + begin / 32 * 34;
  const float scale = half_at(block);
  for (int i = 0; i < PART; ++i) terms[i] = scale * (float)(char)block[2 + i];
#elif BALLAST_WEIGHT_TYPE == TYPE_Q4_0
  Bytes block = row + begin / 32 * 18;
  const float scale = half_at(block);
  for (int i = 0; i < 16; ++i) {
    const int codes = block[2 + i];
    terms[i] = scale * (float)((codes & 15) - 8);
    terms[16 + i] = scale * (float)((codes >> 4) - 8);
  }
#elif BALLAST_WEIGHT_TYPE == TYPE_Q4_1
  Bytes block = row + begin / 32 * 20;
  const float scale = half_at(block), offset = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int codes = block[4 + i];
    terms[i] = scale * (float)(codes & 15) + offset;
    terms[16 + i] = scale * (float)(codes >> 4) + offset;
  }
#elif BALLAST_WEIGHT_TYPE == TYPE_Q4_K
  Bytes block = row + begin / 256 * 144;
  const int part = (int)(begin % 256 / 32), shift = part % 2 * 4;
  const float scale = half_at(block) * (float)k_scale(block + 4, part);
  const float offset = -(half_at(block + 2) * (float)k_minimum(block + 4, part));
  Bytes codes = block + 16 + part / 2 * 32;
  for (int i = 0; i < PART; ++i) terms[i] = scale * (float)(codes[i] >> shift & 15) + offset;
#elif BALLAST_WEIGHT_TYPE == TYPE_Q6_K
  Bytes block = row + begin / 256 * 210;
  const int first = (int)(begin % 256), quarter = first / 32 % 4;
  Bytes low = block + first / 128 * 64 + quarter % 2 * 32, high = block + 128 + first / 128 * 32;
  const float scale = half_at(block + 208);
  for (int i = 0; i < PART; ++i) {
    const int code = (low[i] >> (quarter / 2 * 4) & 15) | (high[i] >> (quarter * 2) & 3) << 4;
    terms[i] = scale * (float)(char)block[192 + (first + i) / 16] * (float)(code - 32);
  }
#else
  for (int i = 0; i < PART; ++i) terms[i] = weight_at(BALLAST_WEIGHT_TYPE, row, begin + i);
#endif
}

static inline float multiply_part(const float* terms, __global const float* x, ulong begin, ulong k, float sum) {
  if (begin + PART <= k) {
    for (int i = 0; i < PART; ++i) sum = MULTIPLY_ADD(terms[i], x[begin + i], sum);
  } else {
    for (int i = 0; begin + i < k; ++i) sum = MULTIPLY_ADD(terms[i], x[begin + i], sum);
  }
  return sum;
}

// y[m, n] = bend(x[m, k] * weights + bias) + residual. Groups [n, m / ROWS]. The loops over rows have a fixed number of
// turns, so that their sums stay in registers.
#define PRODUCT(name, ROWS)                                                                                        \
  KERNEL name(__global const float* x, Bytes weights, ulong weights_begin, ulong row_bytes, Bytes bias,            \
              uint bias_type, __global const float* residual, __global float* y, ulong m, ulong n, ulong k,        \
              uint bend) {                                                                                         \
    __local float shared[GROUP];                                                                                   \
    const uint lane = (uint)get_local_id(0);                                                                       \
    const ulong output = get_group_id(0), first = get_group_id(1) * ROWS;                                          \
    Bytes row = weights + weights_begin + output * row_bytes;                                                      \
    float terms[PART], sums[ROWS];                                                                                 \
    for (int r = 0; r < ROWS; ++r) sums[r] = 0;                                                                    \
    for (ulong begin = (ulong)lane * PART; begin < k; begin += GROUP * PART) {                                     \
      decode_part(row, begin, k, terms);                                                                           \
      for (int r = 0; r < ROWS; ++r) {                                                                             \
        if (first + r < m) sums[r] = multiply_part(terms, x + (first + r) * k, begin, k, sums[r]);                 \
      }                                                                                                            \
    }                                                                                                              \
    for (int r = 0; r < ROWS; ++r) {                                                                               \
      float sum = sum_of_group(sums[r], shared);                                                                   \
      if (lane != 0 || first + r >= m) continue;                                                                   \
      const ulong at = (first + r) * n + output;                                                                   \
      if (bias) sum += weight_at(bias_type, bias, output);                                                         \
      sum = bent(bend, sum);                                                                                       \
      if (residual) sum += residual[at];                                                                           \
      y[at] = sum;                                                                                                 \
    }                                                                                                              \
  }
PRODUCT(product_row, 1)
PRODUCT(product_rows, 8)
