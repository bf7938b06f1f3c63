#include "ballast/edit/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ballast/archive/digest.h"
#include "ballast/edit/batch_norm.h"
#include "ballast/edit/huggingface_config.h"
#include "ballast/edit/name_groups.h"
#include "ballast/edit/tensor_stream.h"
#include "ballast/edit/transpose.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr std::string_view kGptrsSchema = "gptrs";
constexpr std::string_view kGptrsFormat = "gptrs-checkpoint";

// Without it transformers 4 refuses a safetensors file that has any metadata.
MetaEntry torch_mark() { return {"format", std::string("pt")}; }

std::string_view change_name(NameChange change) {
  switch (change) {
    case NameChange::kCopy: return "copied";
    case NameChange::kTranspose:
    case NameChange::kHead: return "transposed";
    case NameChange::kJoin: return "joined and transposed";
    case NameChange::kLinear: return "copied as [out, in]";
    case NameChange::kFold: return "batch norm folded";
  }
  return "";
}

// ---------------------------------------------------------------- tensors

PlannedTensor renamed(PlannedTensor tensor, std::string name) {
  tensor.info.name = std::move(name);
  return tensor;
}

Error wrong_shape(const TensorInfo& tensor, std::string_view wanted) {
  return make_error(ErrorCode::kUnsupported, fmt::format("tensor \"{}\" is {} {}; {}", tensor.name,
                                                         dtype_name(tensor.dtype), tensor.shape.to_string(), wanted));
}

Status check_matrix(const TensorInfo& tensor) {
  if (can_transpose(tensor)) return {};
  return wrong_shape(tensor, "a matrix of elements of whole bytes is needed");
}

size_t element_bytes(const TensorInfo& tensor) { return dtype_info(tensor.dtype).bits / 8; }

using Gate = std::shared_ptr<MemoryGate>;

Result<PlannedTensor> transpose(PlannedTensor tensor, const Gate& gate) {
  BALLAST_CHECK(check_matrix(tensor.info));
  const uint64_t rows = tensor.info.shape[0];
  const uint64_t columns = tensor.info.shape[1];
  tensor.info.shape = Shape{columns, rows};
  tensor.provider = transposed(std::move(tensor.provider), rows, columns, element_bytes(tensor.info), gate);
  return tensor;
}

// Columns [begin, end) of a matrix, which become rows.
Result<PlannedTensor> transpose_columns(PlannedTensor tensor, uint64_t begin, uint64_t end, const Gate& gate) {
  BALLAST_CHECK(check_matrix(tensor.info));
  const uint64_t bytes = element_bytes(tensor.info);
  const uint64_t rows = tensor.info.shape[0];
  const uint64_t columns = tensor.info.shape[1];
  tensor.provider = row_ranges(std::move(tensor.provider), columns * bytes, begin * bytes, end * bytes);
  tensor.info.shape = Shape{rows, end - begin};
  tensor.info.byte_size = rows * (end - begin) * bytes;
  return transpose(std::move(tensor), gate);
}

// Matrices of the same width under each other.
Result<PlannedTensor> stack(std::vector<PlannedTensor> parts) {
  PlannedTensor whole = parts.front();
  uint64_t rows = 0;
  uint64_t bytes = 0;
  std::vector<TensorProvider> providers;
  for (PlannedTensor& part : parts) {
    BALLAST_CHECK(check_matrix(part.info));
    if (part.info.dtype != whole.info.dtype || part.info.shape[1] != whole.info.shape[1]) {
      return wrong_shape(part.info, fmt::format("it is to be joined with \"{}\", which is {} {}", whole.info.name,
                                                dtype_name(whole.info.dtype), whole.info.shape.to_string()));
    }
    rows += part.info.shape[0];
    bytes += part.info.byte_size;
    providers.push_back(std::move(part.provider));
  }
  whole.info.shape = Shape{rows, whole.info.shape[1]};
  whole.info.byte_size = bytes;
  whole.info.param_id.reset();
  whole.provider = joined(std::move(providers));
  return whole;
}

