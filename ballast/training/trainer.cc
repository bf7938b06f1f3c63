#include "ballast/training/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "ballast/backends/execution.h"
#include "ballast/device/host_values.h"
#include "ballast/io/guard.h"
#include "ballast/ops/tape.h"
#include "ballast/training/autocast.h"
#include "ballast/training/config/config_parts.h"
#include "ballast/training/fill_in.h"
#include "ballast/training/grad_scaler.h"
#include "ballast/training/model_ema.h"
#include "ballast/training/optimizer.h"
#include "ballast/training/schedule.h"
#include "ballast/training/trainable.h"
#include "ballast/training/trainer_state.h"

namespace ballast {

namespace {

constexpr double kMixedScale = 4096;  // netcl's trainer begins with it too

double step_seconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The average in the place of the parameters, while this lives.
class Averaged {
 public:
  static Result<Averaged> enter(ModelEma* ema) {
    if (ema != nullptr) BALLAST_CHECK(ema->swap());
    return Averaged(ema);
  }
  Averaged(Averaged&& other) noexcept : ema_(std::exchange(other.ema_, nullptr)) {}
  Averaged& operator=(Averaged&&) = delete;
  ~Averaged() {
    if (ema_ != nullptr) (void)ema_->swap();  // went well once, with the same sizes
  }

 private:
  explicit Averaged(ModelEma* ema) : ema_(ema) {}
  ModelEma* ema_;
};

// While this lives, what is computed is written down for the way back; whatever ends it, nothing is afterwards.
class Recorded {
 public:
  Recorded(Context& context, Tape& tape) : context_(context) { context_.tape = &tape; }
  ~Recorded() { context_.tape = nullptr; }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  Context& context_;
};

}  // namespace

struct Trainer::State {
  State(TrainConfig config_, std::unique_ptr<Trainable> model_, TrainingData data_,
        std::shared_ptr<Execution> execution_, BatchOrder order_)
      : config(std::move(config_)),
        model(std::move(model_)),
        data(std::move(data_)),
        execution(std::move(execution_)),
        context(execution->context()),
        gradients(execution->workspace()),
        tape(gradients),
        order(order_),
        batch(data.training->layout(), order.batch_size()) {}

  Status prepare();
  Status check_whole() const;
  Result<double> accumulate(StepRecord& record);
  Result<double> run_batch(uint64_t number, StepRecord& record);
  Status compute(StepRecord& record);
  Result<EvalRecord> evaluate();
  Status restore(const LoadedCheckpoint& checkpoint);
  Status apply(StepRecord& record);
  Result<double> finite_grad_norm(uint64_t of_step);
  Status set_rate();
  Result<TrainingSnapshot> snapshot(Metrics metrics) const;
  bool rate_follows(std::string_view metric) const {
    return schedule->needs_metric() && config.schedule.metric == metric;
  }

