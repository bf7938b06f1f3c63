#include "ballast/training/trainer_state.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ballast/base/json.h"

namespace ballast {

std::string write_trainer_state(const TrainerState& state) {
  return fmt::format(
      R"({{"version":1,"step":{},"random":{{"seed":{}}},"optimizer":{},"schedule":{},"scaler":{},"ema":{}}})",
      state.step, state.seed, state.optimizer, state.schedule, state.scaler, state.ema);
}

namespace {

Status read_random(JsonReader& json, TrainerState& state) {
  std::string key;
  BALLAST_CHECK(json.enter_object());
  while (true) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    BALLAST_CHECK(key == "seed" ? assign(state.seed, json.read_u64()) : json.skip_value());
  }
}

Status read_member(JsonReader& json, std::string_view key, TrainerState& state) {
  const auto raw = [&](std::string& into) -> Status {
    BALLAST_TRY(into, json.read_raw());
    return {};
  };
  if (key == "step") return assign(state.step, json.read_u64());
  if (key == "random") return read_random(json, state);
  if (key == "optimizer") return raw(state.optimizer);
  if (key == "schedule") return raw(state.schedule);
  if (key == "scaler") return raw(state.scaler);
  if (key == "ema") return raw(state.ema);
  return json.skip_value();
}

bool fits(const TensorInfo& wanted, const TensorInfo& found) {
  return wanted.dtype == found.dtype && wanted.shape == found.shape;
}

std::string typed(const TensorInfo& info) {
  return fmt::format("{} {}", dtype_name(info.dtype), info.shape.to_string());
}

}  // namespace

Result<TrainerState> read_trainer_state(std::string_view text) {
  JsonReader json(text, "the checkpoint's state");
  TrainerState state;
  std::string key;
  BALLAST_CHECK(json.enter_object());
  while (true) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    BALLAST_CHECK(read_member(json, key, state));
  }
  BALLAST_CHECK(json.finish());
  for (const auto& [name, part] : {std::pair("optimizer", &state.optimizer), std::pair("schedule", &state.schedule),
                                   std::pair("scaler", &state.scaler)}) {
    if (part->empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the checkpoint's state has no \"{}\": no training run of Ballast wrote it", name));
    }
  }
  return state;
}

Result<std::vector<ByteVector>> read_tensors(const LoadedCheckpoint& checkpoint, CheckpointPart part,
                                             const std::vector<StateTensor>& wanted) {
  const auto there = checkpoint.tensors(part);
  std::vector<std::string> wrong;
  std::unordered_set<std::string_view> names;
  std::vector<ByteVector> payloads;
  for (const StateTensor& tensor : wanted) {
    names.insert(tensor.info.name);
    const auto at = checkpoint.find(part, tensor.info.name);
    if (!at) {
      wrong.push_back(fmt::format("\"{}\" is missing", tensor.info.name));
    } else if (!fits(tensor.info, there[*at].info)) {
      wrong.push_back(
          fmt::format("\"{}\" is {} here and {} there", tensor.info.name, typed(tensor.info), typed(there[*at].info)));
    } else if (wrong.empty()) {
      BALLAST_TRY(ByteVector payload, checkpoint.read(part, *at));
      payloads.push_back(std::move(payload));
    }
  }
  for (const CheckpointTensor& tensor : there) {
    if (!names.contains(tensor.info.name)) wrong.push_back(fmt::format("\"{}\" is not expected", tensor.info.name));
  }
  if (wrong.empty()) return payloads;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the checkpoint of step {} is of another {}: {}", checkpoint.step(),
                                part == CheckpointPart::kWeights ? "model" : "optimizer", fmt::join(wrong, "; ")));
}

}  // namespace ballast