// Whether both hold the same, found by their digests, so that only one is in memory at a time.
Result<bool> same_content(PlannedTensor a, PlannedTensor b) {
  if (a.info.dtype != b.info.dtype || !(a.info.shape == b.info.shape)) return false;
  WritePlan both;
  both.add_tensor(std::move(a.info), std::move(a.provider));
  both.add_tensor(std::move(b.info), std::move(b.provider));
  BALLAST_TRY(const auto digests, digest_plan(both, {.sha256 = false, .threads = 1, .progress = {}}));
  return digests[0].blake3 == digests[1].blake3;
}

// ---------------------------------------------------------------- what both directions share

class GptAdaptation {
 public:
  GptAdaptation(WritePlan& plan, NameGroups groups, Side from) : plan_(plan), groups_(std::move(groups)), from_(from) {
    for (size_t i = 0; i < tensors().size(); ++i) by_name_.push_back(i);
    std::ranges::sort(by_name_, {}, [&](size_t i) -> std::string_view { return tensors()[i].name; });
    report_.kind = groups_.kind->name;
    for (const size_t position : groups_.ignored) report_.ignored.push_back(tensors()[position].name);
  }
  virtual ~GptAdaptation() = default;

  // Builds the other side's tensors; `plan_` keeps its own until replace_plan.
  Status build() {
    BALLAST_CHECK(check_complete(groups_, tensors(), from_));
    for (const NameGroup& group : groups_.groups) {
      BALLAST_CHECK(convert(group));
      count(group);
    }
    std::ranges::sort(made_, {}, [](const PlannedTensor& tensor) -> std::string_view { return tensor.info.name; });
    return {};
  }

  void replace_plan() {
    plan_.description.tensors.clear();
    plan_.providers.clear();
    for (PlannedTensor& tensor : made_) plan_.add_tensor(std::move(tensor.info), std::move(tensor.provider));
  }

  HuggingFaceReport& report() { return report_; }
  const NameGroups& groups() const { return groups_; }
  const std::vector<PlannedTensor>& made() const { return made_; }

 protected:
  virtual Status convert(const NameGroup& group) = 0;

  const Gate& gate() const { return gate_; }
  const std::vector<TensorInfo>& tensors() const { return plan_.description.tensors; }
  PlannedTensor tensor(size_t position) const { return {tensors()[position], plan_.providers[position]}; }
  PlannedTensor slot(const NameGroup& group, size_t index) const { return tensor(*group.slots[index]); }
  std::optional<PlannedTensor> optional_slot(const NameGroup& group, size_t index) const {
    if (!group.slots[index]) return std::nullopt;
    return slot(group, index);
  }

  std::optional<size_t> find(std::string_view name) const {
    const auto found =
        std::ranges::lower_bound(by_name_, name, {}, [&](size_t i) -> std::string_view { return tensors()[i].name; });
    if (found == by_name_.end() || tensors()[*found].name != name) return std::nullopt;
    return *found;
  }

  std::string other_name(const NameGroup& group, size_t index = 0) const {
    const Side to = from_ == Side::kGptrs ? Side::kHuggingFace : Side::kGptrs;
    return fill_name(slot_patterns(*group.rule, groups_.style, to)[index].pattern, group.numbers);
  }

  void make(PlannedTensor tensor, std::string name) { made_.push_back(renamed(std::move(tensor), std::move(name))); }

 private:
  void count(const NameGroup& group) {
    const std::string gptrs(group.rule->gptrs);
    if (report_.mapped.empty() || report_.mapped.back().gptrs != gptrs) {
      MappedNames row{.gptrs = gptrs, .huggingface = {}, .change = std::string(change_name(group.rule->change))};
      for (const std::string_view name : group.rule->huggingface) {
        if (name.empty()) continue;
        const bool prefixed = name.starts_with('@');
        row.huggingface +=
            fmt::format("{}{}{}", row.huggingface.empty() ? "" : ", ",
                        prefixed ? groups_.style.prefix : std::string_view(), prefixed ? name.substr(1) : name);
      }
      report_.mapped.push_back(std::move(row));
    }
    report_.mapped.back().tensors += group.rule->change == NameChange::kFold ? 2 : 1;
  }

  WritePlan& plan_;
  NameGroups groups_;
  Side from_;
  Gate gate_ = std::make_shared<MemoryGate>();
  std::vector<size_t> by_name_;
  std::vector<PlannedTensor> made_;
  HuggingFaceReport report_;
};

