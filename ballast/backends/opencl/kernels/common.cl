// In front of every program: weights of all types as files store them, activations, sums over a group.
// OpenCL C 1.2, without optional parts. A multiply-add is fused where the code says so and nowhere else; groups have 64
// work-items, and the order of every sum depends on that alone.
#pragma OPENCL FP_CONTRACT OFF

#define GROUP 64

#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// WeightType of weight_access.h.
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_BF16 2
#define TYPE_Q8_0 3
#define TYPE_Q4_0 4
#define TYPE_Q4_1 5
#define TYPE_Q5_0 6
#define TYPE_Q5_1 7
#define TYPE_Q2_K 8
#define TYPE_Q3_K 9
#define TYPE_Q4_K 10
#define TYPE_Q5_K 11
#define TYPE_Q6_K 12

typedef __global const uchar* Bytes;

// ---------------------------------------------------------------- weights, exactly as ballast/tensor/block_decoders.cc
static inline float half_at(Bytes from) { return vload_half(0, (__global const half*)from); }
static inline float bf16_at(Bytes from) { return as_float((uint)(*(__global const ushort*)from) << 16); }
static inline uint word_at(Bytes from) { return from[0] | from[1] << 8 | from[2] << 16 | (uint)from[3] << 24; }
static inline int nibble_of(Bytes codes, int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }

// A weight is scale * code + offset, where code is a small whole number.
typedef struct {
  float scale;
  float offset;
  int code;
} CodedValue;

static inline CodedValue coded(float scale, int code, float offset) {
  CodedValue value;
  value.scale = scale;
  value.code = code;
  value.offset = offset;
  return value;
}

// The six-bit scale and minimum of part k of 8 of q4_k and q5_k.
static inline int k_scale(Bytes in, int k) { return k < 4 ? in[k] & 63 : (in[k + 4] & 15) | (in[k - 4] >> 6) << 4; }
static inline int k_minimum(Bytes in, int k) { return k < 4 ? in[k + 4] & 63 : (in[k + 4] >> 4) | (in[k] >> 6) << 4; }

static inline CodedValue q2_k_value(Bytes block, int i) {
  const int part = i / 16, l = i % 16;
  const int code = block[16 + part / 8 * 32 + part % 2 * 16 + l] >> (part / 2 % 4 * 2) & 3;
  return coded(half_at(block + 80) * (float)(block[part] & 15), code, -(half_at(block + 82) * (float)(block[part] >> 4)));
}
static inline CodedValue q3_k_value(Bytes block, int i) {
  const int part = i / 16, l = i % 16;
  Bytes packed = block + 96;
  const int scale_low = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
  const int scale = (scale_low | (packed[8 + part % 4] >> (part / 4 * 2) & 3) << 4) - 32;
  const int low = block[32 + part / 8 * 32 + part % 2 * 16 + l] >> (part / 2 % 4 * 2) & 3;
  const int high = block[part % 2 * 16 + l] >> (part / 2) & 1;
  return coded(half_at(block + 108) * (float)scale, (low | high << 2) - 4, 0);
}
static inline CodedValue q4_k_value(Bytes block, int i) {
  const int part = i / 32;
  return coded(half_at(block) * (float)k_scale(block + 4, part), block[16 + part / 2 * 32 + i % 32] >> (part % 2 * 4) & 15,
               -(half_at(block + 2) * (float)k_minimum(block + 4, part)));
}
static inline CodedValue q5_k_value(Bytes block, int i) {
  const int part = i / 32;
  const int low = block[48 + part / 2 * 32 + i % 32] >> (part % 2 * 4) & 15;
  const int high = block[16 + i % 32] >> part & 1;
  return coded(half_at(block) * (float)k_scale(block + 4, part), low | high << 4,
               -(half_at(block + 2) * (float)k_minimum(block + 4, part)));
}
static inline CodedValue q6_k_value(Bytes block, int i) {
  const int part = i / 16, l = i % 16, quarter = part / 2 % 4;
  const int low = block[part / 8 * 64 + quarter % 2 * 32 + part % 2 * 16 + l] >> (quarter / 2 * 4) & 15;
  const int high = block[128 + part / 8 * 32 + part % 2 * 16 + l] >> (quarter * 2) & 3;
  return coded(half_at(block + 208) * (float)(char)block[192 + part], (low | high << 4) - 32, 0);
}
static inline int q5_code(Bytes block, int header, int i) {
  return nibble_of(block + header + 4, i) | (word_at(block + header) >> i & 1) << 4;
}

