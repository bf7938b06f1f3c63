#include "ballast/edit/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/archive/cast_tensor.h"
#include "ballast/archive/pattern.h"
#include "ballast/edit/quantize_presets.h"
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
    {"(?i)(^|[._])(position_embd|pos_embd|wpe|(position|pos)_embeddings?)([._]|$)", "position embeddings"},
    {"(^|[._])(token_types|token_type_embeddings)\\.weight$", "token types"},
    {"ffn_gate_inp|(moe|mlp)\\.(gate|router)\\.weight$", "chooses among experts"},
};

// Where rows are no whole number of blocks: what comes near in size and has smaller ones.
struct StandIn {
  DType type;
  DType instead;
};
constexpr StandIn kStandIns[] = {{DType::kQ2K, DType::kQ4_0},
                                 {DType::kQ3K, DType::kQ4_0},
                                 {DType::kQ4K, DType::kQ5_0},
                                 {DType::kQ5K, DType::kQ5_1},
                                 {DType::kQ6K, DType::kQ8_0}};

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

  Status prepare(const Description& model) {
    if (options_.preset != nullptr) {
      BALLAST_TRY(QuantizationMixture mixture,
                  QuantizationMixture::make(*options_.preset, model, options_.importance != nullptr));
      mixture_.emplace(std::move(mixture));
    } else if (!can_quantize(options_.type) && !is_castable_float(options_.type)) {
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
    const bool unpacks = rule != nullptr && can_dequantize(tensor.dtype);
    if (is_block(tensor.dtype) && !unpacks) return Decision{tensor.dtype, "quantised already"};
    if (!is_castable_float(tensor.dtype) && !unpacks) return Decision{tensor.dtype, "no floating type"};
    if (rule != nullptr && !is_block(*rule->type)) return Decision{*rule->type, ""};
    if (tensor.shape.rank() < 2) return Decision{tensor.dtype, "no matrix"};
    if (rule != nullptr) return fitting(tensor, *rule->type);
    BALLAST_TRY(std::string reason, why_left_alone(tensor));
    if (!reason.empty()) return Decision{tensor.dtype, std::move(reason)};
    DType wanted = options_.type;
    if (mixture_) BALLAST_CHECK(assign(wanted, mixture_->type_of(tensor.name)));
    if (wanted == tensor.dtype) return Decision{wanted, "has that type"};
    return is_block(wanted) ? fitting(tensor, wanted) : Decision{wanted, ""};
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
  std::optional<QuantizationMixture> mixture_;
  std::vector<Pattern> rules_;
  std::vector<Pattern> left_alone_;
};

// One tensor on its way into blocks.
struct QuantizeTask {
  DType to;
  unsigned threads;
  size_t place;  // in the log, which gets the error when the tensor is drawn
  std::shared_ptr<QuantizationLog> log;
  std::shared_ptr<const std::vector<float>> weights;  // null: all values alike
};

// The tensor is f32. Its provider gives blocks from now on.
void quantize_tensor(WritePlan& plan, size_t index, QuantizeTask task) {
  TensorInfo& info = plan.description.tensors[index];
  info.dtype = task.to;
  info.byte_size = packed_size(info.shape, task.to).value_or(0);
  info.set_stored_form({});
  plan.providers[index] = [draw = std::move(plan.providers[index]), task = std::move(task), name = info.name,
                           shape = info.shape](ByteSink& sink) -> Status {
    QuantizeSink blocks(task.to, name, task.threads, sink);
    if (task.weights) blocks.weigh(*task.weights, shape);
    BALLAST_CHECK(draw(blocks));
    BALLAST_CHECK(blocks.finish());
    task.log->set(task.place, blocks.error());
    return {};
  };
}

// Null where nothing is known of the tensor.
Result<std::shared_ptr<const std::vector<float>>> weights_for(const QuantizeOptions& options, const TensorInfo& info) {
  std::shared_ptr<const std::vector<float>> none;
  if (!options.importance) return none;
  const auto found = options.importance->find(info.name);
  if (found == options.importance->end()) return none;
  BALLAST_TRY(std::vector<float> weights, importance_weights(found->second, info));
  return std::make_shared<const std::vector<float>>(std::move(weights));
}

Status change_type(WritePlan& plan, size_t index, Decision decision, const QuantizeOptions& options,
                   const std::shared_ptr<QuantizationLog>& log) {
  const TensorInfo& info = plan.description.tensors[index];
  const uint64_t after = decision.to == info.dtype ? info.byte_size : packed_size(info.shape, decision.to).value_or(0);
  const bool quantizes = decision.to != info.dtype && is_block(decision.to);
  std::shared_ptr<const std::vector<float>> weights;
  if (quantizes) BALLAST_CHECK(assign(weights, weights_for(options, info)));
  const size_t place = log->add({info.name, info.shape, info.dtype, decision.to, info.byte_size, after,
                                 std::move(decision.note), weights != nullptr, std::nullopt});
  if (decision.to == info.dtype) return {};
  const DType first = quantizes ? DType::kF32 : decision.to;
  if (info.dtype != first) BALLAST_CHECK(cast_tensor(plan, index, first));
  if (quantizes) quantize_tensor(plan, index, {decision.to, options.threads, place, log, std::move(weights)});
  return {};
}

// One that fits nothing is of another model, and would go unnoticed.
Status check_importance_was_used(const QuantizeOptions& options, const QuantizationLog& log) {
  if (!options.importance) return {};
  const std::vector<TensorQuantization> tensors = log.tensors();
  const auto quantizes = [](const TensorQuantization& tensor) {
    return tensor.from != tensor.to && is_block(tensor.to);
  };
  if (std::ranges::none_of(tensors, quantizes) || std::ranges::any_of(tensors, &TensorQuantization::is_calibrated)) {
    return {};
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the importance matrix names none of the model's tensors; it has \"{}\"",
                                options.importance->empty() ? "" : options.importance->begin()->first));
}