// ---------------------------------------------------------------- gpt.rs -> Hugging Face

class ToHuggingFace final : public GptAdaptation {
 public:
  using GptAdaptation::GptAdaptation;

 private:
  Status convert(const NameGroup& group) override {
    switch (group.rule->change) {
      case NameChange::kCopy: make(slot(group, 0), other_name(group)); return {};
      case NameChange::kTranspose: return make_transposed(group);
      case NameChange::kHead: return make_head(group);
      case NameChange::kJoin: return split(group);
      case NameChange::kLinear: return make_linear(group);
      case NameChange::kFold: return unfold(group);
    }
    return {};
  }

  Status make_transposed(const NameGroup& group) {
    BALLAST_TRY(PlannedTensor turned, transpose(slot(group, 0), gate()));
    make(std::move(turned), other_name(group));
    return {};
  }

  Status make_head(const NameGroup& group) {
    BALLAST_TRY(PlannedTensor head, transpose(slot(group, 0), gate()));
    const auto embedding = find(group.rule->beside);
    if (embedding) BALLAST_CHECK(assign(report().tied, same_content(head, tensor(*embedding))));
    if (!report().tied) make(std::move(head), other_name(group));
    return {};
  }

  Status split(const NameGroup& group) {
    PlannedTensor joint = slot(group, 0);
    BALLAST_CHECK(check_matrix(joint.info));
    const TensorInfo& projection = tensors()[*find(fill_name(group.rule->beside, group.numbers))];
    BALLAST_CHECK(check_matrix(projection));
    const uint64_t all = joint.info.shape[1];
    const uint64_t queries = projection.shape[0];
    if (queries > all || (all - queries) % 2 != 0) {
      return wrong_shape(joint.info, fmt::format("beside \"{}\" of {} rows its columns cannot be queries, keys and "
                                                 "values",
                                                 projection.name, queries));
    }
    const uint64_t keys = (all - queries) / 2;
    const uint64_t bounds[] = {0, queries, queries + keys, all};
    for (size_t part = 0; part < 3; ++part) {
      BALLAST_TRY(PlannedTensor matrix, transpose_columns(joint, bounds[part], bounds[part + 1], gate()));
      make(std::move(matrix), other_name(group, part));
    }
    return {};
  }

  // gpt.rs takes either orientation and tells them apart by the bias.
  Status make_linear(const NameGroup& group) {
    PlannedTensor weight = slot(group, 0);
    BALLAST_CHECK(check_matrix(weight.info));
    const TensorInfo& bias = tensors()[*find(group.rule->beside)];
    if (bias.shape.rank() == 1 && weight.info.shape[0] != bias.shape[0]) return make_transposed(group);
    make(std::move(weight), other_name(group));
    return {};
  }

  Status unfold(const NameGroup& group) {
    PlannedTensor weight = slot(group, kFoldedWeight);
    const PlannedTensor bias = slot(group, kFoldedBias);
    const bool fits = bias.info.dtype == DType::kF32 && bias.info.shape.rank() == 1 && weight.info.shape.rank() == 4 &&
                      weight.info.shape[0] == bias.info.shape[0];
    if (!fits) return wrong_shape(bias.info, "the bias of a convolution is f32 and as long as it has channels");
    make(std::move(weight), other_name(group, kConvWeight));
    const std::string scale = other_name(group, kNormScale);
    for (PlannedTensor& part : make_identity_norm(scale.substr(0, scale.rfind('.')), bias)) {
      std::string name = part.info.name;
      make(std::move(part), std::move(name));
    }
    return {};
  }
};

// ---------------------------------------------------------------- Hugging Face -> gpt.rs

class ToGptrs final : public GptAdaptation {
 public:
  using GptAdaptation::GptAdaptation;

  // The output matrix, where the file leaves it to the embedding.
  Status make_tied_head() {
    for (const NameRule& rule : groups().kind->rules) {
      if (rule.change != NameChange::kHead) continue;
      const auto has_rule = [&](const NameGroup& group) { return group.rule == &rule; };
      if (std::ranges::any_of(groups().groups, has_rule)) return {};
      const auto embedding =
          std::ranges::find(groups().groups, rule.beside, [](const NameGroup& group) { return group.rule->gptrs; });
      if (embedding == groups().groups.end()) return {};  // check_complete names it
      BALLAST_TRY(PlannedTensor head, transpose(slot(*embedding, 0), gate()));
      make(std::move(head), std::string(rule.gptrs));
      report().tied = true;
    }
    return {};
  }

