// Rows by themselves: norms, softmax, sums, rows of tables, rotary embeddings. A group has a row, so what is computed of
// a row does not depend on other rows.

static inline float value_or(Bytes values, uint type, ulong i, float otherwise) {
  return values ? weight_at(type, values, i) : otherwise;
}

KERNEL layer_norm_f32(__global const float* x, Bytes gamma, uint gamma_type, Bytes beta, uint beta_type,
                      __global float* y, float eps, ulong features) {
  __local float shared[GROUP];
  x += get_group_id(0) * features;
  y += get_group_id(0) * features;
  const float share = 1 / (float)features;
  float sum = 0;
  for (ulong i = get_local_id(0); i < features; i += GROUP) sum += x[i];
  const float mean = sum_of_group(sum, shared) * share;
  float squares = 0;
  for (ulong i = get_local_id(0); i < features; i += GROUP) squares += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1 / sqrt(sum_of_group(squares, shared) * share + eps);
  for (ulong i = get_local_id(0); i < features; i += GROUP) {
    y[i] = (x[i] - mean) * inverse * value_or(gamma, gamma_type, i, 1) + value_or(beta, beta_type, i, 0);
  }
}

KERNEL rms_norm_f32(__global const float* x, Bytes gamma, uint gamma_type, __global float* y, float eps, float shift,
                    ulong features) {
  __local float shared[GROUP];
  x += get_group_id(0) * features;
  y += get_group_id(0) * features;
  float squares = 0;
  for (ulong i = get_local_id(0); i < features; i += GROUP) squares += x[i] * x[i];
  const float inverse = 1 / sqrt(sum_of_group(squares, shared) / (float)features + eps);
  for (ulong i = get_local_id(0); i < features; i += GROUP) {
    y[i] = x[i] * inverse * (value_or(gamma, gamma_type, i, 1) + shift);
  }
}

KERNEL softmax_f32(__global const float* x, __global float* y, ulong features) {
  __local float shared[GROUP];
  x += get_group_id(0) * features;
  y += get_group_id(0) * features;
  float largest = -INFINITY;
  for (ulong i = get_local_id(0); i < features; i += GROUP) largest = largest_of(x[i], largest);
  largest = largest_of_group(largest, shared);
  float sum = 0;
  for (ulong i = get_local_id(0); i < features; i += GROUP) sum += exp(x[i] - largest);
  sum = sum_of_group(sum, shared);
  for (ulong i = get_local_id(0); i < features; i += GROUP) y[i] = exp(x[i] - largest) / sum;
}

KERNEL lookup_f32(Bytes table, ulong table_begin, uint type, ulong row_bytes, __global const uint* ids,
                  __global float* y, ulong features) {
  Bytes row = table + table_begin + ids[get_group_id(0)] * row_bytes;
  y += get_group_id(0) * features;
  for (ulong i = get_local_id(0); i < features; i += GROUP) y[i] = weight_at(type, row, i);
}

// Of rows [rows, stride] the first `heads` heads are turned, and what is behind them is copied; position of row r is
// r % length.
KERNEL rope_f32(__global const float* x, __global const float* cosines, __global const float* sines, __global float* y,
                ulong stride, ulong heads, ulong head_dim, ulong half_dim, ulong length, uint in_pairs, ulong count) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong row = i / stride, column = i % stride, channel = column % head_dim;
  if (column >= heads * head_dim || channel >= 2 * half_dim) {
    y[i] = x[i];
    return;
  }
  const bool is_second = in_pairs != 0 ? channel % 2 != 0 : channel >= half_dim;
  const ulong place = in_pairs != 0 ? channel / 2 : channel % half_dim;
  __global const float* head = x + (i - channel);
  const float a = head[in_pairs != 0 ? 2 * place : place];
  const float b = head[in_pairs != 0 ? 2 * place + 1 : place + half_dim];
  const ulong at = row % length * half_dim + place;
  y[i] = is_second ? b * cosines[at] + a * sines[at] : a * cosines[at] - b * sines[at];
}

// Heads in the first `turned` columns of each row: first the even channels, then the odd ones.
KERNEL pairs_to_halves_f32(__global const float* x, __global float* y, ulong stride, ulong turned, ulong head_dim,
                           ulong count) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong column = i % stride, channel = column % head_dim, half_dim = head_dim / 2;
  const ulong from = channel < half_dim ? 2 * channel : 2 * (channel - half_dim) + 1;
  y[i] = column < turned ? x[i - channel + from] : x[i];
}
