#include "ballast/training/model_ema.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"
#include "ballast/tensor/cast.h"
#include "ballast/training/json_values.h"

namespace ballast {

Result<std::unique_ptr<ModelEma>> ModelEma::make(const ModelEmaConfig& config, TrainedParams& memory,
                                                 std::vector<Param> params) {
  return guarded([&]() -> Result<std::unique_ptr<ModelEma>> {
    if (!(config.decay >= 0 && config.decay <= 1)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the decay is {} and must be from 0 to 1", config.decay));
    }
    std::unique_ptr<ModelEma> average(new ModelEma(config, memory, std::move(params)));
    for (size_t i = 0; i < average->params_.size(); ++i) {
      TensorInfo info;
      info.name = fmt::format("ema.{}", average->params_[i].name());
      info.shape = average->params_[i].shape();
      BALLAST_TRY([[maybe_unused]] const size_t index, average->shadow_.add(std::move(info)));
      average->values_.resize(std::max(average->values_.size(), average->shadow_.values<float>(i).size()));
    }
    for (size_t i = 0; i < average->params_.size(); ++i) {
      BALLAST_TRY(const std::span<const float> values, average->values_of(i));
      std::ranges::copy(values, average->shadow_.values<float>(i).begin());
    }
    return average;
  });
}

// Until the next call: they lie where all do.
Result<std::span<const float>> ModelEma::values_of(size_t param) {
  const Param& source = params_[param];
  const auto values = std::span(values_).first(shadow_.values<float>(param).size());
  BALLAST_TRY([[maybe_unused]] const CastReport report, cast_elements(source.dtype(), memory_.bytes(source.index()),
                                                                      DType::kF32, std::as_writable_bytes(values)));
  return std::span<const float>(values);
}

Status ModelEma::update() {
  return guarded([&]() -> Status {
    const auto n = static_cast<double>(updates_);
    const double decay = config_.warmup ? std::min(config_.decay, (1 + n) / (10 + n)) : config_.decay;
    const auto keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
    for (size_t i = 0; i < params_.size(); ++i) {
      BALLAST_TRY(const std::span<const float> values, values_of(i));
      const std::span<float> shadow = shadow_.values<float>(i);
      for (size_t j = 0; j < values.size(); ++j) shadow[j] = keep * shadow[j] + take * values[j];
    }
    ++updates_;
    return {};
  });
}

Status ModelEma::swap() {
  for (size_t i = 0; i < params_.size(); ++i) {
    BALLAST_TRY(const std::span<const float> values, values_of(i));
    BALLAST_TRY([[maybe_unused]] const CastReport report,
                cast_elements(DType::kF32, shadow_.bytes(i), params_[i].dtype(), memory_.bytes(params_[i].index())));
    std::ranges::copy(values, shadow_.values<float>(i).begin());
  }
  return {};
}

std::vector<StateTensor> ModelEma::state_tensors() {
  std::vector<StateTensor> tensors;
  for (size_t i = 0; i < params_.size(); ++i) tensors.push_back({shadow_.params()[i], shadow_.bytes(i)});
  return tensors;
}

std::string ModelEma::scalars_json() const {
  return fmt::format("{{\"decay\": {}, \"warmup\": {}, \"step_count\": {}}}", python_real(config_.decay),
                     config_.warmup, updates_);
}

std::string ModelEma::state_dict() const {
  std::string out = scalars_json();
  out.pop_back();
  out += ", \"shadow\": [";
  for (size_t i = 0; i < params_.size(); ++i) {
    if (i > 0) out += ", ";
    append_nested(out, params_[i].shape(), shadow_.values<float>(i));
  }
  return out + "]}";
}

Status ModelEma::load_scalars(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the average's state"));
    BALLAST_TRY(const auto decay, object.find_real("decay"));
    BALLAST_TRY(const auto warmup, object.find_truth("warmup"));
    BALLAST_TRY(const auto count, object.find_count("step_count"));
    if (!decay || !warmup || !count) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the average's state: \"decay\", \"warmup\" and \"step_count\" are needed");
    }
    config_ = {*decay, *warmup};
    updates_ = *count;
    return {};
  });
}

Status ModelEma::load_state_dict(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the average's state"));
    const auto raw = object.find("shadow");
    const auto wrong = [&] {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the average's state: \"shadow\" must be a list of {} arrays", params_.size()));
    };
    if (!raw) return wrong();
    JsonReader list(*raw, "the average's state", 0, JsonReader::Dialect::kPython);
    std::vector<std::vector<float>> all;
    if (!list.enter_array()) return wrong();
    for (;;) {
      const auto more = list.next_element();
      if (!more || *more != (all.size() < params_.size())) return wrong();
      if (!*more) break;
      const size_t i = all.size();
      all.emplace_back(shadow_.values<float>(i).size());
      BALLAST_CHECK(read_nested(list, params_[i].shape(), all.back(), shadow_.params()[i].name));
    }
    BALLAST_CHECK(load_scalars(json));
    for (size_t i = 0; i < all.size(); ++i) std::ranges::copy(all[i], shadow_.values<float>(i).begin());
    return {};
  });
}

}  // namespace ballast
