#include "ballast/nn/state_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ballast/tensor/cast.h"

namespace ballast::nn {

namespace {

struct Load {
  const Param* param;
  const NamedTensor* tensor;
};

struct StateMatching {
  std::vector<Load> loads;
  StateReport report;
};

Result<StateMatching> match_state(std::span<const Param> params, const StateDict& state) {
  std::map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : state) {
    if (!by_name.emplace(tensor.info.name, &tensor).second) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("two tensors are called \"{}\"", tensor.info.name));
    }
  }
  StateMatching matching;
  for (const Param& param : params) {
    const auto found = by_name.find(param.name());
    if (found == by_name.end()) {
      matching.report.missing.push_back(param.name());
      continue;
    }
    const NamedTensor& tensor = *found->second;
    if (tensor.info.shape == param.shape()) matching.loads.push_back({&param, &tensor});
    else matching.report.mismatched.push_back({param.name(), param.shape(), tensor.info.shape});
    by_name.erase(found);
  }
  for (const NamedTensor& tensor : state) {
    if (by_name.contains(tensor.info.name)) matching.report.unexpected.push_back(tensor.info.name);
  }
  return matching;
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back("\"" + name + "\"");
  return fmt::format("{}", fmt::join(texts, ", "));
}

Status judge_state(const StateReport& report, const StateOptions& options) {
  std::vector<std::string> problems;
  if (!options.keep_mismatched) {
    for (const ShapeMismatch& mismatch : report.mismatched) problems.push_back(mismatch_text(mismatch));
  }
  const bool shapes = !problems.empty();
  if (options.strict && !report.missing.empty()) problems.push_back("missing: " + quoted_names(report.missing));
  if (options.strict && !report.unexpected.empty())
    problems.push_back("unexpected: " + quoted_names(report.unexpected));
  if (problems.empty()) return {};
  return make_error(shapes ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound,
                    fmt::format("{}", fmt::join(problems, "; ")));
}

// Of each tensor that needs another type, so that a value which has no place there is found before anything changes.
Result<std::vector<ByteVector>> cast_all(const std::vector<Load>& loads) {
  std::vector<ByteVector> casts(loads.size());
  for (size_t i = 0; i < loads.size(); ++i) {
    const TensorInfo& info = loads[i].tensor->info;
    const Param& param = *loads[i].param;
    if (info.dtype == param.dtype()) continue;
    if (!can_cast(info.dtype, param.dtype())) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is {}, which cannot become {}", info.name,
                                                                 info.type_name(), dtype_name(param.dtype())));
    }
    casts[i].resize(static_cast<size_t>(param.info().byte_size));
    auto done = cast_elements(info.dtype, loads[i].tensor->bytes, param.dtype(), casts[i]);
    if (!done) return std::move(done).error().with_context(fmt::format("\"{}\"", info.name));
  }
  return casts;
}

}  // namespace

std::string mismatch_text(const ShapeMismatch& mismatch) {
  return fmt::format("\"{}\" has shape {} in the model and {} in the file", mismatch.name,
                     mismatch.in_model.to_string(), mismatch.in_state.to_string());
}

Result<StateReport> load_tensors(std::span<const Param> params, TrainedParams& memory, const StateDict& state,
                                 const StateOptions& options) {
  BALLAST_TRY(StateMatching matching, match_state(params, state));
  BALLAST_CHECK(judge_state(matching.report, options));
  BALLAST_TRY(const std::vector<ByteVector> casts, cast_all(matching.loads));
  for (size_t i = 0; i < matching.loads.size(); ++i) {
    const auto& [param, tensor] = matching.loads[i];
    const ByteSpan source = param->dtype() == tensor->info.dtype ? tensor->bytes : ByteSpan(casts[i]);
    if (!source.empty()) std::memcpy(memory.bytes(param->index()).data(), source.data(), source.size());
  }
  return std::move(matching.report);
}

}  // namespace ballast::nn
