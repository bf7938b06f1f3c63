#include "ballast/training/train_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/file_system.h"
#include "ballast/training/config_section.h"

namespace ballast {

namespace {

constexpr uint64_t kMostSide = uint64_t{1} << 24;
constexpr RealRange kNotNegative{};
constexpr RealRange kPositive{.above = true};
constexpr RealRange kPart{.most = 1, .below = true};  // [0, 1)

// What all sections of one file share.
struct Sections {
  const std::string& file;
  const std::string& folder;
  const ConfigValue& root;

  Result<ConfigSection> open(std::string_view name) const { return open_in(root, name, fmt::format("[{}]", name)); }

  Result<ConfigSection> open_in(const ConfigValue& table, std::string_view name, std::string title) const {
    const ConfigValue* section = table.find(name);
    if (section != nullptr && section->kind == ConfigValue::Kind::kNull) section = nullptr;
    if (section != nullptr && section->kind != ConfigValue::Kind::kTable) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {} is {}; it must be a table", file,
                                                                 section->line, name, section->describe()));
    }
    return ConfigSection(file, folder, std::move(title), section);
  }
};

// Keys that go with some types of a section only.
struct TypedKey {
  std::string_view key;
  std::vector<std::string_view> types;
};

bool goes_with(const TypedKey& row, std::string_view type) {
  return std::find(row.types.begin(), row.types.end(), type) != row.types.end();
}

void declare_foreign(ConfigSection& section, std::string_view choice_key, std::string_view type,
                     const std::vector<TypedKey>& rows) {
  for (const TypedKey& row : rows) {
    if (goes_with(row, type)) continue;
    std::string where;
    for (const std::string_view word : row.types)
      where += fmt::format("{}{} = \"{}\"", where.empty() ? "" : " or ", choice_key, word);
    section.foreign(row.key, fmt::format("{}, and this is \"{}\"", where, type));
  }
}

// ---------------------------------------------------------------- [model]

// An entry has "args", or its other keys are the args, as in netcl's older spelling.
Status append_layer(JsonWriter& json, const ConfigSection& section, const ConfigValue& layer, size_t index) {
  const auto bad = [&](std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument, section.error("layers", fmt::format("{}: {}", index, what)).message);
  };
  if (layer.kind != ConfigValue::Kind::kTable) return bad(fmt::format("is {}; a layer is a table", layer.describe()));
  const ConfigValue* type = layer.find("type");
  if (type == nullptr || type->kind != ConfigValue::Kind::kText)
    return bad("has no type; a layer is { type = \"Linear\", args = { ... } }");
  const ConfigValue* args = layer.find("args");
  if (args != nullptr && args->kind != ConfigValue::Kind::kTable) return bad("args must be a table");
  if (args != nullptr && layer.members.size() != 2) return bad("a layer with args has nothing but type and args");
  json.begin_object().key("type").string(type->text).key("args").begin_object();
  for (const ConfigMember& member : (args != nullptr ? *args : layer).members) {
    if (args == nullptr && member.name == "type") continue;
    json.key(member.name);
    append_json(json, member.value);
  }
  json.end_object().end_object();
  return {};
}

Result<std::string> read_layers(ConfigSection& section) {
  const ConfigValue* layers = section.find("layers");
  if (layers == nullptr) return section.error("layers", "is missing; a sequential model is a list of layers");
  if (layers->kind != ConfigValue::Kind::kList || layers->items.empty())
    return section.wrong("layers", *layers, "a list of layers");
  JsonWriter json;
  json.begin_array();
  for (size_t i = 0; i < layers->items.size(); ++i) BALLAST_CHECK(append_layer(json, section, layers->items[i], i));
  json.end_array();
  return json.take();
}

