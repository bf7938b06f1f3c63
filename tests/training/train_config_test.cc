#include "ballast/training/train_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/training/config/config_tree.h"
#include "ballast/training/open_data.h"
#include "tests/support/mutation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"
#include "tests/training/dataset_testing.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view kSmall = R"(
[model]
kind = "mlp"
[data]
kind = "npz"
path = "data.npz"
[train]
steps = 10
)";

constexpr std::string_view kFull = R"(
# A configuration with every section.
[model]
kind = "sequential"
init = "start.netcl"
[[model.layers]]
type = "Linear"
args = { in_features = 64, out_features = 32 }
[[model.layers]]
type = "Dropout"
p = 0.25

[data]
kind = "idx"
path = "images.gz"
labels = "/abs/labels.gz"
divide_by = 255
shape = [1, 28, 28]
classes = 10
drop_last = true
shuffle = false

[optimizer]
type = "adamw"
lr = 2e-3
betas = [0.8, 0.95]

[schedule]
type = "warmup_cosine"
warmup = 100
min_lr = 1e-5

[loss]
type = "smooth_l1"
beta = 0.5

[train]
epochs = 3
batch_size = 64
accumulation = 2
clip_grad_norm = 1
ema = 0.999
precision = "bf16"
seed = 7
threads = 2
output = "out/model.netcl"

[checkpoint]
folder = "run"
every = 50
keep_last = 3
keep_best = "eval_loss"
keep_every = 1000
format = "burnpack"
resume = "must"
asynchronous = false

[eval]
every = 25
batches = 4
[eval.data]
kind = "idx"
path = "test-images.gz"
labels = "test-labels.gz"

[log]
file = "log.jsonl"
every = 2
report = "report.html"
)";

struct ConfigFile {
  TempFolder folder;
  std::string path;
  explicit ConfigFile(std::string_view text, std::string_view name = "run.toml") : path(folder.write(name, text)) {}

  TrainConfig load(const std::vector<std::string>& overrides = {}) const {
    return value_of(load_train_config(path, overrides));
  }
};

// The error that a small configuration gives once these lines are added to it.
std::string error_with(const std::string& more, const std::vector<std::string>& overrides = {}) {
  const ConfigFile file(std::string(kSmall) + more);
  return error_of(load_train_config(file.path, overrides));
}
std::string error_of_text(const std::string& text) {
  const ConfigFile file(text);
  return error_of(load_train_config(file.path));
}

TEST(TrainConfig, WhatIsNotSaidHasItsDefault) {
  const ConfigFile file(kSmall);
  const TrainConfig config = file.load();
  EXPECT_EQ(config.model.kind, "mlp");
  EXPECT_EQ(config.data.paths, std::vector{file.folder.path("data.npz")});
  EXPECT_EQ(config.optimizer.type, "adam");
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.schedule.type, "constant");
  EXPECT_EQ(config.loss.type, "auto");
  EXPECT_EQ(config.train.steps, 10U);
  EXPECT_EQ(config.train.batch_size, 32U);
  EXPECT_TRUE(config.data.shuffle);
  EXPECT_FALSE(config.evaluates());
}

TEST(TrainConfig, EveryKeyIsRead) {
  const ConfigFile file(kFull);
  const TrainConfig config = file.load();
  EXPECT_EQ(config.model.init, file.folder.path("start.netcl"));
  EXPECT_EQ(config.model.layers, R"([{"type":"Linear","args":{"in_features":64,"out_features":32}},)"
                                 R"({"type":"Dropout","args":{"p":0.25}}])");
  EXPECT_EQ(config.data.labels, "/abs/labels.gz");
  EXPECT_EQ(config.data.divide_by, 255);
  EXPECT_EQ(*config.data.shape, Shape({1, 28, 28}));
  EXPECT_TRUE(config.data.drop_last);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.weight_decay, 0.01);
  EXPECT_EQ(config.schedule.warmup, 100U);
  EXPECT_EQ(config.loss.reduction, "sum");
  EXPECT_EQ(config.loss.beta, 0.5);
  EXPECT_EQ(config.train.epochs, 3U);
  EXPECT_EQ(config.train.precision, "bf16");
  EXPECT_EQ(config.train.output, file.folder.path("out/model.netcl"));
  EXPECT_EQ(config.checkpoint.keep_best, "eval_loss");
  EXPECT_FALSE(config.checkpoint.asynchronous);
  EXPECT_EQ(config.eval.data->paths, std::vector{file.folder.path("test-images.gz")});
  EXPECT_TRUE(config.evaluates());
  EXPECT_EQ(config.log.every, 2U);
}