 private:
  Status convert(const NameGroup& group) override {
    PlannedTensor first = slot(group, 0);
    switch (group.rule->change) {
      case NameChange::kCopy:
      case NameChange::kLinear: break;
      case NameChange::kTranspose:
      case NameChange::kHead: BALLAST_CHECK(assign(first, transpose(std::move(first), gate()))); break;
      case NameChange::kJoin: BALLAST_CHECK(assign(first, join(group))); break;
      case NameChange::kFold: return fold(group);
    }
    make(std::move(first), other_name(group));
    return {};
  }

  Result<PlannedTensor> join(const NameGroup& group) const {
    const PlannedTensor keys = slot(group, 1);
    const PlannedTensor values = slot(group, 2);
    if (!(keys.info.shape == values.info.shape)) {
      return wrong_shape(values.info, fmt::format("\"{}\" is {}; gpt.rs wants keys and values of one size",
                                                  keys.info.name, keys.info.shape.to_string()));
    }
    BALLAST_TRY(PlannedTensor whole, stack({slot(group, 0), keys, values}));
    return transpose(std::move(whole), gate());
  }

  Status fold(const NameGroup& group) {
    const BatchNorm norm{slot(group, kNormScale), slot(group, kNormShift), slot(group, kNormMean),
                         slot(group, kNormVariance)};
    BALLAST_TRY(FoldedConvolution folded,
                fold_batch_norm(slot(group, kConvWeight), optional_slot(group, kConvBias), norm));
    make(std::move(folded.weight), other_name(group, kFoldedWeight));
    make(std::move(folded.bias), other_name(group, kFoldedBias));
    return {};
  }
};

// ---------------------------------------------------------------- the whole way

std::string kind_names() {
  std::string text;
  for (const NamedModel& kind : all_named_models()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kind.name, kind.described);
  }
  return text;
}

Status check_tensor_count(const NamedModel& kind, size_t tensors) {
  if (kind.tensors == 0 || kind.tensors == tensors) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("a {} has {} tensors in gpt.rs, this one has {}", kind.name, kind.tensors, tensors));
}

void note_result(const HuggingFaceReport& report, size_t before, size_t after, std::vector<std::string>& notes) {
  notes.push_back(fmt::format("recognised as {}: {} tensors become {}", report.kind, before, after));
  if (!report.ignored.empty()) {
    notes.push_back(fmt::format("{} buffers without weights are left out, \"{}\" first", report.ignored.size(),
                                report.ignored.front()));
  }
}

// A stored form of another format would mean nothing to the tensors that are made here. That of gpt.rs (no id) stays
// true whatever a tensor is called.
void drop_foreign_forms(Description& description) {
  if (description.format == kGptrsFormat) return;
  description.stored_form.clear();
  for (TensorInfo& tensor : description.tensors) tensor.set_stored_form({});
}

Result<HuggingFaceReport> to_huggingface(WritePlan& plan, const HuggingFaceOptions& options,
                                         std::vector<std::string>& notes) {
  Description& description = plan.description;
  if (!description.config || description.config->schema != kGptrsSchema) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "the source carries no model config of gpt.rs, so the kind of model is not known; a GPTRSCHK file "
        "is needed");
  }
  const std::string text = description.config->text;
  BALLAST_TRY(const GptrsModelConfig config, read_gptrs_model_config(text, "the model config"));
  const NamedModel* kind = find_named_model(config.kind);
  if (kind == nullptr) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("models of kind \"{}\" have no names over there; these have: {}", config.kind, kind_names()));
  }
  drop_foreign_forms(description);
  const size_t before = description.tensors.size();
  ToHuggingFace work(plan, group_names(description.tensors, *kind, kind->styles.front(), Side::kGptrs), Side::kGptrs);
  BALLAST_CHECK(work.build());
  BALLAST_CHECK(check_tensor_count(*kind, before));
  HuggingFaceReport& report = work.report();
  note_result(report, before, work.made().size(), notes);
  if (report.tied) notes.push_back("lm_head equals the transposed embedding: tied, so it is left out");
  BALLAST_CHECK(assign(report.config_text, make_huggingface_config(*kind, config, report.tied, notes)));
  if (options.config_wanted && report.config_text.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} has no config.json: torchvision's models are made by name", kind->described));
  }
  const auto& metadata = description.metadata;
  if (std::ranges::find(metadata, "format", &MetaEntry::key) == metadata.end()) {
    description.metadata.push_back(torch_mark());
  }
  work.replace_plan();
  return std::move(report);
}