Status read_mlp(ConfigSection& section, MlpSpec& mlp) {
  BALLAST_TRY(mlp.in, section.count("in", mlp.in, 0, kMostSide));
  BALLAST_TRY(mlp.hidden, section.counts("hidden", 1));
  BALLAST_TRY(mlp.out, section.count("out", mlp.out, 0, kMostSide));
  BALLAST_TRY(mlp.activation,
              section.choice("activation", mlp.activation, {"relu", "leaky_relu", "sigmoid", "tanh", "gelu", "silu"}));
  BALLAST_TRY(mlp.dropout, section.real("dropout", mlp.dropout, kPart));
  BALLAST_TRY(mlp.bias, section.truth("bias", mlp.bias));
  return {};
}

Status read_gpt(ConfigSection& section, GptSpec& gpt) {
  BALLAST_TRY(gpt.vocab_size, section.count("vocab_size", gpt.vocab_size, 0, kMostSide));
  BALLAST_TRY(gpt.context_length, section.count("context_length", gpt.context_length, 1, kMostSide));
  BALLAST_TRY(gpt.embed_dim, section.count("embed_dim", gpt.embed_dim, 1, kMostSide));
  BALLAST_TRY(gpt.num_layers, section.count("num_layers", gpt.num_layers, 1, 10000));
  BALLAST_TRY(gpt.num_heads, section.count("num_heads", gpt.num_heads, 1, kMostSide));
  BALLAST_TRY(gpt.mlp_ratio, section.count("mlp_ratio", gpt.mlp_ratio, 1, 1024));
  BALLAST_TRY(gpt.gelu, section.choice("gelu", gpt.gelu, {"erf", "tanh"}));
  BALLAST_TRY(gpt.dropout, section.real("dropout", gpt.dropout, kPart));
  if (gpt.embed_dim % gpt.num_heads == 0) return {};
  return section.error("embed_dim", fmt::format("is {}, which {} heads do not divide", gpt.embed_dim, gpt.num_heads));
}

Status read_model(const Sections& sections, ModelSpec& model) {
  BALLAST_TRY(ConfigSection section, sections.open("model"));
  BALLAST_TRY(model.init, section.path("init"));
  if (model.init.empty() || section.has("kind")) {
    BALLAST_TRY(model.kind, section.choice("kind", "", {"mlp", "sequential", "gpt"}));
  }
  declare_foreign(section, "kind", model.kind,
                  {{"layers", {"sequential"}},
                   {"in", {"mlp"}},
                   {"hidden", {"mlp"}},
                   {"out", {"mlp"}},
                   {"activation", {"mlp"}},
                   {"bias", {"mlp"}},
                   {"vocab_size", {"gpt"}},
                   {"context_length", {"gpt"}},
                   {"embed_dim", {"gpt"}},
                   {"num_layers", {"gpt"}},
                   {"num_heads", {"gpt"}},
                   {"mlp_ratio", {"gpt"}},
                   {"gelu", {"gpt"}},
                   {"dropout", {"mlp", "gpt"}}});
  section.also_called("type", "kind");
  section.also_called("context", "context_length");
  section.also_called("width", "embed_dim");
  section.also_called("heads", "num_heads");
  section.also_called("path", "init");
  if (model.kind == "sequential") {
    BALLAST_TRY(model.layers, read_layers(section));
  } else if (model.kind == "mlp") {
    BALLAST_CHECK(read_mlp(section, model.mlp));
  } else if (model.kind == "gpt") {
    BALLAST_CHECK(read_gpt(section, model.gpt));
  }
  return section.finish();
}

// ---------------------------------------------------------------- [data]

Status read_arrays(ConfigSection& section, DataSpec& data) {
  BALLAST_TRY(data.target, section.choice("target", data.target, {"auto", "classes", "one_hot", "values"}));
  BALLAST_TRY(data.classes, section.count("classes", data.classes, 0, kMostSide));
  if (!section.has("shape")) return {};
  BALLAST_TRY(const std::vector<uint64_t> dims, section.counts("shape", 1));
  if (dims.empty()) return section.error("shape", "is empty; it must be the dimensions of one example");
  data.shape = Shape(dims);
  if (data.shape->element_count()) return {};
  return section.error("shape", fmt::format("{} has too many elements", data.shape->to_string()));
}

