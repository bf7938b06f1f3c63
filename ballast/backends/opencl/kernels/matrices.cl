// Products of activations with each other, and weights in the other order.

// Of a batch, y[m, n] = a[m, k] * b[k, n]: a work-item an element, term after term.
KERNEL multiply_f32(__global const float* a, __global const float* b, __global float* y, ulong m, ulong n, ulong k,
                    ulong count) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong column = i % n, row = i / n, batch = row / m;
  a += row * k;
  b += batch * k * n + column;
  float sum = 0;
  for (ulong t = 0; t < k; ++t) sum = MULTIPLY_ADD(a[t], b[t * n], sum);
  y[i] = sum;
}

// [k, n] to [n, k].
#define TRANSPOSE(name, unit)                                                                      \
  KERNEL name(__global const unit* from, __global unit* to, ulong k, ulong n) {                    \
    const ulong i = get_global_id(0);                                                              \
    if (i < k * n) to[i] = from[i % k * n + i / k];                                                \
  }
TRANSPOSE(transpose_2, ushort)
TRANSPOSE(transpose_4, uint)
