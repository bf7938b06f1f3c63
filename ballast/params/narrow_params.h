// Parameters stored as f64, which no kernel takes, as the f32 that netcl and PyTorch's users compute with.
#pragma once

#include "ballast/params/param_source.h"

namespace ballast {

// The same source, but tensors of f64 are f32, rounded when they are read. A source without any comes back as it is.
std::shared_ptr<const ParamSource> narrow_f64_params(std::shared_ptr<const ParamSource> source);

}  // namespace ballast
