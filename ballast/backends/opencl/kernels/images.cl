// Images [n, h, w, c]: convolutions, poolings, norms of channels. A work-item an element of y.

static inline float finished(float sum, Bytes bias, uint bias_type, ulong output, __global const float* residual, ulong at,
                      uint bend) {
  if (bias) sum += weight_at(bias_type, bias, output);
  if (residual) sum += residual[at];
  return bent(bend, sum);
}

// Weight [outputs, channels, window_h, window_w]; each of the groups has `channels` channels. Places outside the image
// count nothing.
KERNEL convolve_f32(__global const float* x, Bytes weights, uint weight_type, Bytes bias, uint bias_type,
                    __global const float* residual, __global float* y, ulong count, uint h, uint w, uint c, uint out_h,
                    uint out_w, uint outputs, uint channels, uint outputs_of_group, uint window_h, uint window_w,
                    uint stride_h, uint stride_w, uint pad_top, uint pad_left, uint dilation_h, uint dilation_w,
                    uint bend) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong output = i % outputs, place = i / outputs;
  const ulong out_x = place % out_w, out_y = place / out_w % out_h, image = place / out_w / out_h;
  const ulong pixels = (ulong)window_h * window_w, filter = output * channels * pixels;
  const ulong first_channel = output / outputs_of_group * channels;
  float sum = 0;
  for (uint down = 0; down < window_h; ++down) {
    const long row = (long)(out_y * stride_h) + (long)((ulong)down * dilation_h) - (long)pad_top;
    if (row < 0 || row >= (long)h) continue;
    for (uint across = 0; across < window_w; ++across) {
      const long column = (long)(out_x * stride_w) + (long)((ulong)across * dilation_w) - (long)pad_left;
      if (column < 0 || column >= (long)w) continue;
      __global const float* pixel = x + ((image * h + row) * w + column) * c + first_channel;
      const ulong first = filter + (ulong)down * window_w + across;
      for (uint t = 0; t < channels; ++t) {
        sum = MULTIPLY_ADD(pixel[t], weight_at(weight_type, weights, first + t * pixels), sum);
      }
    }
  }
  y[i] = finished(sum, bias, bias_type, output, residual, i, bend);
}

// Elements of x lie these strides apart, those of y follow each other in its order.
static inline float pooled(uint is_mean, float result, float value) {
  if (is_mean != 0) return result + value;
  return result == result && !(value <= result) ? value : result;
}

KERNEL pool_f32(__global const float* x, __global float* y, ulong count, uint h, uint w, uint c, uint out_h, uint out_w,
                uint window_h, uint window_w, uint stride_h, uint stride_w, uint pad_top, uint pad_left,
                uint channels_first, uint is_mean) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong inner = channels_first != 0 ? out_w : c, middle = channels_first != 0 ? out_h : out_w;
  const ulong outer = channels_first != 0 ? c : out_h;
  const ulong a = i % inner, b = i / inner % middle, d = i / inner / middle % outer, image = i / inner / middle / outer;
  const ulong channel = channels_first != 0 ? d : a;
  const ulong out_x = channels_first != 0 ? a : b, out_y = channels_first != 0 ? b : d;
  const ulong pixel_stride = channels_first != 0 ? 1 : c;
  __global const float* plane = x + image * h * w * c + (channels_first != 0 ? channel * h * w : channel);
  float result = is_mean != 0 ? 0 : -INFINITY;
  for (uint down = 0; down < window_h; ++down) {
    const long row = (long)(out_y * stride_h) + (long)down - (long)pad_top;
    if (row < 0 || row >= (long)h) continue;
    for (uint across = 0; across < window_w; ++across) {
      const long column = (long)(out_x * stride_w) + (long)across - (long)pad_left;
      if (column < 0 || column >= (long)w) continue;
      result = pooled(is_mean, result, plane[((ulong)row * w + column) * pixel_stride]);
    }
  }
  if (is_mean != 0) result /= (float)window_h * (float)window_w;
  y[i] = result;
}

// A group a channel of an image.
KERNEL mean_of_pixels_f32(__global const float* x, __global float* y, ulong pixels, ulong channels) {
  __local float shared[GROUP];
  const ulong image = get_group_id(0) / channels, channel = get_group_id(0) % channels;
  float sum = 0;
  for (ulong pixel = get_local_id(0); pixel < pixels; pixel += GROUP) {
    sum += x[(image * pixels + pixel) * channels + channel];
  }
  sum = sum_of_group(sum, shared);
  if (get_local_id(0) == 0) y[get_group_id(0)] = sum / (float)pixels;
}

KERNEL batch_norm_f32(__global const float* x, Bytes mean, uint mean_type, Bytes variance, uint variance_type,
                      Bytes gamma, uint gamma_type, Bytes beta, uint beta_type, __global float* y, float eps,
                      ulong channels, ulong count) {
  const ulong i = get_global_id(0);
  if (i >= count) return;
  const ulong c = i % channels;
  const float factor = weight_at(gamma_type, gamma, c) / sqrt(weight_at(variance_type, variance, c) + eps);
  y[i] = (x[i] - weight_at(mean_type, mean, c)) * factor + weight_at(beta_type, beta, c);
}
