#include "ballast/archive/cast_tensor.h"

#include <fmt/format.h>

#include "ballast/tensor/cast_sink.h"

namespace ballast {

Status cast_tensor(WritePlan& plan, size_t index, DType to, CastDone done) {
  TensorInfo& info = plan.description.tensors[index];
  const DType from = info.dtype;
  const auto size = packed_size(info.shape, to);
  if (const Status known = check_cast(from, to); !known) {
    return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\": {}", info.name, known.error().message));
  }
  if (!size) {
    return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\": {} {} cannot become {}", info.name,
                                                           dtype_name(from), info.shape.to_string(), dtype_name(to)));
  }
  info.dtype = to;
  info.byte_size = *size;
  info.set_stored_form({});
  plan.providers[index] = [draw = std::move(plan.providers[index]), from, to,
                           done = std::move(done)](ByteSink& sink) -> Status {
    CastSink cast(from, to, sink);
    BALLAST_CHECK(draw(cast));
    BALLAST_CHECK(cast.finish());
    if (done) done(cast.report());
    return {};
  };
  return {};
}

}  // namespace ballast