  TrainConfig config;
  std::unique_ptr<Trainable> model;
  TrainingData data;
  std::shared_ptr<Execution> execution;
  Context& context;
  ParamGradients gradients;
  Tape tape;
  BatchOrder order;
  Batch batch;
  std::vector<uint64_t> examples;
  std::optional<BatchOrder> eval_order;
  std::optional<Batch> eval_batch;
  std::vector<Param> params;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule;
  std::unique_ptr<ModelEma> ema;
  GradScaler scaler;
  RandomStream random;
  uint64_t step = 0;
  uint64_t total = 0;
  // Weights, moments or averages are being changed; still true afterwards: that failed halfway.
  bool is_torn = false;
};

Status Trainer::State::prepare() {
  const ExampleLayout& layout = data.training->layout();
  BALLAST_CHECK(model->check_layout(layout));
  BALLAST_TRY(config.loss, choose_loss(config.loss, layout));
  params = model->trained();
  for (const Param& param : params) gradients.train(param);
  const uint64_t epoch = (order.batches_per_epoch() + config.train.accumulation - 1) / config.train.accumulation;
  total = config.train.steps != 0 ? config.train.steps : config.train.epochs * epoch;
  BALLAST_TRY(optimizer, Optimizer::make(optimizer_config(config.optimizer), model->params(), params));
  const uint64_t calls = config.schedule.unit == "epoch" ? (total + epoch - 1) / epoch : total;
  BALLAST_TRY(schedule, Schedule::make(schedule_config(config.schedule, config.optimizer.lr, calls)));
  if (config.train.ema > 0) {
    BALLAST_TRY(ema, ModelEma::make({.decay = config.train.ema}, model->params(), params));
  }
  const bool mixed = config.train.precision == "bf16";
  scaler = GradScaler({.init_scale = kMixedScale, .enabled = mixed});
  context.product_dtype = mixed ? DType::kBF16 : DType::kF32;
  context.numerics = mixed ? Numerics::kFast : Numerics::kExact;  // gradients are those of what was computed
  random.seed = config.train.seed;
  if (data.evaluation != nullptr) {
    BALLAST_CHECK(model->check_layout(data.evaluation->layout()));
    BALLAST_TRY(eval_order, data.evaluation_order(config.train.batch_size));
    eval_batch.emplace(data.evaluation->layout(), eval_order->batch_size());
  }
  fill_in_config(config, layout, order.batch_size(), calls);
  return {};
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::make(const TrainConfig& config, std::unique_ptr<Trainable> model,
                                               TrainingData data, const TrainerSettings& settings) {
  return guarded([&]() -> Result<std::unique_ptr<Trainer>> {
    if (!config.checkpoint.folder.empty()) {
      Status fits = model->check_weights_format(config.checkpoint.format);
      if (!fits) return std::move(fits).error().with_context("[checkpoint] format");
    }
    if (!config.train.output.empty()) {
      Status fits = model->check_output(config.train.output);
      if (!fits) return std::move(fits).error().with_context("[train] output");
    }
    BALLAST_TRY(const BatchOrder order, data.training_order(config.train.batch_size, config.train.seed));
    const Backend& backend = settings.backend != nullptr ? *settings.backend : default_backend(true);
    BALLAST_TRY(std::shared_ptr<Execution> execution, Execution::open(backend, settings.threads));
    auto state = std::make_unique<State>(config, std::move(model), std::move(data), std::move(execution), order);
    BALLAST_CHECK(state->prepare());
    return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
  });
}

const TrainConfig& Trainer::config() const { return state_->config; }
Trainable& Trainer::model() { return *state_->model; }
std::span<const CompanionFile> Trainer::companions() const { return state_->data.companions; }
uint64_t Trainer::step() const { return state_->step; }
uint64_t Trainer::total_steps() const { return state_->total; }
bool Trainer::evaluates() const { return state_->eval_order.has_value(); }
uint64_t Trainer::allocations() const { return state_->execution->workspace().allocations(); }

uint64_t Trainer::steps_per_epoch() const {
  const uint64_t each = state_->config.train.accumulation;
  return (state_->order.batches_per_epoch() + each - 1) / each;
}

bool Trainer::at_epoch_end() const { return state_->step != 0 && state_->step % steps_per_epoch() == 0; }

// The mean loss of the step's batches; their gradients are in `gradients`, scaled.
Result<double> Trainer::State::accumulate(StepRecord& record) {
  gradients.clear();
  tape.reset();  // of a step that ran out of memory
  random.step = step;
  random.draws = 0;
  context.random = &random;
  const uint64_t parts = config.train.accumulation;
  double sum = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    const auto value = run_batch(step * parts + part, record);
    if (!value) {
      tape.reset();
      return value;
    }
    sum += *value;
  }
  return sum / static_cast<double>(parts);
}

// Forth and back.
Result<double> Trainer::State::run_batch(uint64_t number, StepRecord& record) {
  order.fill(number, examples);
  BALLAST_CHECK(batch.load(*data.training, examples));
  const Recorded recorded(context, tape);
  BALLAST_TRY(const auto loss, model->loss(context, batch, Trainable::Mode::kTraining));
  BALLAST_TRY(const double value, number_of(loss.value));
  record.items += loss.items;
  BALLAST_CHECK(tape.backward(context, loss.value, scaler.scale() / static_cast<double>(config.train.accumulation)));
  return value;
}

Status Trainer::State::check_whole() const {
  if (!is_torn) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("step {} failed while it changed the weights: restore a checkpoint to go on", step + 1));
}

Status Trainer::State::set_rate() {
  if (schedule->needs_metric()) return {};  // it is told when there is something to tell
  const uint64_t epoch = (order.batches_per_epoch() + config.train.accumulation - 1) / config.train.accumulation;
  if (config.schedule.unit == "epoch" && step % epoch != 0) return {};
  optimizer->set_lr(schedule->step());
  return {};
}