TEST(TrainConfig, DefaultsOfOptimizersAreThoseOfNetcl) {
  const auto with = [](const std::string& type) {
    return ConfigFile(std::string(kSmall) + "[optimizer]\ntype = \"" + type + "\"\n").load().optimizer;
  };
  EXPECT_EQ(with("sgd").lr, 0.01);
  EXPECT_EQ(with("sgd").momentum, 0);
  EXPECT_EQ(with("momentum").lr, 0.01);
  EXPECT_EQ(with("momentum").momentum, 0.9);
  EXPECT_FALSE(with("momentum").nesterov);
  EXPECT_EQ(with("adam").eps, 1e-8);
  EXPECT_EQ(with("adam").weight_decay, 0);
  EXPECT_EQ(with("adamw").weight_decay, 0.01);
  EXPECT_EQ(with("rmsprop").alpha, 0.99);
  EXPECT_EQ(with("rmsprop").lr, 1e-3);
}

TEST(TrainConfig, DefaultsOfSchedulesAreThoseOfNetcl) {
  const auto with = [](const std::string& type) {
    return ConfigFile(std::string(kSmall) + "[schedule]\ntype = \"" + type + "\"\n").load().schedule;
  };
  EXPECT_EQ(with("warmup_cosine").warmup, 5U);
  EXPECT_EQ(with("warmup_cosine").min_lr, 0);
  EXPECT_EQ(with("cosine_annealing").period, 10U);
  EXPECT_EQ(with("cosine_annealing").min_lr, 1e-5);
  EXPECT_EQ(with("cosine_annealing").warmup_start, 1e-6);
  EXPECT_EQ(with("reduce_on_plateau").factor, 0.1);
  EXPECT_EQ(with("reduce_on_plateau").patience, 10U);
  EXPECT_EQ(with("reduce_on_plateau").threshold, 1e-4);
}

TEST(TrainConfig, JsonAndTomlMeanTheSame) {
  const ConfigFile toml(kSmall);
  const std::string json = R"({"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "data.npz"},
    "train": {"steps": 10}, "eval": null})";
  toml.folder.write("run.json", json);
  EXPECT_EQ(value_of(load_train_config(toml.folder.path("run.json"))).to_json(), toml.load().to_json());
  toml.folder.write("plain", json);  // without an ending the first character decides
  EXPECT_EQ(value_of(load_train_config(toml.folder.path("plain"))).to_json(), toml.load().to_json());
}

TEST(TrainConfig, TheWholeConfigurationAsJsonReadsBackTheSame) {
  std::vector<std::string> texts = {std::string(kSmall), std::string(kFull)};
  for (const std::string_view more :
       {"[optimizer]\ntype = \"sgd\"\n", "[optimizer]\ntype = \"momentum\"\nnesterov = true\n",
        "[optimizer]\ntype = \"rmsprop\"\n", "[schedule]\ntype = \"cosine_annealing\"\nmax_lr = 0.02\n",
        "[schedule]\ntype = \"reduce_on_plateau\"\n", "[loss]\ntype = \"hinge\"\n",
        "[loss]\ntype = \"bce_logits\"\n"}) {
    texts.push_back(std::string(kSmall) + std::string(more));
  }
  texts.emplace_back(
      "[model]\nkind=\"gpt\"\n[data]\nkind=\"text\"\npath=[\"a.txt\",\"b.txt\"]\nheld_out=0.1\n"
      "tokenizer=\"t.json\"\n[train]\nepochs=1\n");
  texts.emplace_back("[model]\ninit=\"m.netcl\"\n[data]\nkind=\"images\"\npath=\"p\"\n[train]\nsteps=1\n");
  for (const std::string& text : texts) {
    const TrainConfig config = ConfigFile(text).load();
    const std::string json = config.to_json();
    EXPECT_EQ(value_of(parse_train_config(json, "checkpoint")).to_json(), json);
    EXPECT_EQ(value_of(parse_train_config(config.to_json(/*pretty=*/true), "checkpoint")).to_json(), json);
  }
}

