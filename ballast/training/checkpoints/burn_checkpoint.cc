#include "ballast/training/checkpoints/burn_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ballast/base/counter_random.h"
#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"
#include "ballast/training/trainer_state.h"

namespace ballast {

namespace {

constexpr std::string_view kOptimizerPrefix = "optimizer.";

struct BurnField {
  std::string_view optimizer, slot, field;
};
constexpr auto kBurnFields = std::to_array<BurnField>({{"Adam", "m", "momentum.moment_1"},
                                                       {"Adam", "v", "momentum.moment_2"},
                                                       {"AdamW", "m", "momentum.moment_1"},
                                                       {"AdamW", "v", "momentum.moment_2"},
                                                       {"SGD", "velocity", "momentum.velocity"},
                                                       {"Momentum", "velocity", "momentum.velocity"}});

// The same for the same name in every checkpoint, so that records of one run fit each other.
uint64_t id_of_name(std::string_view name) {
  uint64_t id = 0;
  for (const char c : name) id = counter_random(id, static_cast<unsigned char>(c));
  return id;
}

class BurnSnapshot {
 public:
  explicit BurnSnapshot(const LoadedCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  Result<ImportedBurnRecords> run() {
    made_.snapshot.step = checkpoint_.step();
    BALLAST_TRY(const JsonObject state, JsonObject::parse(checkpoint_.state_json(), "the checkpoint's state"));
    const bool is_imported = state.find("burn").has_value();
    BALLAST_CHECK(copy_weights(is_imported));
    if (is_imported) {
      made_.snapshot.state_json = checkpoint_.state_json();
      BALLAST_CHECK(copy_state());
    } else {
      BALLAST_CHECK(translate_state());
    }
    return std::move(made_);
  }

 private:
  Result<SnapshotTensor> read(CheckpointPart part, size_t index) {
    BALLAST_TRY(ByteVector bytes, checkpoint_.read(part, index));
    made_.memory.push_back(std::move(bytes));
    return SnapshotTensor{checkpoint_.tensors(part)[index].info, made_.memory.back()};
  }

  Status copy_weights(bool is_imported) {
    for (size_t i = 0; i < checkpoint_.weights().size(); ++i) {
      BALLAST_TRY(SnapshotTensor weight, read(CheckpointPart::kWeights, i));
      if (!weight.info.param_id && !is_imported) weight.info.param_id = id_of_name(weight.info.name);
      if (weight.info.param_id) ids_[weight.info.name] = *weight.info.param_id;
      made_.snapshot.weights.push_back(std::move(weight));
    }
    return {};
  }

  Status copy_state() {
    for (size_t i = 0; i < checkpoint_.state().size(); ++i) {
      BALLAST_TRY(SnapshotTensor tensor, read(CheckpointPart::kState, i));
      made_.snapshot.state.push_back(std::move(tensor));
    }
    return {};
  }

  // "optimizer.0.weight.m" is "0.weight.momentum.moment_1".
  Status translate_state() {
    BALLAST_TRY(const TrainerState state, read_trainer_state(checkpoint_.state_json()));
    BALLAST_TRY(const JsonObject scalars, JsonObject::parse(state.optimizer, "the optimizer's state"));
    BALLAST_TRY(const auto type, scalars.find_text("type"));
    BALLAST_TRY(const auto steps, scalars.find_count("t"));
    for (size_t i = 0; i < checkpoint_.state().size(); ++i) {
      const std::string& name = checkpoint_.state()[i].info.name;
      if (name.starts_with(kOptimizerPrefix)) BALLAST_CHECK(translate(i, type.value_or("")));
    }
    if (made_.snapshot.state.empty()) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{} keeps nothing between steps here: there is no record to write",
                                    type.value_or("the optimizer")));
    }
    made_.snapshot.state_json = scalars_text(type == "Adam" || type == "AdamW", steps.value_or(0));
    return {};
  }

  Status translate(size_t index, std::string_view type) {
    BALLAST_TRY(SnapshotTensor tensor, read(CheckpointPart::kState, index));
    const std::string_view name = std::string_view(tensor.info.name).substr(kOptimizerPrefix.size());
    const std::string parameter(name.substr(0, name.rfind('.')));
    const std::string_view slot = name.substr(name.rfind('.') + 1);
    const auto row = std::ranges::find_if(
        kBurnFields, [&](const BurnField& field) { return field.optimizer == type && field.slot == slot; });
    const auto id = ids_.find(parameter);
    if (row == kBurnFields.end() || id == ids_.end()) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("Burn's optimizers have no place for \"{}\" of {}; SGD, Momentum, Adam and AdamW "
                                    "on f32 parameters can be written",
                                    slot, type));
    }
    tensor.info.name = fmt::format("{}.{}", parameter, row->field);
    tensor.info.param_id = id->second;
    made_.snapshot.state.push_back(std::move(tensor));
    return {};
  }

  std::string scalars_text(bool has_time, uint64_t steps) const {
    JsonWriter json;
    json.begin_object().key("burn").begin_object().key("optimizer").begin_object();
    for (const auto& [parameter, id] : ids_) {
      if (!has_time) continue;
      json.key(parameter).begin_object().key("momentum.time").begin_object().key("u64").number(steps);
      json.end_object().end_object();
    }
    json.end_object().end_object().end_object();
    return json.take();
  }

  const LoadedCheckpoint& checkpoint_;
  ImportedBurnRecords made_;
  std::map<std::string, uint64_t> ids_;  // by weight
};

}  // namespace

Result<ImportedBurnRecords> make_burn_snapshot(const LoadedCheckpoint& checkpoint) {
  return guarded([&] { return BurnSnapshot(checkpoint).run(); });
}

}  // namespace ballast
