#include "ballast/edit/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/archive/cast_tensor.h"
#include "ballast/archive/pattern.h"
#include "ballast/edit/quantize_sink.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

// What is small or sensitive and is left alone by every program that quantises.
struct LeftAlone {
  const char* pattern;
  const char* reason;
};
constexpr LeftAlone kLeftAlone[] = {
    {"(?i)norm", "a norm"},
    {"(?i)(^|[._])(position_embd|pos_embd|wpe|position_embeddings?)([._]|$)", "position embeddings"},
    {"ffn_gate_inp|(moe|mlp)\\.(gate|router)\\.weight$", "chooses among experts"},
};

// Where rows are no whole number of blocks: what comes near in size and has smaller ones.
struct StandIn {
  DType type;
  DType instead;
};
constexpr StandIn kStandIns[] = {{DType::kQ4K, DType::kQ5_0}, {DType::kQ5K, DType::kQ5_1}, {DType::kQ6K, DType::kQ8_0}};

// What becomes of a tensor, and why, where that is not what was asked for.
struct Decision {
  DType to;
  std::string note;
};

std::string names_of_quantized_types() {
  std::vector<std::string_view> names;
  for (const DTypeInfo& row : all_dtypes()) {
    if (can_quantize(row.dtype)) names.push_back(row.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

class QuantizePlanner {
 public:
  explicit QuantizePlanner(const QuantizeOptions& options) : options_(options) {}

  Status prepare() {
    if (!can_quantize(options_.type)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{} is not among the types that tensors can be quantised to: {}",
                                    dtype_name(options_.type), names_of_quantized_types()));
    }
    for (const TypeRule& rule : options_.rules) {
      BALLAST_TRY(Pattern pattern, Pattern::compile(rule.pattern));
      rules_.push_back(std::move(pattern));
    }
    for (const LeftAlone& row : kLeftAlone) {
      BALLAST_TRY(Pattern pattern, Pattern::compile(row.pattern));
      left_alone_.push_back(std::move(pattern));
    }
    return {};
  }

  Result<Decision> decide(const TensorInfo& tensor) const {
    BALLAST_TRY(const TypeRule* const rule, find_rule(tensor));
    if (rule != nullptr && !rule->type) return Decision{tensor.dtype, "kept as asked"};
    const DType wanted = rule != nullptr ? *rule->type : options_.type;
    const bool unpacks = rule != nullptr && can_dequantize(tensor.dtype);
    if (is_block(tensor.dtype) && !unpacks) return Decision{tensor.dtype, "quantised already"};
    if (!is_castable_float(tensor.dtype) && !unpacks) return Decision{tensor.dtype, "no floating type"};
    if (!is_block(wanted)) return Decision{wanted, ""};
    if (tensor.shape.rank() < 2) return Decision{tensor.dtype, "no matrix"};
    if (rule == nullptr) {
      BALLAST_TRY(std::string reason, why_left_alone(tensor));
      if (!reason.empty()) return Decision{tensor.dtype, std::move(reason)};
    }
    return fitting(tensor, wanted);
  }

 private:
  Result<const TypeRule*> find_rule(const TensorInfo& tensor) const {
    for (size_t i = 0; i < rules_.size(); ++i) {
      BALLAST_TRY(const bool found, rules_[i].found_in(tensor.name));
      if (found) return &options_.rules[i];
    }
    return nullptr;
  }

  Result<std::string> why_left_alone(const TensorInfo& tensor) const {
    for (size_t i = 0; i < left_alone_.size(); ++i) {
      BALLAST_TRY(const bool found, left_alone_[i].found_in(tensor.name));
      if (found) return std::string(kLeftAlone[i].reason);
    }
    return std::string();
  }

  static Decision fitting(const TensorInfo& tensor, DType wanted) {
    const uint64_t row = tensor.shape[tensor.shape.rank() - 1];
    const auto divides = [row](DType type) { return row % dtype_info(type).block_elements == 0; };
    if (divides(wanted)) return {wanted, ""};
    const std::string why = fmt::format("rows of {} are no whole blocks of {}", row, dtype_info(wanted).block_elements);
    const auto* const found = std::ranges::find(kStandIns, wanted, &StandIn::type);
    if (found != std::end(kStandIns) && divides(found->instead)) return {found->instead, why};
    return {tensor.dtype, why};
  }

  const QuantizeOptions& options_;
  std::vector<Pattern> rules_;
  std::vector<Pattern> left_alone_;
};

// The tensor is f32. Its provider gives blocks from now on, and `place` of the log gets the error when it is drawn.
void quantize_tensor(WritePlan& plan, size_t index, DType to, unsigned threads, std::shared_ptr<QuantizationLog> log,
                     size_t place) {
  TensorInfo& info = plan.description.tensors[index];
  info.dtype = to;
  info.byte_size = packed_size(info.shape, to).value_or(0);
  info.set_stored_form({});
  plan.providers[index] = [draw = std::move(plan.providers[index]), to, threads, name = info.name, log = std::move(log),
                           place](ByteSink& sink) -> Status {
    QuantizeSink blocks(to, name, threads, sink);
    BALLAST_CHECK(draw(blocks));
    BALLAST_CHECK(blocks.finish());
    log->set(place, blocks.error());
    return {};
  };
}

Status change_type(WritePlan& plan, size_t index, Decision decision, unsigned threads,
                   const std::shared_ptr<QuantizationLog>& log) {
  const TensorInfo& info = plan.description.tensors[index];
  const uint64_t after = decision.to == info.dtype ? info.byte_size : packed_size(info.shape, decision.to).value_or(0);
  const size_t place = log->add(
      {info.name, info.shape, info.dtype, decision.to, info.byte_size, after, std::move(decision.note), std::nullopt});
  if (decision.to == info.dtype) return {};
  const DType first = is_block(decision.to) ? DType::kF32 : decision.to;
  if (info.dtype != first) BALLAST_CHECK(cast_tensor(plan, index, first));
  if (is_block(decision.to)) quantize_tensor(plan, index, decision.to, threads, log, place);
  return {};
}

}  // namespace