// Element i of a row of blocks.
static inline CodedValue coded_value(uint type, Bytes row, ulong i) {
  const int in32 = (int)(i % 32), in256 = (int)(i % 256);
  const ulong block32 = i / 32, block256 = i / 256;
  Bytes block;
  switch (type) {
    case TYPE_Q8_0:
      block = row + block32 * 34;
      return coded(half_at(block), (char)block[2 + in32], 0);
    case TYPE_Q4_0:
      block = row + block32 * 18;
      return coded(half_at(block), nibble_of(block + 2, in32) - 8, 0);
    case TYPE_Q4_1:
      block = row + block32 * 20;
      return coded(half_at(block), nibble_of(block + 4, in32), half_at(block + 2));
    case TYPE_Q5_0:
      block = row + block32 * 22;
      return coded(half_at(block), q5_code(block, 2, in32) - 16, 0);
    case TYPE_Q5_1:
      block = row + block32 * 24;
      return coded(half_at(block), q5_code(block, 4, in32), half_at(block + 2));
    case TYPE_Q2_K: return q2_k_value(row + block256 * 84, in256);
    case TYPE_Q3_K: return q3_k_value(row + block256 * 110, in256);
    case TYPE_Q4_K: return q4_k_value(row + block256 * 144, in256);
    case TYPE_Q5_K: return q5_k_value(row + block256 * 176, in256);
    case TYPE_Q6_K: return q6_k_value(row + block256 * 210, in256);
  }
  return coded(0, 0, 0);
}

static inline float weight_at(uint type, Bytes row, ulong i) {
  if (type == TYPE_F32) return ((__global const float*)row)[i];
  if (type == TYPE_F16) return half_at(row + 2 * i);
  if (type == TYPE_BF16) return bf16_at(row + 2 * i);
  const CodedValue value = coded_value(type, row, i);
  return value.scale * (float)value.code + value.offset;
}

// ---------------------------------------------------------------- functions of one argument; NaN stays NaN
static inline float relu(float x) { return x < 0 ? 0 : x; }
static inline float relu6(float x) { return x > 6 ? 6 : relu(x); }
static inline float silu(float x) { return x / (1 + exp(-x)); }
// Drivers may be several units in the last place off, which must not be multiplied where these functions have ended.
static inline float ended_erf(float x) { return fabs(x) >= 4 ? copysign(1.0f, x) : erf(x); }
static inline float ended_tanh(float x) { return fabs(x) >= 9.1f ? copysign(1.0f, x) : tanh(x); }
static inline float gelu_erf(float x) { return 0.5f * x * (1 + ended_erf(x * 0.70710678118654752f)); }
static inline float gelu_tanh(float x) {
  return 0.5f * x * (1 + ended_tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

// In the order of ballast::Activation.
static inline float bent(uint bend, float x) {
  switch (bend) {
    case 1: return relu(x);
    case 2: return relu6(x);
    case 3: return gelu_erf(x);
    case 4: return gelu_tanh(x);
    case 5: return silu(x);
  }
  return x;
}

// ---------------------------------------------------------------- over a group; every work-item gets the result
static inline float largest_of(float a, float b) { return a != a || a > b ? a : b; }

static inline float sum_of_group(float value, __local float* shared) {
  const uint lane = (uint)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);  // of an earlier sum nobody reads any more
  shared[lane] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (lane < step) shared[lane] += shared[lane + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return shared[0];
}

static inline float largest_of_group(float value, __local float* shared) {
  const uint lane = (uint)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[lane] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint step = GROUP / 2; step > 0; step /= 2) {
    if (lane < step) shared[lane] = largest_of(shared[lane], shared[lane + step]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return shared[0];
}

#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