Status read_table(ConfigSection& section, DataSpec& data) {
  BALLAST_TRY(data.text, section.text("text", ""));
  if (data.kind == "csv") {
    BALLAST_TRY(data.delimiter, section.text("delimiter", data.delimiter));
    BALLAST_TRY(data.header, section.truth("header", data.header));
    if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n")
      return section.error("delimiter", "must be one character, such as \",\" or \";\" or \"\\t\"");
  }
  data.y.clear();
  if (!data.text.empty()) {
    for (const std::string_view key : {"x", "y", "target", "classes", "divide_by", "drop_last"})
      section.foreign(key, "columns of numbers, and this learns the text of a column");
    return {};
  }
  BALLAST_TRY(data.columns, section.texts("x"));
  BALLAST_TRY(data.y, section.text("y", ""));
  BALLAST_TRY(data.target, section.choice("target", data.target, {"auto", "classes", "values"}));
  BALLAST_TRY(data.classes, section.count("classes", data.classes, 0, kMostSide));
  return {};
}

Status read_data_kind(ConfigSection& section, DataSpec& data) {
  if (data.kind == "npz") {
    BALLAST_TRY(data.x, section.text("x", data.x));
    BALLAST_TRY(data.y, section.text("y", data.y));
  }
  if (data.kind == "idx") {
    BALLAST_TRY(data.labels, section.path("labels"));
  }
  if (data.kind == "npz" || data.kind == "idx") BALLAST_CHECK(read_arrays(section, data));
  if (data.kind == "images") {
    BALLAST_TRY(data.size, section.count("size", data.size, 1, 4096));
    BALLAST_TRY(data.channels, section.count("channels", data.channels, 1, 3));
    if (data.channels == 2) return section.error("channels", "is 2; it must be 1 (grey) or 3 (colours)");
    data.divide_by = 255;
  }
  if (data.is_table()) BALLAST_CHECK(read_table(section, data));
  if (!data.is_text()) {
    for (const std::string_view key : {"tokenizer", "separator"}) {
      if (data.is_table()) section.foreign(key, "text, the column to learn to write");
    }
    BALLAST_TRY(data.divide_by, section.real("divide_by", data.divide_by, kPositive));
    BALLAST_TRY(data.drop_last, section.truth("drop_last", data.drop_last));
    return {};
  }
  BALLAST_TRY(const std::string word, section.text("tokenizer", "bytes"));
  BALLAST_TRY(data.tokenizer, section.path("tokenizer"));
  if (word == "bytes") data.tokenizer = word;
  BALLAST_TRY(data.separator, section.text("separator", ""));
  return {};
}

// `held_out`: whether this set may hold a part back; that of an evaluation may not.
Status read_data(ConfigSection& section, DataSpec& data, bool for_training) {
  BALLAST_TRY(data.kind, section.choice("kind", "", {"npz", "idx", "csv", "jsonl", "images", "text"}));
  BALLAST_TRY(data.paths, section.paths("path"));
  if (data.paths.empty()) return section.error("path", "is missing; it says where the data is");
  if (data.paths.size() > 1 && data.kind != "text")
    return section.error("path", fmt::format("holds {} paths; only text takes several", data.paths.size()));
  declare_foreign(section, "kind", data.kind,
                  {{"x", {"npz", "csv", "jsonl"}},
                   {"y", {"npz", "csv", "jsonl"}},
                   {"labels", {"idx"}},
                   {"text", {"csv", "jsonl"}},
                   {"delimiter", {"csv"}},
                   {"header", {"csv"}},
                   {"target", {"npz", "idx", "csv", "jsonl"}},
                   {"classes", {"npz", "idx", "csv", "jsonl"}},
                   {"shape", {"npz", "idx"}},
                   {"divide_by", {"npz", "idx", "images", "csv", "jsonl"}},
                   {"size", {"images"}},
                   {"channels", {"images"}},
                   {"tokenizer", {"text", "csv", "jsonl"}},
                   {"separator", {"text", "csv", "jsonl"}},
                   {"drop_last", {"npz", "idx", "images", "csv", "jsonl"}}});
  section.also_called("type", "kind");
  section.also_called("file", "path");
  section.also_called("files", "path");
  section.also_called("paths", "path");
  section.also_called("image_size", "size");
  section.also_called("scale", "divide_by");
  section.also_called("validation", "held_out");
  BALLAST_CHECK(read_data_kind(section, data));
  if (for_training) {
    BALLAST_TRY(data.held_out, section.real("held_out", data.held_out, kPart));
    BALLAST_TRY(data.shuffle, section.truth("shuffle", data.shuffle));
  } else {
    data.shuffle = false;
    section.foreign("held_out", "[data]");
    section.foreign("shuffle", "[data]");
  }
  return section.finish();
}

