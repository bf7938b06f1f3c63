
#include "ballast/base/json.h"
#include "ballast/training/train_config.h"

namespace ballast {

namespace {

void add(JsonWriter& json, std::string_view key, uint64_t value) { json.key(key).number(value); }
void add(JsonWriter& json, std::string_view key, double value) { json.key(key).real(value); }
void add(JsonWriter& json, std::string_view key, bool value) { json.key(key).boolean(value); }
void add(JsonWriter& json, std::string_view key, const std::string& value) { json.key(key).string(value); }
// A path that is not given is left out.
void add_path(JsonWriter& json, std::string_view key, const std::string& value) {
  if (!value.empty()) add(json, key, value);
}

void add_model(JsonWriter& json, const ModelSpec& model) {
  json.key("model").begin_object();
  if (!model.kind.empty()) add(json, "kind", model.kind);
  add_path(json, "init", model.init);
  if (model.kind == "sequential") json.key("layers").raw(model.layers);
  if (model.kind == "mlp") {
    add(json, "in", model.mlp.in);
    json.key("hidden").numbers(model.mlp.hidden);
    add(json, "out", model.mlp.out);
    add(json, "activation", model.mlp.activation);
    add(json, "dropout", model.mlp.dropout);
    add(json, "bias", model.mlp.bias);
  }
  if (model.kind == "gpt") {
    add(json, "vocab_size", model.gpt.vocab_size);
    add(json, "context_length", model.gpt.context_length);
    add(json, "embed_dim", model.gpt.embed_dim);
    add(json, "num_layers", model.gpt.num_layers);
    add(json, "num_heads", model.gpt.num_heads);
    add(json, "mlp_ratio", model.gpt.mlp_ratio);
    add(json, "gelu", model.gpt.gelu);
    add(json, "dropout", model.gpt.dropout);
  }
  json.end_object();
}

void add_data(JsonWriter& json, const DataSpec& data, bool for_training) {
  json.key("data").begin_object();
  add(json, "kind", data.kind);
  json.key("path").begin_array();
  for (const std::string& path : data.paths) json.string(path);
  json.end_array();
  if (data.kind == "npz") {
    add(json, "x", data.x);
    add(json, "y", data.y);
  }
  if (data.is_table()) {
    if (data.kind == "csv") add(json, "delimiter", data.delimiter);
    if (data.kind == "csv") add(json, "header", data.header);
    if (!data.text.empty()) add(json, "text", data.text);
    if (!data.columns.empty()) {
      json.key("x").begin_array();
      for (const std::string& name : data.columns) json.string(name);
      json.end_array();
    }
    if (!data.y.empty()) add(json, "y", data.y);
  }
  if (data.kind == "idx") add_path(json, "labels", data.labels);
  if (data.kind == "npz" || data.kind == "idx" || (data.is_table() && !data.is_text())) {
    add(json, "target", data.target);
    add(json, "classes", data.classes);
    if (data.shape) json.key("shape").numbers(data.shape->dims());
  }
  if (data.kind == "images") {
    add(json, "size", data.size);
    add(json, "channels", data.channels);
  }
  if (data.is_text()) {
    add_path(json, "tokenizer", data.tokenizer);
    add(json, "separator", data.separator);
  } else {
    add(json, "divide_by", data.divide_by);
    add(json, "drop_last", data.drop_last);
  }
  if (for_training) {
    add(json, "held_out", data.held_out);
    add(json, "shuffle", data.shuffle);
  }
  json.end_object();
}

void add_optimizer(JsonWriter& json, const OptimizerSpec& optimizer) {
  const std::string& type = optimizer.type;
  const bool adam = type == "adam" || type == "adamw";
  json.key("optimizer").begin_object();
  add(json, "type", type);
  add(json, "lr", optimizer.lr);
  add(json, "weight_decay", optimizer.weight_decay);
  if (!adam) add(json, "momentum", optimizer.momentum);
  if (type == "momentum") add(json, "nesterov", optimizer.nesterov);
  if (adam) json.key("betas").begin_array().real(optimizer.beta1).real(optimizer.beta2).end_array();
  if (adam || type == "rmsprop") add(json, "eps", optimizer.eps);
  if (type == "rmsprop") add(json, "alpha", optimizer.alpha);
  json.end_object();
}

void add_schedule(JsonWriter& json, const ScheduleSpec& schedule) {
  json.key("schedule").begin_object();
  add(json, "type", schedule.type);
  const bool annealing = schedule.type == "cosine_annealing";
  if (annealing || schedule.type == "warmup_cosine") {
    add(json, "unit", schedule.unit);
    add(json, "max_lr", schedule.max_lr);
    add(json, "min_lr", schedule.min_lr);
    add(json, "warmup", schedule.warmup);
    if (annealing) add(json, "warmup_start", schedule.warmup_start);
    if (annealing) add(json, "period", schedule.period);
    else add(json, "total", schedule.total);
  }
  if (schedule.type == "reduce_on_plateau") {
    add(json, "factor", schedule.factor);
    add(json, "patience", schedule.patience);
    add(json, "min_lr", schedule.min_lr);
    add(json, "threshold", schedule.threshold);
    add(json, "mode", schedule.mode);
    add(json, "metric", schedule.metric);
  }
  json.end_object();
}

void add_loss(JsonWriter& json, const LossSpec& loss) {
  json.key("loss").begin_object();
  add(json, "type", loss.type);
  if (loss.type != "auto" && loss.type != "cross_entropy" && loss.type != "hinge")
    add(json, "reduction", loss.reduction);
  if (loss.type == "smooth_l1") add(json, "beta", loss.beta);
  if (loss.type == "hinge") add(json, "margin", loss.margin);
  json.end_object();
}

void add_train(JsonWriter& json, const RunSpec& train) {
  json.key("train").begin_object();
  add(json, train.steps != 0 ? "steps" : "epochs", train.steps != 0 ? train.steps : train.epochs);
  add(json, "batch_size", train.batch_size);
  add(json, "accumulation", train.accumulation);
  add(json, "clip_grad_norm", train.clip_grad_norm);
  add(json, "ema", train.ema);
  add(json, "precision", train.precision);
  add(json, "seed", train.seed);
  add(json, "threads", train.threads);
  add_path(json, "output", train.output);
  json.end_object();
}

void add_checkpoint(JsonWriter& json, const CheckpointSpec& checkpoint) {
  if (checkpoint.folder.empty()) return;
  json.key("checkpoint").begin_object();
  add(json, "folder", checkpoint.folder);
  add(json, "every", checkpoint.every);
  add(json, "keep_last", checkpoint.keep_last);
  add(json, "keep_best", checkpoint.keep_best.empty() ? std::string("none") : checkpoint.keep_best);
  add(json, "keep_every", checkpoint.keep_every);
  add(json, "format", checkpoint.format);
  add(json, "resume", checkpoint.resume);
  add(json, "asynchronous", checkpoint.asynchronous);
  json.end_object();
}

}  // namespace

std::string TrainConfig::to_json(bool pretty) const {
  JsonWriter json(pretty);
  json.begin_object();
  add_model(json, model);
  add_data(json, data, /*for_training=*/true);
  add_optimizer(json, optimizer);
  add_schedule(json, schedule);
  add_loss(json, loss);
  add_train(json, train);
  add_checkpoint(json, checkpoint);
  json.key("eval").begin_object();
  add(json, "every", eval.every);
  add(json, "batches", eval.batches);
  if (eval.data) add_data(json, *eval.data, /*for_training=*/false);
  json.end_object();
  json.key("log").begin_object();
  add_path(json, "file", log.file);
  add(json, "every", log.every);
  add_path(json, "report", log.report);
  json.end_object();
  json.end_object();
  return json.take();
}

}  // namespace ballast