// What the text of the config must be checked against.
FindDimension dimensions_of(const std::vector<PlannedTensor>& tensors) {
  return [&tensors](std::string_view name, size_t axis) -> std::optional<uint64_t> {
    const auto found =
        std::ranges::find(tensors, name, [](const PlannedTensor& t) -> std::string_view { return t.info.name; });
    if (found == tensors.end() || axis >= found->info.shape.rank()) return std::nullopt;
    return found->info.shape[axis];
  };
}

Result<std::string> choose_gptrs_config(const Description& description, const HuggingFaceOptions& options,
                                        const ToGptrs& work, std::vector<std::string>& notes) {
  const NamedModel& kind = *work.groups().kind;
  const bool carried = description.config && description.config->schema == kGptrsSchema;
  const bool use_carried = carried && !options.config_was_chosen;
  const std::string text = use_carried ? description.config->text : options.config_text.value_or("");
  if (use_carried || is_gptrs_config(text)) {
    BALLAST_TRY(const GptrsModelConfig config, read_gptrs_model_config(text, options.config_name));
    if (config.kind == kind.name) return text;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: says kind \"{}\", but the tensors are those of {}",
                                                               options.config_name, config.kind, kind.name));
  }
  if (!text.empty()) notes.push_back("the model config is made from " + options.config_name);
  return make_gptrs_config(kind, {text, options.config_name, options.name_gelu}, dimensions_of(work.made()),
                           count_blocks(work.groups()), notes);
}

Status check_tying(const HuggingFaceOptions& options, const HuggingFaceReport& report) {
  if (!report.tied || !options.config_text || is_gptrs_config(*options.config_text)) return {};
  BALLAST_TRY(const auto tied, says_tied({*options.config_text, options.config_name}));
  if (tied.value_or(true)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} says that the output matrix is not the embedding (tie_word_embeddings false), but "
                                "lm_head.weight is missing",
                                options.config_name));
}

Result<HuggingFaceReport> to_gptrs(WritePlan& plan, const HuggingFaceOptions& options,
                                   std::vector<std::string>& notes) {
  Description& description = plan.description;
  NameGroups groups = recognise_names(description.tensors);
  if (groups.kind == nullptr) {
    return make_error(ErrorCode::kUnsupported, fmt::format("no tensor has a name that {} would have", kind_names()));
  }
  const NamedModel& kind = *groups.kind;
  drop_foreign_forms(description);
  const size_t before = description.tensors.size();
  ToGptrs work(plan, std::move(groups), Side::kHuggingFace);
  BALLAST_CHECK(work.make_tied_head());
  BALLAST_CHECK(work.build());
  BALLAST_CHECK(check_tensor_count(kind, work.made().size()));
  HuggingFaceReport& report = work.report();
  BALLAST_CHECK(check_tying(options, report));
  note_result(report, before, work.made().size(), notes);
  if (report.tied) notes.push_back("lm_head is the transposed embedding (tied)");
  BALLAST_CHECK(assign(report.config_text, choose_gptrs_config(description, options, work, notes)));
  description.config = ModelConfig{std::string(kGptrsSchema), report.config_text};
  std::erase(description.metadata, torch_mark());
  work.replace_plan();
  return std::move(report);
}

}  // namespace

Result<HuggingFaceReport> gptrs_to_huggingface(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes) {
  return guarded([&] { return to_huggingface(plan, options, notes); });
}

Result<HuggingFaceReport> huggingface_to_gptrs(WritePlan& plan, const HuggingFaceOptions& options,
                                               std::vector<std::string>& notes) {
  return guarded([&] { return to_gptrs(plan, options, notes); });
}

}  // namespace ballast