// ---------------------------------------------------------------- [optimizer], [schedule], [loss]

Status read_optimizer(const Sections& sections, OptimizerSpec& optimizer) {
  BALLAST_TRY(ConfigSection section, sections.open("optimizer"));
  BALLAST_TRY(optimizer.type, section.choice("type", optimizer.type, {"sgd", "momentum", "adam", "adamw", "rmsprop"}));
  const std::string& type = optimizer.type;
  const std::vector<TypedKey> rows = {{"momentum", {"sgd", "momentum", "rmsprop"}},
                                      {"nesterov", {"momentum"}},
                                      {"betas", {"adam", "adamw"}},
                                      {"eps", {"adam", "adamw", "rmsprop"}},
                                      {"alpha", {"rmsprop"}}};
  declare_foreign(section, "type", type, rows);
  section.also_called("learning_rate", "lr");
  section.also_called("beta1", "betas");
  section.also_called("beta2", "betas");
  section.also_called("epsilon", "eps");
  section.also_called("decay", "weight_decay");
  section.also_called("name", "type");
  BALLAST_TRY(optimizer.lr, section.real("lr", type == "sgd" || type == "momentum" ? 0.01 : 1e-3, kPositive));
  BALLAST_TRY(optimizer.weight_decay, section.real("weight_decay", type == "adamw" ? 0.01 : 0, kNotNegative));
  if (goes_with(rows[0], type)) {
    BALLAST_TRY(optimizer.momentum, section.real("momentum", type == "momentum" ? 0.9 : 0, kPart));
  }
  if (goes_with(rows[1], type)) {
    BALLAST_TRY(optimizer.nesterov, section.truth("nesterov", false));
  }
  if (goes_with(rows[2], type)) {
    BALLAST_TRY(const auto betas, section.two_reals("betas", {0.9, 0.999}, kPart));
    optimizer.beta1 = betas.first;
    optimizer.beta2 = betas.second;
  }
  if (goes_with(rows[3], type)) {
    BALLAST_TRY(optimizer.eps, section.real("eps", optimizer.eps, kPositive));
  }
  if (goes_with(rows[4], type)) {
    BALLAST_TRY(optimizer.alpha, section.real("alpha", optimizer.alpha, kPart));
  }
  return section.finish();
}

Status read_cosine(ConfigSection& section, ScheduleSpec& schedule) {
  const bool annealing = schedule.type == "cosine_annealing";
  BALLAST_TRY(schedule.unit, section.choice("unit", schedule.unit, {"step", "epoch"}));
  BALLAST_TRY(schedule.max_lr, section.real("max_lr", 0, kNotNegative));
  BALLAST_TRY(schedule.min_lr, section.real("min_lr", annealing ? 1e-5 : 0, kNotNegative));
  BALLAST_TRY(schedule.warmup, section.count("warmup", annealing ? 0 : 5));
  if (annealing) {
    BALLAST_TRY(schedule.warmup_start, section.real("warmup_start", 1e-6, kNotNegative));
    BALLAST_TRY(schedule.period, section.count("period", 10, 1));
  } else {
    BALLAST_TRY(schedule.total, section.count("total", 0));
  }
  return {};
}