// An optimizer that takes one infinite gradient ruins every weight it reaches.
Result<double> Trainer::State::finite_grad_norm(uint64_t of_step) {
  BALLAST_TRY(const double norm, grad_norm(context, params, gradients));
  if (std::isfinite(norm)) return norm;
  for (const Param& param : params) {
    BALLAST_TRY(const double own, grad_norm(context, std::span(&param, 1), gradients));
    if (std::isfinite(own)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the gradient of \"{}\" at step {} is not finite; the weights stay as they were. A "
                                  "smaller learning rate, warmup or scaled-down data may help",
                                  param.name(), of_step));
  }
  return norm;
}

// What may fail comes first; from where something is changed that the next step depends on, an error leaves it torn.
Status Trainer::State::apply(StepRecord& record) {
  BALLAST_TRY(const bool finite, scaler.unscale(context, params, gradients));
  if (finite) {
    BALLAST_TRY(record.grad_norm, finite_grad_norm(record.step));
    if (config.train.clip_grad_norm > 0) {
      BALLAST_CHECK(clip_grad_norm(context, params, gradients, config.train.clip_grad_norm));
    }
  }
  is_torn = true;
  BALLAST_CHECK(set_rate());
  record.lr = optimizer->lr();
  if (finite) {
    BALLAST_CHECK(optimizer->step(context, gradients));
    if (ema != nullptr) BALLAST_CHECK(ema->update());
  }
  is_torn = false;
  record.skipped = !finite;
  scaler.update(finite);
  return {};
}

Status Trainer::State::compute(StepRecord& record) {
  record.step = step + 1;
  BALLAST_TRY(record.loss, accumulate(record));
  if (std::isfinite(record.loss)) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("the loss of step {} is {}: a smaller learning rate, warmup or clip_grad_norm may help; "
                  "or the data holds numbers that are not finite",
                  record.step, record.loss));
}

Result<StepRecord> Trainer::try_step() {
  return guarded([&]() -> Result<StepRecord> {
    const auto begin = std::chrono::steady_clock::now();
    BALLAST_CHECK(state_->check_whole());
    StepRecord record;
    BALLAST_CHECK(state_->compute(record));
    BALLAST_TRY(const bool finite, state_->scaler.unscale(state_->context, state_->params, state_->gradients));
    if (finite) BALLAST_CHECK(assign(record.grad_norm, state_->finite_grad_norm(record.step)));
    record.skipped = !finite;
    record.lr = state_->optimizer->lr();
    record.seconds = step_seconds(begin);
    return record;
  });
}

Result<std::vector<std::string>> Trainer::params_without_gradient() {
  return guarded([&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> names;
    for (const Param& param : state_->params) {
      const Tensor* gradient = state_->gradients.find(param);
      HostValues<float> values;
      if (gradient != nullptr) {
        BALLAST_TRY(values, HostValues<float>::of(*gradient));
      }
      if (std::ranges::all_of(values, [](float v) { return v == 0; })) names.emplace_back(param.name());
    }
    return names;
  });
}

Result<StepRecord> Trainer::advance() {
  return guarded([&]() -> Result<StepRecord> {
    State& state = *state_;
    const auto begin = std::chrono::steady_clock::now();
    BALLAST_CHECK(state.check_whole());
    StepRecord record;
    BALLAST_CHECK(state.compute(record));
    BALLAST_CHECK(state.apply(record));
    if (state.rate_follows("loss")) state.optimizer->set_lr(state.schedule->step(record.loss));
    ++state.step;
    record.seconds = step_seconds(begin);
    return record;
  });
}

Result<EvalRecord> Trainer::evaluate() {
  return guarded([&] { return state_->evaluate(); });
}

Result<EvalRecord> Trainer::State::evaluate() {
  State& state = *this;
  BALLAST_CHECK(check_whole());
  if (!state.eval_order) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing is held out: [data] held_out or a section [eval.data] says what to evaluate on");
  }
  const auto begin = std::chrono::steady_clock::now();
  BALLAST_TRY(const Averaged averaged, Averaged::enter(state.ema.get()));
  state.context.random = nullptr;
  const uint64_t most = state.config.eval.batches;
  const uint64_t batches = state.eval_order->batches_per_epoch();
  double sum = 0;
  uint64_t correct = 0;
  bool has_classes = false;
  EvalRecord result;
  result.step = state.step;
  for (uint64_t i = 0; i < (most == 0 ? batches : std::min(most, batches)); ++i) {
    state.eval_order->fill(i, state.examples);
    BALLAST_CHECK(state.eval_batch->load(*state.data.evaluation, state.examples));
    BALLAST_TRY(const auto loss, state.model->loss(state.context, *state.eval_batch, Trainable::Mode::kEvaluation));
    BALLAST_TRY(const double value, number_of(loss.value));
    sum += value * static_cast<double>(loss.items);
    result.items += loss.items;
    correct += loss.correct;
    has_classes = loss.has_classes;
  }
  result.loss = sum / static_cast<double>(result.items);
  if (has_classes) result.accuracy = static_cast<double>(correct) / static_cast<double>(result.items);
  if (state.rate_follows("eval_loss")) state.optimizer->set_lr(state.schedule->step(result.loss));
  if (state.rate_follows("eval_accuracy")) state.optimizer->set_lr(state.schedule->step(result.accuracy.value_or(0)));
  result.seconds = step_seconds(begin);
  return result;
}

