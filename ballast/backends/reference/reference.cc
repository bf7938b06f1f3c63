#include "ballast/backends/reference/reference.h"

#include "ballast/backends/reference/gradients.h"
#include "ballast/backends/reference/kernels.h"

namespace ballast {

namespace {

template <typename T>
constexpr GradientKernels<T> make_gradients() {
  GradientKernels<T> table;
  table.transposed_product = reference::transposed_product<T>;
  table.transposed_product_scratch = reference::transposed_product_scratch<T>;
  table.column_sums = reference::column_sums<T>;
  table.unary = reference::unary_gradient<T>;
  table.softmax = reference::softmax_gradient<T>;
  table.layer_norm = reference::layer_norm_gradient<T>;
  table.rms_norm = reference::rms_norm_gradient<T>;
  table.batch_statistics = reference::batch_statistics<T>;
  table.batch_norm = reference::batch_norm_gradient<T>;
  table.attention = reference::attention_gradient<T>;
  table.attention_scratch = reference::attention_gradient_scratch<T>;
  table.conv2d = reference::conv2d_gradient<T>;
  table.conv2d_scratch = reference::conv2d_gradient_scratch<T>;
  table.max_pool2d = reference::max_pool2d_gradient<T>;
  table.scatter_rows = reference::scatter_rows<T>;
  table.cross_entropy = reference::cross_entropy<T>;
  table.cross_entropy_gradient = reference::cross_entropy_gradient<T>;
  table.dropout = reference::dropout<T>;
  table.square_sum = reference::square_sum<T>;
  table.sgd = reference::sgd<T>;
  table.adam = reference::adam<T>;
  table.rmsprop = reference::rmsprop<T>;
  return table;
}

template <typename T>
constexpr KernelTable<T> make_table() {
  KernelTable<T> table;
  table.gemm = reference::gemm<T>;
  table.batched_matmul = reference::batched_matmul<T>;
  table.attention = reference::attention<T>;
  table.conv2d = reference::conv2d<T>;
  table.conv2d_scratch = reference::conv2d_scratch<T>;
  table.max_pool2d = reference::max_pool2d<T>;
  table.avg_pool2d = reference::avg_pool2d<T>;
  table.mean_over_positions = reference::mean_over_positions<T>;
  table.layer_norm = reference::layer_norm<T>;
  table.rms_norm = reference::rms_norm<T>;
  table.softmax = reference::softmax<T>;
  table.rope = reference::rope<T>;
  table.unary = reference::unary<T>;
  table.binary = reference::binary<T>;
  table.add_bias = reference::add_bias<T>;
  table.swiglu = reference::swiglu<T>;
  table.widen = reference::widen<T>;
  table.gradients = make_gradients<T>();
  return table;
}

}  // namespace

constinit const HostBackend kReferenceBackend = {
    {.name = "reference",
     .summary = "slow and obvious, f32 and f64: the measure of the others",
     .open_device = open_host_device,
     .level = [] { return std::string_view("scalar"); },
     .block_arithmetic = [](DType, Numerics) { return std::string_view("f32"); },
     .add_implementations = add_host_implementations},
    make_table<float>(),
    make_table<double>(),
};

}  // namespace ballast