Status read_plateau(ConfigSection& section, ScheduleSpec& schedule) {
  BALLAST_TRY(schedule.factor, section.real("factor", 0.1, {.most = 1, .above = true, .below = true}));
  BALLAST_TRY(schedule.patience, section.count("patience", 10, 1));
  BALLAST_TRY(schedule.min_lr, section.real("min_lr", 0, kNotNegative));
  BALLAST_TRY(schedule.threshold, section.real("threshold", 1e-4, kNotNegative));
  BALLAST_TRY(schedule.mode, section.choice("mode", "min", {"min", "max"}));
  BALLAST_TRY(schedule.metric, section.choice("metric", "loss", {"loss", "eval_loss", "eval_accuracy"}));
  return {};
}

Status read_schedule(const Sections& sections, ScheduleSpec& schedule) {
  BALLAST_TRY(ConfigSection section, sections.open("schedule"));
  BALLAST_TRY(schedule.type, section.choice("type", schedule.type,
                                            {"constant", "warmup_cosine", "cosine_annealing", "reduce_on_plateau"}));
  const std::string_view cosine = "warmup_cosine", annealing = "cosine_annealing", plateau = "reduce_on_plateau";
  declare_foreign(section, "type", schedule.type,
                  {{"unit", {cosine, annealing}},
                   {"max_lr", {cosine, annealing}},
                   {"warmup", {cosine, annealing}},
                   {"min_lr", {cosine, annealing, plateau}},
                   {"total", {cosine}},
                   {"period", {annealing}},
                   {"warmup_start", {annealing}},
                   {"factor", {plateau}},
                   {"patience", {plateau}},
                   {"threshold", {plateau}},
                   {"mode", {plateau}},
                   {"metric", {plateau}}});
  section.also_called("T_max", "period");
  section.also_called("warmup_epochs", "warmup");
  section.also_called("warmup_steps", "warmup");
  section.also_called("max_epochs", "total");
  if (schedule.type == cosine || schedule.type == annealing) BALLAST_CHECK(read_cosine(section, schedule));
  if (schedule.type == plateau) BALLAST_CHECK(read_plateau(section, schedule));
  return section.finish();
}

Status read_loss(const Sections& sections, LossSpec& loss) {
  BALLAST_TRY(ConfigSection section, sections.open("loss"));
  BALLAST_TRY(loss.type,
              section.choice("type", loss.type,
                             {"auto", "cross_entropy", "mse", "l1", "smooth_l1", "bce", "bce_logits", "hinge"}));
  declare_foreign(
      section, "type", loss.type,
      {{"beta", {"smooth_l1"}}, {"margin", {"hinge"}}, {"reduction", {"mse", "l1", "smooth_l1", "bce", "bce_logits"}}});
  const bool sums = loss.type == "mse" || loss.type == "l1" || loss.type == "smooth_l1";
  if (sums || loss.type.starts_with("bce")) {
    BALLAST_TRY(loss.reduction, section.choice("reduction", sums ? "sum" : "mean", {"sum", "mean"}));
  }
  if (loss.type == "smooth_l1") {
    BALLAST_TRY(loss.beta, section.real("beta", loss.beta, kPositive));
  }
  if (loss.type == "hinge") {
    BALLAST_TRY(loss.margin, section.real("margin", loss.margin, kPositive));
  }
  return section.finish();
}

// ---------------------------------------------------------------- [train], [checkpoint], [eval], [log]

