#include "tests/support/output_digests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "ballast/backends/backends.h"
#include "ballast/base/hash.h"
#include "ballast/base/json.h"
#include "ballast/engine/generator.h"
#include "ballast/models/model.h"
#include "ballast/models/random_image.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/json_path.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/test_files.h"
#include "tests/support/training_runs.h"

namespace ballast::testing {

namespace {

constexpr size_t kDigestBytes = 8;
constexpr uint64_t kPromptLength = 72, kNewTokens = 8;  // longer than windows and original contexts of the models

class OutputDigest {
 public:
  void add(const Tensor& tensor) {
    for (const uint64_t dim : tensor.dims().span()) hash_.update_le(dim);
    const std::vector<float> values = read_floats(tensor);
    add(std::span(values));
  }
  template <typename T>
  void add(std::span<const T> values) {
    hash_.update(std::as_bytes(values));
  }
  void add(std::string_view text) { hash_.update(text); }
  std::string hex() const { return to_hex(ByteSpan(hash_.finish()).first(kDigestBytes)); }

 private:
  Blake3 hash_;
};

template <typename T>
T digestible(Result<T> result, const std::string& name) {
  if (result) return std::move(*result);
  ADD_FAILURE() << name << ": " << result.error().message;
  std::abort();
}

std::string digest_of(const Tensor& tensor) {
  OutputDigest digest;
  digest.add(tensor);
  return digest.hex();
}

// ---------------------------------------------------------------- the C library

template <typename T>
void add_math(OutputDigest& digest) {
  std::vector<T> results;
  for (int i = -2000; i <= 2000; ++i) {
    const T x = static_cast<T>(i) * static_cast<T>(0.0171);
    const T positive = std::abs(x) + static_cast<T>(0.001);
    results.insert(results.end(), {std::exp(x), std::expm1(x), std::tanh(x), std::erf(x), std::sin(x), std::cos(x),
                                   std::log(positive), std::log1p(positive), std::pow(positive, x / T{4})});
  }
  digest.add(std::span<const T>(results));
}

std::string math_digest() {
  OutputDigest digest;
  add_math<float>(digest);
  add_math<double>(digest);
  return digest.hex();
}

// ---------------------------------------------------------------- models

class DigestedModels {
 public:
  explicit DigestedModels(std::string backend) : backend_(std::move(backend)) {}

  OutputDigests take() {
    for (const auto& entry : std::filesystem::directory_iterator(test_file_path("hf"))) {
      if (!entry.is_directory()) continue;
      const std::string name = "hf/" + entry.path().filename().string();
      add_file(name);
      if (name.ends_with("bf16")) add_file(name, {.numerics = Numerics::kExact}, " exact");  // there are two ways
    }
    for (const RecordedGguf& file : recorded_ggufs()) add_file(below_data(file.path));
    for (const auto& entry : std::filesystem::directory_iterator(test_file_path("gguf/tiny"))) {
      if (entry.path().extension() != ".gguf") continue;
      add_file(below_data(entry.path()));
      const std::string file = entry.path().filename().string();
      if (file.find(".q") == std::string::npos && file.find(".bf16") == std::string::npos) continue;
      add_file(below_data(entry.path()), {.numerics = Numerics::kExact}, " exact");
    }
    for (const char* name : {"gpt_12layer", "gpt_base", "gpt_micro", "gpt_wide", "ministral_linear", "ministral_yarn"})
      add_file(fmt::format("gptrs/{}/model.gptrs", name));
    add_text("default", *load(default_model_file(), {}));
    for (const char* kind : {"resnet34", "mobilenet_v2"}) add_image_model(kind);
    for (const char* name : {"mlp_basic", "cnn_all_layers", "old_0_1_3", "old_0_2_7"}) add_layers(name);
    return std::move(digests_);
  }

 private:
  static std::string below_data(const std::filesystem::path& path) {
    return path.lexically_relative(test_file_path("")).generic_string();
  }

  std::unique_ptr<LoadedModel> load(const std::string& path, LoadOptions options) const {
    options.backend = backend_;
    options.threads = 2;
    return load_or_die(path, options);
  }

  void add_file(const std::string& name, const LoadOptions& options = {}, const std::string& suffix = "") {
    const auto model = load(test_file_path(name), options);
    if (model->as_causal_lm() != nullptr) add_text(name + suffix, *model);
    else add_embedder(name + suffix, *model);
  }

  static std::vector<TokenId> prompt(uint64_t vocabulary, uint64_t length) {
    std::vector<TokenId> ids;
    for (uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<TokenId>((3 + i * i * 7 + i) % vocabulary));
    return ids;
  }

  // The whole prompt at once without a cache, and a greedy text with one.
  void add_text(const std::string& name, LoadedModel& model) {
    const CausalLm& lm = *model.as_causal_lm();
    const auto ids = prompt(lm.vocab_size(), std::min(kPromptLength, lm.context_length() - kNewTokens));
    digests_[name + " logits"] = digest_of(digestible(lm.forward_tokens(model.context(), ids, LogitRows::kAll), name));
    auto generator = digestible(Generator::start(lm, model.context(), ids, greedily(kNewTokens)), name);
    OutputDigest steps, text;
    while (digestible(generator.next(), name)) steps.add(generator.logits());
    text.add(generator.tokens());
    digests_[name + " steps"] = steps.hex();
    digests_[name + " text"] = text.hex();
  }