TEST(TrainConfig, UnknownKeysAreErrorsThatSayWhatWasMeantAndWhere) {
  EXPECT_THAT(error_with("[optimizer]\nlearning_rat = 0.1\n"),
              EndsWith("run.toml:10: [optimizer] has no key \"learning_rat\": did you mean \"lr\"?"));
  EXPECT_THAT(error_with("[optimizer]\nwieght_decay = 0.1\n"), HasSubstr("did you mean \"weight_decay\"?"));
  EXPECT_THAT(error_with("[train.extra]\n"), HasSubstr("[train] has no key \"extra\""));
  EXPECT_THAT(error_with("[optimiser]\nlr = 1\n"),
              HasSubstr("the file has no key \"optimiser\": did you mean \"optimizer\"?"));
  EXPECT_THAT(error_with("[log]\nxyzzy = 1\n"), HasSubstr("has no key \"xyzzy\"; it has every, file, report"));
  EXPECT_THAT(error_with("[schedule]\ntype = \"cosine_annealing\"\nT_max = 3\n"),
              HasSubstr("did you mean \"period\"?"));
}

TEST(TrainConfig, KeysOfAnotherTypeAreToldApartFromUnknownOnes) {
  EXPECT_THAT(
      error_with("[optimizer]\ntype = \"sgd\"\nbetas = [0.9, 0.99]\n"),
      HasSubstr("[optimizer] betas means nothing here: it goes with type = \"adam\" or type = \"adamw\", and this "
                "is \"sgd\""));
  EXPECT_THAT(error_of_text("[model]\nkind = \"mlp\"\nnum_heads = 4\n"), HasSubstr("it goes with kind = \"gpt\""));
  EXPECT_THAT(error_with("[schedule]\nwarmup = 3\n"), HasSubstr("and this is \"constant\""));
}

TEST(TrainConfig, WrongTypesAndRangesSayWhatIsAllowed) {
  EXPECT_THAT(error_with("[optimizer]\nlr = 0\n"), HasSubstr("[optimizer] lr is 0; it must be a number, above 0"));
  EXPECT_THAT(error_with("[optimizer]\nlr = \"fast\"\n"), HasSubstr("lr is the text \"fast\"; it must be a number"));
  EXPECT_THAT(error_with("[optimizer]\nlr = nan\n"), HasSubstr("it must be a number, above 0"));
  EXPECT_THAT(error_with("[optimizer]\ntype = \"adamW\"\n"),
              HasSubstr("it must be one of sgd, momentum, adam, adamw, rmsprop (did you mean \"adamw\"?)"));
  EXPECT_THAT(error_with("[optimizer]\nbetas = [0.9, 1.0]\n"), HasSubstr("each at least 0 and below 1"));
  EXPECT_THAT(error_with("[optimizer]\nbetas = [0.9]\n"), HasSubstr("a list of two numbers"));
  EXPECT_THAT(error_with("", {"train.batch_size=1.5"}), HasSubstr("batch_size is 1.5; it must be a whole number"));
  EXPECT_THAT(error_with("", {"train.batch_size=-1"}), HasSubstr("from 0 to 16777216"));
  EXPECT_THAT(error_with("", {"train.seed=yes"}), HasSubstr("seed is the text \"yes\""));
  EXPECT_THAT(error_with("", {"data.shuffle=1"}), HasSubstr("it must be true or false"));
  EXPECT_THAT(error_with("", {"data.path=[]"}), HasSubstr("[data] path is missing"));
  EXPECT_THAT(error_with("", {"data.shape=[2,0]"}),
              HasSubstr("holds 0; it must be a list of whole numbers, 1 or more"));
  EXPECT_THAT(error_with("", {"model.hidden=[1,\"a\"]"}), HasSubstr("holds the text \"a\""));
  EXPECT_THAT(error_with("[checkpoint]\nevery = 5\n"),
              HasSubstr("[checkpoint] folder is missing; it says where checkpoints go: folder = \"run\""));
  EXPECT_THAT(error_of_text("optimizer = 3\n" + std::string(kSmall)), HasSubstr("optimizer is 3; it must be a table"));
  EXPECT_THAT(error_of_text("[data]\nkind=\"npz\"\npath=\"x\"\n[train]\nsteps=1\n"),
              HasSubstr("[model] kind is missing; it must be one of mlp, sequential, gpt"));
  EXPECT_THAT(error_of_text("[model]\nkind=\"mlp\"\n[data]\nkind=\"npz\"\npath=\"x\"\n"),
              HasSubstr("say how long to train"));
  EXPECT_THAT(error_with("", {"train.epochs=1", "train.steps=2"}), HasSubstr("both given"));
}