// ---------------------------------------------------------------- metadata

constexpr std::string_view kArchitectureKey = "general.architecture";
constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kQuantizationVersionKey = "general.quantization_version";
constexpr uint64_t kQuantizationVersion = 2;  // of ggml's block types as they are since 2023

void set_number(Description& description, std::string_view key, uint64_t number) {
  const auto found = std::ranges::find(description.metadata, key, &MetaEntry::key);
  if (found != description.metadata.end()) found->value = number;
  else description.metadata.push_back({std::string(key), number});
}

// What most of the tensors are now, for programs that show it; only where GGUF's metadata describes the model.
void tell_file_type(Description& description, const QuantizeOptions& options) {
  const auto& presets = all_quantization_presets();
  const bool is_gguf =
      std::ranges::find(description.metadata, kArchitectureKey, &MetaEntry::key) != description.metadata.end();
  const auto plain = std::ranges::find(presets, options.type, &QuantizationPreset::base);
  const QuantizationPreset* const preset =
      options.preset != nullptr ? options.preset : (plain != presets.end() ? &*plain : nullptr);
  if (!is_gguf || preset == nullptr) return;
  set_number(description, kFileTypeKey, preset->file_type);
  if (is_block(preset->base)) set_number(description, kQuantizationVersionKey, kQuantizationVersion);
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
  const auto type = find_quantization_type(name);
  if (type && equals != 0) return TypeRule{text.substr(0, equals), type};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("\"{}\": write REGEX=TYPE with one of {}, f32, f16, bf16, f64, or same", text,
                                names_of_quantized_types()));
}

PlanEdit quantize_tensors(QuantizeOptions options, std::shared_ptr<QuantizationLog> log) {
  return [options = std::move(options), log = std::move(log)](WritePlan& plan, std::vector<std::string>&) -> Status {
    QuantizePlanner planner(options);
    BALLAST_CHECK(planner.prepare(plan.description));
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
      BALLAST_TRY(Decision decision, planner.decide(plan.description.tensors[i]));
      BALLAST_CHECK(change_type(plan, i, std::move(decision), options, log));
    }
    BALLAST_CHECK(check_importance_was_used(options, *log));
    tell_file_type(plan.description, options);
    return {};
  };
}

Result<std::vector<DType>> plan_quantized_types(const QuantizeOptions& options, const Description& model) {
  QuantizePlanner planner(options);
  BALLAST_CHECK(planner.prepare(model));
  std::vector<DType> types;
  for (const TensorInfo& tensor : model.tensors) {
    BALLAST_TRY(const Decision decision, planner.decide(tensor));
    types.push_back(decision.to);
  }
  return types;
}

PlanEdit dequantize_tensors(DType to, std::shared_ptr<CastLog> log) {
  return [to, log = std::move(log)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    size_t count = 0;
    for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
      if (!is_block(plan.description.tensors[i].dtype)) continue;
      BALLAST_CHECK(cast_logged(plan, i, to, log));
      ++count;
    }
    // A model that changed its form has been unpacked on the way.
    const auto tells_it = [](const std::string& note) { return note.starts_with("dequantised to "); };
    if (count == 0 && std::ranges::any_of(notes, tells_it)) return {};
    notes.push_back(
        fmt::format("dequantised to {}: {} of {} tensors", dtype_name(to), count, plan.description.tensors.size()));
    return {};
  };
}

}  // namespace ballast
