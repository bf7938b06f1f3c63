// Trains a model of netcl's layers for some steps, from a checkpoint where one is given: what `make interop` compares
// with the real netcl, step by step.
//
//   train_sequential '{"model": "m.netcl", "checkpoint": "ck/step_10", "data": "d.npz", "optimizer": "AdamW",
//                      "settings": {"lr": 0.01}, "steps": 10, "save_checkpoint": "ck/step_20", "save_model":
//                      "n.netcl"}'
//
// Prints {"losses": [...]}, each taken before its step. The parameters' names in a checkpoint are "{layer}.{key}".
#include <fmt/format.h>

#include <cstdio>

#include "ballast/archive/open.h"
#include "ballast/base/json_object.h"
#include "ballast/nn/netcl_io.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/training_lab.h"

namespace {

using ballast::JsonObject;
using ballast::Optimizer;
using ballast::Result;
using ballast::Status;
using ballast::Tensor;
using ballast::testing::TrainingLab;

struct Task {
  std::string model, checkpoint, data, save_checkpoint, save_model;
  ballast::OptimizerConfig optimizer;
  uint64_t steps = 1;
};

Result<Task> parse_task(const char* text) {
  BALLAST_TRY(const JsonObject json, JsonObject::parse(text, "the task"));
  Task task;
  const auto take = [&](std::string_view key, std::string& value) -> Status {
    BALLAST_TRY(const auto found, json.find_text(key));
    value = found.value_or("");
    return {};
  };
  BALLAST_CHECK(take("model", task.model));
  BALLAST_CHECK(take("checkpoint", task.checkpoint));
  BALLAST_CHECK(take("data", task.data));
  BALLAST_CHECK(take("save_checkpoint", task.save_checkpoint));
  BALLAST_CHECK(take("save_model", task.save_model));
  BALLAST_CHECK(take("optimizer", task.optimizer.type));
  BALLAST_TRY(const auto steps, json.find_count("steps"));
  task.steps = steps.value_or(1);
  BALLAST_TRY(const auto settings, json.find_object("settings"));
  if (!settings) return task;
  BALLAST_TRY(task.optimizer.lr, settings->find_real("lr"));
  BALLAST_TRY(task.optimizer.momentum, settings->find_real("momentum"));
  BALLAST_TRY(task.optimizer.weight_decay, settings->find_real("weight_decay"));
  return task;
}

Result<Tensor> read_tensor(TrainingLab& lab, const std::string& path, const std::string& name) {
  const auto array = ballast::testing::archive_array(path, name);
  return lab.device().from_host(array.values, array.dims);
}

Result<std::string> train(const Task& task) {
  BALLAST_TRY(auto loaded, ballast::netcl::load_model(task.model, {.strict = true}));
  TrainingLab lab(std::move(loaded.model), "cpu", 0);
  BALLAST_TRY(auto optimizer, Optimizer::make(task.optimizer, lab.model().memory(), lab.params()));
  std::vector<std::string> names;
  for (const ballast::Param& param : lab.params()) names.push_back(param.name());
  if (!task.checkpoint.empty()) {
    BALLAST_TRY(const auto checkpoint,
                ballast::netcl::load_checkpoint(lab.model().parameter_tensors(), task.checkpoint, names));
    BALLAST_CHECK(optimizer->load_state_dict(checkpoint.checkpoint.optim_state));
  }
  BALLAST_TRY(const Tensor x, read_tensor(lab, task.data, "x"));
  BALLAST_TRY(const Tensor y, read_tensor(lab, task.data, "y"));
  std::vector<std::string> losses;
  for (uint64_t i = 0; i < task.steps; ++i) {
    BALLAST_TRY(const float loss, lab.backward({}, x, &y));
    losses.push_back(fmt::format("{}", loss));
    BALLAST_CHECK(optimizer->step(lab.context(), lab.gradients()));
  }
  if (!task.save_checkpoint.empty()) {
    BALLAST_TRY([[maybe_unused]] const auto saved,
                ballast::netcl::save_checkpoint(lab.model().parameter_tensors(), task.save_checkpoint,
                                                {optimizer->state_dict(), R"({"from": "ballast"})"}, names));
  }
  if (!task.save_model.empty()) {
    BALLAST_TRY([[maybe_unused]] const auto saved, ballast::netcl::save_model(lab.model(), task.save_model));
  }
  return fmt::format("{{\"losses\": [{}]}}\n", fmt::join(losses, ", "));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: train_sequential TASK\n", stderr);
    return 2;
  }
  const auto task = parse_task(arguments[1]);
  const auto text = task ? train(*task) : Result<std::string>(task.error());
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().message.c_str());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}