Result<TrainingSnapshot> Trainer::snapshot(Metrics metrics) const {
  return guarded([&] { return state_->snapshot(std::move(metrics)); });
}

Result<TrainingSnapshot> Trainer::State::snapshot(Metrics metrics) const {
  const State& state = *this;
  BALLAST_CHECK(check_whole());
  TrainingSnapshot snapshot;
  snapshot.step = state.step;
  snapshot.config_json = state.config.to_json();
  snapshot.model_config = state.model->model_config();
  snapshot.metrics = std::move(metrics);
  const TrainedParams& memory = state.model->params();
  for (size_t i = 0; i < memory.params().size(); ++i) snapshot.weights.push_back({memory.params()[i], *memory.view(i)});
  for (const StateTensor& tensor : state.optimizer->state_tensors())
    snapshot.state.push_back({tensor.info, tensor.bytes});
  if (state.ema != nullptr) {
    for (const StateTensor& tensor : state.ema->state_tensors()) snapshot.state.push_back({tensor.info, tensor.bytes});
  }
  snapshot.state_json = write_trainer_state({.step = state.step,
                                             .seed = state.config.train.seed,
                                             .optimizer = state.optimizer->scalars_json(),
                                             .schedule = state.schedule->state_dict(),
                                             .scaler = state.scaler.state_dict(),
                                             .ema = state.ema != nullptr ? state.ema->scalars_json() : "null"});
  return snapshot;
}

Status Trainer::restore(const LoadedCheckpoint& checkpoint) {
  return guarded([&] { return state_->restore(checkpoint); });
}

Status Trainer::State::restore(const LoadedCheckpoint& checkpoint) {
  State& state = *this;
  BALLAST_TRY(const TrainerState saved, read_trainer_state(checkpoint.state_json()));
  std::vector<StateTensor> places;
  TrainedParams& memory = state.model->params();
  for (size_t i = 0; i < memory.params().size(); ++i) places.push_back({memory.params()[i], memory.bytes(i)});
  BALLAST_TRY(const auto weights, read_tensors(checkpoint, CheckpointPart::kWeights, places));
  std::vector<StateTensor> more = state.optimizer->state_tensors();
  if (state.ema != nullptr) {
    for (StateTensor& tensor : state.ema->state_tensors()) more.push_back(std::move(tensor));
  }
  BALLAST_TRY(const auto moments, read_tensors(checkpoint, CheckpointPart::kState, more));
  BALLAST_CHECK(state.optimizer->load_scalars(saved.optimizer));
  BALLAST_CHECK(state.schedule->load_state_dict(saved.schedule));
  BALLAST_CHECK(state.scaler.load_state_dict(saved.scaler));
  if (state.ema != nullptr) BALLAST_CHECK(state.ema->load_scalars(saved.ema));
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(places[i].bytes.data(), weights[i].data(), weights[i].size());
    const auto at = *checkpoint.find(CheckpointPart::kWeights, places[i].info.name);
    memory.set_param_id(i, checkpoint.weights()[at].info.param_id);
  }
  for (size_t i = 0; i < more.size(); ++i) std::memcpy(more[i].bytes.data(), moments[i].data(), moments[i].size());
  state.step = saved.step;
  state.is_torn = false;
  return {};
}

Status Trainer::save_model(const std::string& path, bool overwrite) {
  return guarded([&]() -> Status {
    BALLAST_CHECK(state_->check_whole());
    BALLAST_TRY(const Averaged averaged, Averaged::enter(state_->ema.get()));
    return state_->model->save(path, state_->data.companions, overwrite);
  });
}

}  // namespace ballast
