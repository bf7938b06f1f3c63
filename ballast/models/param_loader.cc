#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/models/model.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

// Dot-joined segments of ASCII, none of them empty.
bool is_param_name(std::string_view name) {
  return !name.empty() && is_ascii(name) && !name.starts_with('.') && !name.ends_with('.') &&
         name.find("..") == std::string_view::npos;
}

}  // namespace

bool ParamLoader::has(std::string_view name) const {
  return store_ != nullptr && store_->source().find(name).has_value();
}

void ParamLoader::pass_over(std::string_view beginning) {
  if (store_ == nullptr) return;
  for (const TensorInfo& info : store_->source().params()) {
    if (info.name.starts_with(beginning)) passed_over_.push_back(info.name);
  }
}

Status ParamLoader::check_name(const std::string& name) const {
  if (!is_param_name(name)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("\"{}\" is no parameter name: it needs ASCII segments with dots between them", name));
  }
  if (seen_.contains(name)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("the model takes parameter \"{}\" twice", name));
  }
  return {};
}

Result<Param> ParamLoader::get_rank(const std::string& name, size_t rank) {
  BALLAST_CHECK(check_name(name));
  if (store_ == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("the shape of parameter \"{}\" does not follow from the model's config", name));
  }
  BALLAST_TRY(const Param param, store_->get(name));
  if (param.shape().rank() != rank) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: parameter \"{}\" has shape {}, the model needs {} dimensions",
                                  store_->source().name(), name, param.shape().to_string(), rank));
  }
  if (is_block(param.dtype()) && !can_dequantize(param.dtype())) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: parameter \"{}\" is {}, a type that is carried but not computed with",
                                  store_->source().name(), name, dtype_name(param.dtype())));
  }
  taken_.push_back(name);
  seen_.insert(name);
  return param;
}

Result<Param> ParamLoader::get(const std::string& name, const Dims& dims) {
  if (wanted_ != nullptr) {
    BALLAST_CHECK(check_name(name));
    wanted_->push_back({name, dims});
    seen_.insert(name);
    return Param();
  }
  BALLAST_TRY(const Param param, get_rank(name, dims.rank()));
  if (std::ranges::equal(param.shape().dims(), dims.span())) return param;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: parameter \"{}\" has shape {}, the model's config asks for {}",
                                store_->source().name(), name, param.shape().to_string(), dims.to_string()));
}

}  // namespace ballast
