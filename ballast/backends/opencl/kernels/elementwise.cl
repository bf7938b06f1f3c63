// Elements by themselves, and elements that move.

static inline float hard_sigmoid(float x) {
  const float y = 0.2f * x + 0.5f;
  return y > 1 ? 1 : relu(y);
}
// Without overflow, and exact far to the left, where it is e^x.
static inline float softplus(float x) { return relu(x) + log1p(exp(-fabs(x))); }

// In the order of ballast::UnaryOp.
static inline float unary_of(uint op, float parameter, float x) {
  switch (op) {
    case 0: return -x;
    case 1: return fabs(x);
    case 2: return relu(x);
    case 3: return relu6(x);
    case 4: return gelu_erf(x);
    case 5: return gelu_tanh(x);
    case 6: return silu(x);
    case 7: return 1 / (1 + exp(-x));
    case 8: return ended_tanh(x);
    case 9: return x > 0 ? x : parameter * x;
    case 10: return x > 0 ? x : parameter * expm1(x);
    case 11: return softplus(x);
    case 12: return hard_sigmoid(x);
    case 13: return x * hard_sigmoid(x);
    case 14: return exp(x);
    case 15: return log(x);
    case 16: return sqrt(x);
    case 17: return x * x;
    case 18: return parameter * x;
    case 19: return x + parameter;
  }
  return x;
}

// In the order of ballast::BinaryOp.
static inline float binary_of(uint op, float a, float b) {
  switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return a != a || a > b ? a : b;
    case 5: return a != a || a < b ? a : b;
  }
  return a;
}

KERNEL fill_f32(__global float* y, float value, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = value;
}

KERNEL unary_f32(__global const float* x, __global float* y, uint op, float parameter, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = unary_of(op, parameter, x[i]);
}

KERNEL binary_f32(__global const float* a, __global const float* b, __global float* y, uint op, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = binary_of(op, a[i], b[i]);
}

KERNEL clamp_f32(__global const float* x, __global float* y, float low, float high, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = x[i] < low ? low : (x[i] > high ? high : x[i]);
}

KERNEL swiglu_f32(__global const float* gate, __global const float* up, __global float* y, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = silu(gate[i]) * up[i];
}

KERNEL add_bias_f32(__global const float* x, Bytes bias, uint type, __global float* y, ulong features, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = x[i] + weight_at(type, bias, i % features);
}

KERNEL prelu_f32(__global const float* x, Bytes slopes, uint type, __global float* y, ulong channels, ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = x[i] > 0 ? x[i] : weight_at(type, slopes, i % channels) * x[i];
}

KERNEL scale_rows_f32(__global const float* x, __global const float* factors, __global float* y, ulong features,
                      ulong count) {
  const ulong i = get_global_id(0);
  if (i < count) y[i] = x[i] * factors[i / features];
}

// `rows` runs of `width` units each, from and to places that are a stride apart.
#define COPY_RUNS(name, unit)                                                                                     \
  KERNEL name(__global const unit* from, __global unit* to, ulong from_begin, ulong to_begin, ulong rows,         \
              ulong width, ulong from_stride, ulong to_stride) {                                                  \
    const ulong i = get_global_id(0), row = i / width, column = i % width;                                        \
    if (row < rows) to[to_begin + row * to_stride + column] = from[from_begin + row * from_stride + column];      \
  }
COPY_RUNS(copy_runs_4, uint)
COPY_RUNS(copy_runs_1, uchar)

// Element i of y, whose dimensions are these, lies at the sum of index times stride in x.
#define PERMUTE(name, unit)                                                                                       \
  KERNEL name(__global const unit* from, __global unit* to, __global const ulong* dims,                           \
              __global const ulong* strides, uint rank, ulong count) {                                            \
    const ulong i = get_global_id(0);                                                                             \
    if (i >= count) return;                                                                                       \
    ulong rest = i, place = 0;                                                                                    \
    for (int axis = (int)rank - 1; axis >= 0; --axis) {                                                           \
      place += rest % dims[axis] * strides[axis];                                                                 \
      rest /= dims[axis];                                                                                         \
    }                                                                                                             \
    to[i] = from[place];                                                                                          \
  }
PERMUTE(permute_1, uchar)
PERMUTE(permute_2, ushort)
PERMUTE(permute_4, uint)
PERMUTE(permute_8, ulong)
