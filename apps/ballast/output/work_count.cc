#include "apps/ballast/output/work_count.h"

#include "ballast/ops/conv.h"
#include "ballast/ops/linalg.h"

namespace ballast::cli {

namespace {

void count_weight(WorkCount& count, const Param& weight, double uses) {
  count.flops += 2 * uses * static_cast<double>(weight.shape().element_count().value_or(0));
  count.param_bytes += weight.info().byte_size;
}

// An implementation that looks at the arguments and then leaves the work to those behind it.
template <typename Args, typename Look>
Status add_observer(Registry& registry, Look look) {
  Implementation<Args> observer;
  observer.name = "counting";
  observer.supports = [look](const Context&, const Args& args) {
    look(args);
    return false;
  };
  observer.run = [](Context&, const Args&) -> Result<Tensor> {
    return make_error(ErrorCode::kUnsupported, "counting computes nothing");
  };
  return registry.add(std::move(observer));
}

}  // namespace

Status count_work(Registry& registry, WorkCount& count) {
  BALLAST_CHECK(add_observer<ops::LinearArgs>(registry, [&count](const ops::LinearArgs& args) {
    count_weight(count, args.weight, static_cast<double>(args.x.dims().leading()));
  }));
  return add_observer<ops::Conv2dArgs>(registry, [&count](const ops::Conv2dArgs& args) {
    const Dims out = ops::conv2d_output_dims(args);
    count_weight(count, args.weight, static_cast<double>(out[0] * out[1] * out[2]));
  });
}

}  // namespace ballast::cli