  void add_embedder(const std::string& name, LoadedModel& model) {
    const TextEmbedder& embedder = *model.as_text_embedder();
    const auto ids = prompt(50, std::min<uint64_t>(kPromptLength, embedder.max_length()));
    digests_[name + " states"] = digest_of(digestible(model.forward(TokenInput{ids}), name));
    digests_[name + " vector"] = digest_of(
        digestible(embedder.embed(model.context(), std::array{EmbedderText{ids}}), name).reshaped({embedder.width()}));
  }

  void add_image_model(const std::string& kind) {
    const TempFolder folder;
    const auto model = load(write_rule_checkpoint(folder, kind, 1), {});
    const auto pixels = digestible(model->workspace().from(seeded_normals(1, 2 * 3 * 32 * 32), {2, 3, 32, 32}), kind);
    digests_[kind + " logits"] = digest_of(digestible(model->forward(ImageInput{pixels}), kind));
  }

  void add_layers(const std::string& name) {
    const bool one_file = std::filesystem::exists(netcl_path(name + ".netcl"));
    const auto model = load(netcl_path(one_file ? name + ".netcl" : name), {});
    const RecordedArray x = recorded_array(netcl_expectation(name), "input");
    const auto values = digestible(model->workspace().from(x.values, x.dims), name);
    digests_["netcl/" + name + " outputs"] = digest_of(digestible(model->forward(ValuesInput{values}), name));
  }

  std::string backend_;
  OutputDigests digests_;
};

// ---------------------------------------------------------------- training

class DigestedRuns {
 public:
  DigestedRuns(const std::string& backend, OutputDigests& digests)
      : settings_{.backend = *choose_backend(backend), .threads = 2}, digests_(digests) {}

  void add() {
    for (const char* optimizer : {"sgd", "momentum", "adam", "adamw", "rmsprop"})
      add_run(fmt::format("training sequential {}", optimizer), image_config(optimizer, 4), image_data());
    add_gpt("training gpt", "erf", "f32");
    add_gpt("training gpt bf16", "tanh", "bf16");
    add_loaded("ministral_yarn");
    add_loaded("ministral_linear");
  }

 private:
  void add_gpt(const std::string& name, const std::string& gelu, const std::string& precision) {
    const TempFolder folder;
    TrainConfig config = letters_config(folder);
    config.model.kind = "gpt";
    config.model.gpt = {.context_length = 16, .embed_dim = 24, .num_layers = 2, .num_heads = 3};
    config.model.gpt.gelu = gelu;
    config.model.gpt.dropout = 0.1;
    config.train.precision = precision;
    add_text_run(name, config);
  }

  void add_loaded(const std::string& model) {
    const TempFolder folder;
    TrainConfig config = letters_config(folder);
    config.model.init = recorded_model_path(model);
    config.data.tokenizer = test_file_path("gptrs/ministral_yarn/tokenizer.json");
    add_text_run("training " + model, config);
  }

  void add_text_run(const std::string& name, TrainConfig& config) {
    config.train.steps = 3;
    config.train.batch_size = 2;
    add_run(name, config, open_letters(config, 16));
  }

  void add_run(const std::string& name, const TrainConfig& config, TrainingData data) {
    const auto trainer = trainer_of(config, std::move(data), settings_);
    double loss = 0;
    for (uint64_t i = 0; i < config.train.steps; ++i) loss = digestible(trainer->advance(), name).loss;
    OutputDigest digest;
    digest.add(bits_of(*trainer));
    digests_[name + " state"] = digest.hex();
    digests_[name + " loss"] = fmt::format("{:.3f}", loss);
  }

  TrainerSettings settings_;
  OutputDigests& digests_;
};

const std::string& digests_path() {
  static const std::string path = test_file_path("output_digests.json");
  return path;
}

}  // namespace

OutputDigests compute_output_digests(const std::string& backend) {
  OutputDigests digests = DigestedModels(backend).take();
  DigestedRuns(backend, digests).add();
  digests["math"] = math_digest();
  return digests;
}

bool is_comparable(const std::string& name, const OutputDigests& recorded, const OutputDigests& computed) {
  if (name == "math") return false;
  const auto a = recorded.find("math"), b = computed.find("math");
  if (a != recorded.end() && b != computed.end() && a->second == b->second) return true;
  return name.ends_with(" text") || name.ends_with(" loss");
}

DigestSections read_recorded_digests() {
  DigestSections sections;
  if (!std::filesystem::exists(digests_path())) return sections;
  const std::string text = read_text_file(digests_path());
  for (const std::string& section : json_keys(text, "")) {
    for (const auto& [name, raw] : json_members(text, section)) sections[section][name] = json_string(raw);
  }
  return sections;
}

void write_recorded_digests(const DigestSections& sections) {
  JsonWriter json(true);
  json.begin_object();
  for (const auto& [section, digests] : sections) {
    json.key(section).begin_object();
    for (const auto& [name, digest] : digests) json.key(name).string(digest);
    json.end_object();
  }
  json.end_object();
  std::ofstream(digests_path()) << json.take() << "\n";
}

}  // namespace ballast::testing