Status read_train(const Sections& sections, RunSpec& train) {
  BALLAST_TRY(ConfigSection section, sections.open("train"));
  BALLAST_TRY(train.steps, section.count("steps", 0));
  BALLAST_TRY(train.epochs, section.count("epochs", 0));
  BALLAST_TRY(train.batch_size, section.count("batch_size", train.batch_size, 0, kMostSide));
  BALLAST_TRY(train.accumulation, section.count("accumulation", train.accumulation, 1, kMostSide));
  BALLAST_TRY(train.clip_grad_norm, section.real("clip_grad_norm", train.clip_grad_norm, kNotNegative));
  BALLAST_TRY(train.ema, section.real("ema", train.ema, kPart));
  BALLAST_TRY(train.precision, section.choice("precision", train.precision, {"f32", "bf16"}));
  BALLAST_TRY(train.seed, section.count("seed", train.seed));
  BALLAST_TRY(train.threads, section.count("threads", train.threads, 0, 4096));
  BALLAST_TRY(train.output, section.path("output"));
  section.also_called("batch", "batch_size");
  section.also_called("max_steps", "steps");
  section.also_called("iterations", "steps");
  section.also_called("grad_clip", "clip_grad_norm");
  section.also_called("clip", "clip_grad_norm");
  section.also_called("mixed_precision", "precision");
  section.also_called("accumulation_steps", "accumulation");
  section.also_called("save", "output");
  BALLAST_CHECK(section.finish());
  if (train.steps == 0 && train.epochs == 0)
    return section.error("steps", "is missing; say how long to train, in steps or in epochs");
  if (train.steps != 0 && train.epochs != 0) return section.error("steps", "and epochs are both given; one decides");
  return {};
}

Status read_checkpoint(const Sections& sections, CheckpointSpec& checkpoint) {
  BALLAST_TRY(ConfigSection section, sections.open("checkpoint"));
  BALLAST_TRY(checkpoint.folder, section.path("folder"));
  BALLAST_TRY(checkpoint.every, section.count("every", checkpoint.every));
  BALLAST_TRY(checkpoint.keep_last, section.count("keep_last", checkpoint.keep_last, 1));
  BALLAST_TRY(checkpoint.keep_best,
              section.choice("keep_best", "none", {"none", "loss", "eval_loss", "eval_accuracy"}));
  if (checkpoint.keep_best == "none") checkpoint.keep_best.clear();
  BALLAST_TRY(checkpoint.keep_every, section.count("keep_every", checkpoint.keep_every));
  BALLAST_TRY(checkpoint.format,
              section.choice("format", checkpoint.format, {"safetensors", "burnpack", "gptrs", "netcl"}));
  BALLAST_TRY(checkpoint.resume, section.choice("resume", checkpoint.resume, {"auto", "must", "never"}));
  BALLAST_TRY(checkpoint.asynchronous, section.truth("asynchronous", checkpoint.asynchronous));
  section.also_called("path", "folder");
  section.also_called("dir", "folder");
  section.also_called("interval", "every");
  BALLAST_CHECK(section.finish());
  if (!checkpoint.folder.empty() || sections.root.find("checkpoint") == nullptr) return {};
  const ConfigValue& table = *sections.root.find("checkpoint");
  if (table.members.empty() || section.has("folder")) return {};
  return section.error("folder", "is missing; it says where checkpoints go: folder = \"run\"");
}

Status read_eval(const Sections& sections, EvalSpec& eval) {
  BALLAST_TRY(ConfigSection section, sections.open("eval"));
  BALLAST_TRY(eval.every, section.count("every", eval.every));
  BALLAST_TRY(eval.batches, section.count("batches", eval.batches));
  if (section.has("data")) {
    BALLAST_TRY(ConfigSection data, sections.open_in(*sections.root.find("eval"), "data", "[eval.data]"));
    BALLAST_CHECK(read_data(data, eval.data.emplace(), /*for_training=*/false));
  }
  return section.finish();
}

Status read_log(const Sections& sections, LogSpec& log) {
  BALLAST_TRY(ConfigSection section, sections.open("log"));
  BALLAST_TRY(log.file, section.path("file"));
  BALLAST_TRY(log.every, section.count("every", log.every, 1));
  BALLAST_TRY(log.report, section.path("report"));
  section.also_called("path", "file");
  return section.finish();
}

// ---------------------------------------------------------------- what holds between sections

