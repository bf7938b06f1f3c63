#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/launch.h"
#include "ballast/ops/update_routines.h"

namespace ballast::cuda {

namespace {

bool fills_floats(const Context&, const ops::FillArgs& args) { return args.y.dtype() == DType::kF32; }

Status fill(Context& context, const ops::FillArgs& args) {
  return launch(context, Kernel::fill_f32, {.grid = {blocks_for(args.y.count(), 256)}, .block = {256}},
                device_address(args.y), static_cast<float>(args.value), args.y.count());
}

}  // namespace

void add_updates(Registry& registry) { add_routine<ops::FillArgs, fill, fills_floats>(registry); }

}  // namespace ballast::cuda