TEST(TrainConfig, LayersAreCheckedForTheirForm) {
  const auto error = [](const std::string& layers) {
    return error_of_text("[model]\nkind = \"sequential\"\nlayers = " + layers + "\n");
  };
  EXPECT_THAT(error("[]"), HasSubstr("must be a list of layers"));
  EXPECT_THAT(error("[3]"), HasSubstr("layers 0: is 3; a layer is a table"));
  EXPECT_THAT(error("[{ type = \"ReLU\" }, { kind = \"ReLU\" }]"), HasSubstr("layers 1: has no type"));
  EXPECT_THAT(error("[{ type = \"ReLU\", args = 3 }]"), HasSubstr("args must be a table"));
  EXPECT_THAT(error("[{ type = \"ReLU\", args = {}, p = 3 }]"), HasSubstr("nothing but type and args"));
}

TEST(TrainConfig, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(error_with("[checkpoint]\nfolder = \"r\"\nkeep_best = \"eval_loss\"\n"),
              HasSubstr("nothing is evaluated"));
  EXPECT_THAT(error_with("[eval.data]\nkind = \"npz\"\npath = \"a\"\n", {"data.held_out=0.1"}),
              HasSubstr("both given"));
  EXPECT_THAT(error_with("[eval.data]\nkind = \"npz\"\npath = \"a\"\nshuffle = true\n"),
              HasSubstr("it goes with [data]"));
  EXPECT_THAT(error_with("[schedule]\ntype = \"warmup_cosine\"\nmin_lr = 1\n"), HasSubstr("min_lr is 1, above"));
  EXPECT_THAT(error_of_text("[model]\nkind=\"gpt\"\n[data]\nkind=\"npz\"\npath=\"x\"\n[train]\nsteps=1\n"),
              HasSubstr("trains on [data] kind \"text\""));
  EXPECT_THAT(error_of_text("[model]\nkind=\"gpt\"\nnum_heads=3\n"),
              HasSubstr("embed_dim is 128, which 3 heads do not"));
}