Status check_together(const std::string& file, const TrainConfig& config) {
  const auto wrong = [&](const std::string& what) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file, what));
  };
  const auto measured = [&](const std::string& metric) { return metric.starts_with("eval_") && !config.evaluates(); };
  if (measured(config.checkpoint.keep_best) || measured(config.schedule.metric))
    return wrong(
        "a metric of the evaluation is asked for, but nothing is evaluated: set [data] held_out or [eval.data]");
  if (config.eval.data && config.data.held_out > 0)
    return wrong("[data] held_out and [eval.data] are both given; one decides what is evaluated");
  if (config.model.kind == "gpt" && !config.data.is_text()) {
    return wrong(
        fmt::format("[model] kind \"gpt\" trains on [data] kind \"text\", or on the column of a table that "
                    "[data] text names, not on \"{}\"",
                    config.data.kind));
  }
  if (config.eval.data && config.eval.data->is_text() != config.data.is_text())
    return wrong(fmt::format("[eval.data] kind \"{}\" cannot evaluate what [data] kind \"{}\" trains",
                             config.eval.data->kind, config.data.kind));
  const ScheduleSpec& schedule = config.schedule;
  const double high = schedule.max_lr > 0 ? schedule.max_lr : config.optimizer.lr;
  if (schedule.min_lr > high)
    return wrong(fmt::format("[schedule] min_lr is {}, above the rate it starts from ({})", schedule.min_lr, high));
  return {};
}

Result<TrainConfig> read_config(const std::string& file, const std::string& folder, const ConfigValue& root) {
  if (root.kind != ConfigValue::Kind::kTable) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: is {}; a configuration is a table of sections", file, root.describe()));
  }
  ConfigSection top(file, folder, "the file", &root);
  for (const std::string_view name :
       {"model", "data", "optimizer", "schedule", "loss", "train", "checkpoint", "eval", "log"}) {
    top.find(name);
  }
  top.also_called("training", "train");
  top.also_called("scheduler", "schedule");
  top.also_called("optim", "optimizer");
  top.also_called("dataset", "data");
  top.also_called("validation", "eval");
  BALLAST_CHECK(top.finish());
  const Sections sections{file, folder, root};
  TrainConfig config;
  BALLAST_CHECK(read_model(sections, config.model));
  BALLAST_TRY(ConfigSection data, sections.open("data"));
  BALLAST_CHECK(read_data(data, config.data, /*for_training=*/true));
  BALLAST_CHECK(read_optimizer(sections, config.optimizer));
  BALLAST_CHECK(read_schedule(sections, config.schedule));
  BALLAST_CHECK(read_loss(sections, config.loss));
  BALLAST_CHECK(read_train(sections, config.train));
  BALLAST_CHECK(read_checkpoint(sections, config.checkpoint));
  BALLAST_CHECK(read_eval(sections, config.eval));
  BALLAST_CHECK(read_log(sections, config.log));
  BALLAST_CHECK(check_together(file, config));
  return config;
}

}  // namespace

namespace {

// `--steps 20` for a file that counts epochs, and the other way round: what the command line says decides alone.
void settle_length(ConfigValue& root) {
  ConfigValue* train = root.kind == ConfigValue::Kind::kTable ? root.find("train") : nullptr;
  if (train == nullptr || train->kind != ConfigValue::Kind::kTable) return;
  const ConfigValue* steps = train->find("steps");
  const ConfigValue* epochs = train->find("epochs");
  if (steps == nullptr || epochs == nullptr || steps->from_command == epochs->from_command) return;
  const std::string_view loser = steps->from_command ? "epochs" : "steps";
  std::erase_if(train->members, [loser](const ConfigMember& member) { return member.name == loser; });
}

}  // namespace

Result<TrainConfig> load_train_config(const std::string& path, const std::vector<std::string>& overrides) {
  BALLAST_TRY(ConfigValue root, read_config_file(path));
  for (const std::string& override_text : overrides) {
    if (root.kind == ConfigValue::Kind::kTable) BALLAST_CHECK(set_config_value(root, override_text));
  }
  settle_length(root);
  return read_config(path, split_path(path).folder, root);
}

Result<TrainConfig> parse_train_config(std::string_view json, const std::string& where) {
  BALLAST_TRY(const ConfigValue root, parse_config_json(json, where));
  return read_config(where, "", root);
}

}  // namespace ballast
