// Models of layers: classifiers of pictures and of rows of numbers.
#include <fmt/format.h>

#include <cstring>

#include "ballast/device/host_values.h"
#include "ballast/nn/layer.h"
#include "bindings/wasm/run/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kMostInput = uint64_t{1} << 24;  // numbers

Result<const LayeredModel*> layered(const Session& session) {
  const LayeredModel* const model = session.model ? session.model->as_layered() : nullptr;
  if (model != nullptr) return model;
  return make_error(ErrorCode::kInvalidArgument, "no model of layers is open");
}

Result<Dims> input_dims(const LayeredModel& model) {
  const auto shape = model.input_shape();
  if (!shape) return make_error(ErrorCode::kUnsupported, "neither the file nor its layers say what the model takes");
  std::vector<uint64_t> sizes = {1};
  uint64_t count = 1;
  for (const uint64_t size : *shape) {
    sizes.push_back(size);
    count = size == 0 || size > kMostInput / count ? 0 : count * size;
    if (count == 0 || sizes.size() > Dims::kMaxRank) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("the model takes [{}]: at most {} numbers can be given here",
                                    fmt::join(*shape, ", "), kMostInput));
    }
  }
  return Dims(sizes);
}

// The output of each layer, without the batch.
Status run_watched(Session& session, const LayeredModel& model, const Dims& dims, Answer& answer) {
  Context& context = session.model->context();
  BALLAST_TRY(const Tensor x, context.workspace().from(session.input, dims));
  answer.json.key("layers").begin_array();
  const auto watch = [&](size_t layer, const Tensor& output) -> Status {
    BALLAST_TRY(const std::vector<float> values, floats_of(output));
    const std::string& type = model.layers()[layer]->type();
    answer.json.begin_object().key("name").string(fmt::format("{}.{}", layer, type)).key("kind").string(type);
    answer.json.key("shape").numbers(output.dims().span().subspan(1)).end_object();
    const ByteSpan bytes = std::as_bytes(std::span(values));
    answer.bytes.insert(answer.bytes.end(), bytes.begin(), bytes.end());
    return {};
  };
  BALLAST_TRY([[maybe_unused]] const Tensor y, model.forward_watched(context, x, watch));
  answer.json.end_array();
  return {};
}

}  // namespace

Status open_layers_call(Session& session, const JsonObject& /*request*/, Answer& answer) {
  BALLAST_CHECK(open_model(session, take_files(session)));
  if (session.model->as_layered() == nullptr) return session.model->cannot("being looked at layer by layer");
  BALLAST_TRY(const LayeredModel* model, layered(session));
  BALLAST_TRY(const Dims dims, input_dims(*model));
  session.input.assign(static_cast<size_t>(dims.count()), 0);
  answer.json.key("inputShape").numbers(dims.span().subspan(1));
  answer.json.key("classes").begin_array();
  for (const std::string& name : session.model->class_names()) answer.json.string(name);
  answer.json.end_array();
  BALLAST_CHECK(run_watched(session, *model, dims, answer));  // its layers say what shapes they have
  answer.bytes.clear();
  return {};
}

Status run_layers_call(Session& session, const JsonObject& request, Answer& answer) {
  BALLAST_TRY(const LayeredModel* model, layered(session));
  BALLAST_TRY(const std::vector<double> values, request.numbers("input"));
  if (values.size() != session.input.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the model takes {} numbers, not {}", session.input.size(), values.size()));
  }
  session.input.assign(values.begin(), values.end());
  BALLAST_TRY(const Dims dims, input_dims(*model));
  return run_watched(session, *model, dims, answer);
}

}  // namespace ballast::wasm