TEST(TrainConfig, TablesNameTheirColumnsOrTheTextToLearn) {
  const auto read = [](const std::string& data) {
    return parse_train_config(R"({"model":{"kind":"mlp"},"data":{"path":"t",)" + data + R"(},"train":{"steps":1}})",
                              "run");
  };
  const auto csv = read(R"("kind":"csv","x":["a","b"],"y":"c","delimiter":";","header":false,"target":"values")");
  ASSERT_TRUE(csv) << csv.error().message;
  EXPECT_EQ(csv->data.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(csv->data.y, "c");
  EXPECT_FALSE(csv->data.header);
  EXPECT_EQ(value_of(parse_train_config(csv->to_json(), "again")).to_json(), csv->to_json());
  const auto error = [&](const std::string& data) {
    const auto config = read(data);
    return config ? "" : config.error().message;
  };
  EXPECT_EQ(error(R"("kind":"jsonl","text":"body","tokenizer":"bytes","separator":"\n")"), "");
  EXPECT_THAT(error(R"("kind":"csv","tokenizer":"bytes")"),
              HasSubstr("it goes with text, the column to learn to write"));
  EXPECT_THAT(error(R"("kind":"jsonl","text":"body","y":"c")"), HasSubstr("learns the text of a column"));
  EXPECT_THAT(error(R"("kind":"jsonl","delimiter":";")"), HasSubstr("it goes with kind = \"csv\""));
  EXPECT_THAT(error(R"("kind":"csv","delimiter":"ab")"), HasSubstr("must be one character"));
  EXPECT_THAT(error(R"("kind":"csv","x":[1])"), HasSubstr("it must hold texts"));
}

TEST(TrainConfig, OverridesWinAndTheirPathsStartFromHere) {
  const ConfigFile file(kFull);
  const TrainConfig config =
      file.load({"train.batch_size=8", "checkpoint.folder=here", "eval.data.path=there.gz", "optimizer.lr=0.5"});
  EXPECT_EQ(config.train.batch_size, 8U);
  EXPECT_EQ(config.checkpoint.folder, "here");
  EXPECT_THAT(config.eval.data->paths, ElementsAre("there.gz"));
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_THAT(error_with("", {"steps=3"}), HasSubstr("write SECTION.KEY=VALUE"));
  EXPECT_THAT(error_with("", {"train.stepps=3"}), HasSubstr("did you mean \"steps\"?"));
}

TEST(TrainConfig, TextThatIsNoTomlOrJsonIsAnErrorWithItsPlace) {
  EXPECT_THAT(error_of_text("[model\nkind = 3\n"), AllOf(HasSubstr("run.toml"), HasSubstr("no valid TOML")));
  EXPECT_THAT(error_of_text("a = 1\na = 2\n"), HasSubstr("no valid TOML"));
  EXPECT_THAT(error_of_text("when = 1979-05-27\n"), HasSubstr("run.toml:1: dates and times mean nothing here"));
  EXPECT_THAT(error_of_text("a = \"\xFF\"\n"), HasSubstr("not UTF-8"));
  const ConfigFile json("{\"a\": }", "run.json");
  EXPECT_THAT(error_of(load_train_config(json.path)), HasSubstr("run.json: byte 6"));
  EXPECT_THAT(error_of(parse_train_config("{\"a\":1,\"a\":2}", "x")), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(error_of(parse_train_config("[]", "x")), HasSubstr("a configuration is a table"));
  EXPECT_THAT(error_of(load_train_config("/nowhere/run.toml")), HasSubstr("/nowhere/run.toml"));
}

TEST(ConfigTree, NestingThatWouldOverflowTheStackIsRefused) {
  const auto repeat = [](std::string_view piece, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += piece;
    return out;
  };
  EXPECT_THAT(error_of(parse_config_toml("a = " + repeat("[", 100000), "x")), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(parse_config_toml("a = " + repeat("[\"]\",", 1000), "x")), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(parse_config_toml(repeat("a.", 100000) + "a = 1", "x")), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(parse_config_toml("[" + repeat("a.", 100000) + "a]", "x")), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(parse_config_json(repeat("[", 100), "x")), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(parse_config_toml(std::string(2 << 20, ' '), "x")), HasSubstr("too long"));
  const auto fine =
      parse_config_toml("a = [" + repeat("0.5, ", 500) + "]\nb = '''[[[' ]]'''\nc = \"\\\"[[\" # [[[\n", "x");
  EXPECT_TRUE(fine) << (fine ? "" : fine.error().message);
}

TEST(ConfigTree, DamagedTextNeverDoesMoreThanFail) {
  size_t fine = 0;
  const auto check = [&](ByteSpan mutant, const std::string&) {
    fine += parse_config_toml(as_text(mutant), "x") ? 1U : 0U;
    fine += parse_config_json(as_text(mutant), "x") ? 1U : 0U;
  };
  random_mutations(as_bytes(kFull), 5, 300, check);
  truncations(as_bytes(kFull.substr(0, 300)), check);
  EXPECT_GT(fine, 0U);
}

// ---------------------------------------------------------------- from the configuration to the data

TEST(OpenData, ARecordedRunOfNetclHasItsDataInFileOrder) {
  const std::string path = test_file_path("netcl/train_mlp_data.npz");
  const TrainConfig config = ConfigFile("[model]\ninit = \"m.netcl\"\n[data]\nkind = \"npz\"\npath = \"" + path +
                                        "\"\nshuffle = false\n[train]\nsteps = 20\nbatch_size = 0\n")
                                 .load();
  const TrainingData data = value_of(open_training_data(config.data, config.eval, {}));
  EXPECT_EQ(data.evaluation, nullptr);
  const BatchOrder order = value_of(data.training_order(config.train.batch_size, config.train.seed));
  std::vector<uint64_t> examples;
  order.fill(13, examples);
  ASSERT_EQ(examples.size(), data.training->size());
  for (uint64_t i = 0; i < examples.size(); ++i) EXPECT_EQ(examples[i], i);
}

TEST(OpenData, TheDigitsThatComeAlongAreReadyToTrainWith) {
  const std::string folder = test_file_path("../../models/digits");
  const TrainConfig config = value_of(load_train_config(folder + "/train.toml"));
  const TrainingData data = value_of(open_training_data(config.data, config.eval, {}));
  EXPECT_EQ(data.training->size(), 1497U);
  EXPECT_EQ(data.evaluation->size(), 300U);
  EXPECT_EQ(data.training->layout().feature_shape, Shape({1, 8, 8}));
  EXPECT_EQ(data.training->layout().classes, 10U);
  const Batch batch = load(*data.training, {0});
  EXPECT_EQ(batch.target_ids()[0], 0U);
  EXPECT_EQ(batch.features()[2], 5.0F / 16);
}

TEST(OpenData, APartIsHeldOutOrAnotherFileIsTaken) {
  const std::string path = test_file_path("netcl/train_mlp_data.npz");
  DataSpec data;
  data.kind = "npz";
  data.paths = {path};
  data.target = "one_hot";
  data.held_out = 0.25;
  const TrainingData split = value_of(open_training_data(data, {}, {.seed = 3}));
  EXPECT_EQ(split.training->size() + split.evaluation->size(), value_of(open_npz_dataset(path))->size());
  EXPECT_EQ(split.sampling, Sampling::kShuffled);
  EXPECT_EQ(value_of(split.evaluation_order(1000)).batches_per_epoch(), 1U);

  data.held_out = 0;
  EvalSpec eval;
  eval.data = data;
  EXPECT_EQ(value_of(open_training_data(data, eval, {})).evaluation->layout().classes,
            split.training->layout().classes);
  eval.data->y = "r";
  eval.data->target = "values";
  EXPECT_THAT(error_of(open_training_data(data, eval, {})), HasSubstr("cannot evaluate what"));
}

TEST(OpenData, TextIsDrawnOrTakenSideBySide) {
  const TempFolder folder;
  DataSpec data;
  data.kind = "text";
  data.paths = {folder.write("a.txt", std::string(1000, 'a'))};
  data.tokenizer = "bytes";
  data.held_out = 0.1;
  const TrainingData drawn = value_of(open_training_data(data, {}, {.context = 10}));
  EXPECT_EQ(drawn.sampling, Sampling::kDrawn);
  EXPECT_EQ(value_of(drawn.training_order(9, 0)).batches_per_epoch(), 10U);
  EXPECT_EQ(drawn.evaluation->size(), 9U);
  data.shuffle = false;
  const TrainingData ordered = value_of(open_training_data(data, {}, {.context = 10}));
  EXPECT_EQ(ordered.training->size(), 89U);
  EXPECT_EQ(ordered.sampling, Sampling::kFileOrder);
}

TEST(OpenData, PicturesNeedADecoder) {
  DataSpec data;
  data.kind = "images";
  data.paths = {"p"};
  EXPECT_THAT(error_of(open_training_data(data, {}, {})), HasSubstr("decodes no pictures"));
}

}  // namespace
}  // namespace ballast::testing