double QuantizationError::rmse() const {
  return count == 0 ? 0 : std::sqrt(squared_error / static_cast<double>(count));
}

double QuantizationError::relative() const {
  return squared_values == 0 ? 0 : std::sqrt(squared_error / squared_values);
}

void QuantizationError::merge(const QuantizationError& other) {
  count += other.count;
  squared_error += other.squared_error;
  squared_values += other.squared_values;
  max_abs = std::max(max_abs, other.max_abs);
}

std::vector<TensorQuantization> QuantizationLog::tensors() const {
  const std::lock_guard lock(mutex_);
  return tensors_;
}

size_t QuantizationLog::add(TensorQuantization tensor) {
  const std::lock_guard lock(mutex_);
  tensors_.push_back(std::move(tensor));
  return tensors_.size() - 1;
}

void QuantizationLog::set(size_t tensor, const QuantizationError& error) {
  const std::lock_guard lock(mutex_);
  tensors_[tensor].error = error;
}

Result<TypeRule> parse_type_rule(const std::string& text) {
  const size_t equals = text.rfind('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals != std::string::npos && equals != 0 && name == "same") return TypeRule{text.substr(0, equals), {}};
  const auto type = parse_dtype(name);
  const bool known = type && (can_quantize(*type) || is_castable_float(*type)) && type != DType::kFlex32;
  if (known && equals != 0) return TypeRule{text.substr(0, equals), type};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("\"{}\": write REGEX=TYPE with one of {}, f32, f16, bf16, f64, or same", text,
                                names_of_quantized_types()));
}

PlanEdit quantize_tensors(QuantizeOptions options, std::shared_ptr<QuantizationLog> log) {
  return [options = std::move(options), log = std::move(log)](WritePlan& plan, std::vector<std::string>&) -> Status {
    QuantizePlanner planner(options);
    BALLAST_CHECK(planner.prepare());
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
      BALLAST_TRY(Decision decision, planner.decide(plan.description.tensors[i]));
      BALLAST_CHECK(change_type(plan, i, std::move(decision), options.threads, log));
    }
    return {};
  };
}

PlanEdit dequantize_tensors(DType to, std::shared_ptr<CastLog> log) {
  return [to, log = std::move(log)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    size_t count = 0;
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
      if (!is_block(plan.description.tensors[i].dtype)) continue;
      BALLAST_CHECK(cast_logged(plan, i, to, log));
      ++count;
    }
    notes.push_back(
        fmt::format("dequantised to {}: {} of {} tensors", dtype_name(to), count, plan.description.tensors.size()));
    return {};
  };
}

}  // namespace ballast
