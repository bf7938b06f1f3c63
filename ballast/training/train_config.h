// Everything that `ballast train` is told: one struct, read from TOML or JSON, with defaults, checked.
//
// docs/training.md has the reference of the keys. What the file does not say is filled in, so that `to_json` is the
// whole truth about a run: checkpoints carry it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/shape.h"

namespace ballast {

// [model]
struct MlpSpec {
  uint64_t in = 0;               // 0: as many as an example has features
  std::vector<uint64_t> hidden;  // widths of the layers between
  uint64_t out = 0;              // 0: as many as there are classes, or target values
  std::string activation = "relu";
  double dropout = 0;  // after each activation
  bool bias = true;
};
struct GptSpec {
  uint64_t vocab_size = 0;  // 0: the tokenizer's
  uint64_t context_length = 128;
  uint64_t embed_dim = 128;
  uint64_t num_layers = 4;
  uint64_t num_heads = 4;
  uint64_t mlp_ratio = 4;
  std::string gelu = "tanh";
  double dropout = 0;
};
struct ModelSpec {
  std::string kind;    // "sequential", "mlp", "gpt"; empty: what the file `init` says
  std::string init;    // path of a model to start from; empty: random numbers
  std::string layers;  // sequential: JSON list of {"type", "args"}, as netcl's files have it
  MlpSpec mlp;
  GptSpec gpt;
};

// [data], [eval.data]
struct DataSpec {
  std::string kind;  // "npz", "idx", "csv", "jsonl", "images", "text"
  std::vector<std::string> paths;
  std::string x = "x";               // npz
  std::string y = "y";               // npz; empty: no targets. csv, jsonl: a column; empty: the last of a CSV file
  std::vector<std::string> columns;  // csv, jsonl: key `x`; empty: all but y
  std::string text;                  // csv, jsonl: the column to learn to write; empty: none
  std::string delimiter = ",";       // csv
  bool header = true;                // csv
  std::string labels;                // idx: path
  std::string target = "auto";       // npz, idx: "auto", "classes", "one_hot", "values"
  uint64_t classes = 0;              // npz, idx: 0 = as found
  double divide_by = 1;              // images: 255
  std::optional<Shape> shape;        // npz, idx: of one example
  uint64_t size = 32;                // images
  uint64_t channels = 3;             // images
  std::string tokenizer;             // text: path, or "bytes"
  std::string separator;             // text
  double held_out = 0;
  bool shuffle = true;
  bool drop_last = false;

  bool is_table() const { return kind == "csv" || kind == "jsonl"; }
  bool is_text() const { return kind == "text" || !text.empty(); }
};

// [optimizer]: keys that the type does not have keep what is here.
struct OptimizerSpec {
  std::string type = "adam";  // "sgd", "momentum", "adam", "adamw", "rmsprop"
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double alpha = 0.99;
};

// [schedule]
struct ScheduleSpec {
  std::string type = "constant";  // "warmup_cosine", "cosine_annealing", "reduce_on_plateau"
  std::string unit = "step";      // or "epoch": what the numbers below count
  double max_lr = 0;              // 0: the optimizer's lr
  double min_lr = 0;
  uint64_t warmup = 0;
  double warmup_start = 0;
  uint64_t total = 0;   // warmup_cosine; 0: the whole run
  uint64_t period = 0;  // cosine_annealing
  double factor = 0;    // reduce_on_plateau, as the rest
  uint64_t patience = 0;
  double threshold = 0;
  std::string mode = "min";
  std::string metric = "loss";
};

// [loss]
struct LossSpec {
  std::string type = "auto";  // what suits the targets: cross_entropy for classes and tokens, mse (mean) for values
  std::string reduction = "mean";
  double beta = 1;    // smooth_l1
  double margin = 1;  // hinge
};

// [train]
struct RunSpec {
  uint64_t steps = 0;  // one of these two is not 0
  uint64_t epochs = 0;
  uint64_t batch_size = 32;  // 0: all examples
  uint64_t accumulation = 1;
  double clip_grad_norm = 0;      // 0: no clipping
  double ema = 0;                 // decay of the averaged weights; 0: none
  std::string precision = "f32";  // or "bf16"
  uint64_t seed = 0;
  uint64_t threads = 0;  // 0: all of the machine
  std::string output;    // where the trained model goes; empty: nowhere
};

// [checkpoint]
struct CheckpointSpec {
  std::string folder;  // empty: none are written
  uint64_t every = 0;  // steps; 0: at the end only
  uint64_t keep_last = 2;
  std::string keep_best;    // metric: "loss", "eval_loss", "eval_accuracy"; empty: none is kept for being best
  uint64_t keep_every = 0;  // 0: none is kept for its number
  std::string format = "safetensors";
  std::string resume = "auto";  // "auto", "must", "never"
  bool asynchronous = true;
};

// [eval]
struct EvalSpec {
  uint64_t every = 0;            // steps; 0: after each epoch and at the end
  uint64_t batches = 0;          // 0: all
  std::optional<DataSpec> data;  // absent: what [data] holds out
};

// [log]
struct LogSpec {
  std::string file;
  uint64_t every = 1;
  std::string report;
};

struct TrainConfig {
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  LossSpec loss;
  RunSpec train;
  CheckpointSpec checkpoint;
  EvalSpec eval;
  LogSpec log;

  bool evaluates() const { return eval.data.has_value() || data.held_out > 0; }
  // All sections with every key that means something for them. Reading it again gives the same configuration.
  std::string to_json(bool pretty = false) const;
};

// `overrides`: "section.key=value" each, as --set gives them; they win over the file. Paths in the file start from its
// folder, those in overrides from where the program runs.
Result<TrainConfig> load_train_config(const std::string& path, const std::vector<std::string>& overrides = {});
// JSON text, such as `to_json` gives it; `where` names it in errors. Paths are taken as they are.
Result<TrainConfig> parse_train_config(std::string_view json, const std::string& where,
                                       const std::vector<std::string>& overrides = {});

}  // namespace ballast
