#include "ballast/edit/modules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <unordered_map>

#include "ballast/archive/pattern.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast {

namespace {

constexpr std::array<std::string_view, 10> kKindNames = {
    "Linear", "Embedding", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RmsNorm", "PRelu", "Other"};

// ---------------------------------------------------------------- words in names

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// "LayerNorm_2" -> layer, norm; "q_proj" -> q, proj; "fc1" -> fc.
std::vector<std::string> words_of(std::string_view component) {
  std::vector<std::string> words;
  bool inside = false;
  char before = 0;
  for (const char c : component) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool hump = is_upper(c) && !is_upper(before);
    if (letter && (!inside || hump)) words.emplace_back();
    if (letter) words.back() += to_lower(c);
    inside = letter;
    before = c;
  }
  return words;
}

// The last component of a module's path that is not a number: "mlp" of "blocks.0.mlp.2.".
std::string_view own_component(std::string_view module) {
  while (!module.empty()) {
    module.remove_suffix(1);  // the separator
    const size_t dot = module.find_last_of(".:");
    const std::string_view component = dot == std::string_view::npos ? module : module.substr(dot + 1);
    if (!std::ranges::all_of(component, is_digit)) return component;
    module = dot == std::string_view::npos ? std::string_view() : module.substr(0, dot + 1);
  }
  return {};
}

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

constexpr auto kNormWords = std::to_array<std::string_view>({"ln", "bn", "gn", "rms"});
constexpr auto kEmbeddingWords = std::to_array<std::string_view>({"emb", "embs", "wte", "wpe", "tok", "codebook"});
constexpr auto kLinearWords = std::to_array<std::string_view>(
    {"linear", "lin", "fc",     "proj", "projection", "dense", "q",    "k",      "v",     "o",      "qkv",       "kv",
     "query",  "key", "value",  "wq",   "wk",         "wv",    "wo",   "wqkv",   "w",     "gate",   "up",        "down",
     "head",   "out", "output", "mlp",  "ffn",        "attn",  "lora", "router", "score", "logits", "classifier"});

bool is_norm_word(std::string_view word) {
  return word.find("norm") != std::string_view::npos || is_one_of(word, kNormWords);
}
bool is_embedding_word(std::string_view word) { return word.starts_with("embed") || is_one_of(word, kEmbeddingWords); }
bool is_linear_word(std::string_view word) { return is_one_of(word, kLinearWords); }

// What a module's own name says it is, or nothing.
struct NameEvidence {
  bool norm = false;
  bool embedding = false;
  bool linear = false;
  bool prelu = false;
  std::vector<std::string> words;

  explicit NameEvidence(std::string_view module) : words(words_of(own_component(module))) {
    if (words.empty()) return;
    norm = std::ranges::any_of(words, is_norm_word);
    prelu = std::ranges::any_of(words, [](const std::string& word) { return word == "prelu"; });
    // The last word is the noun: embed_out is a Linear, head_embed an Embedding.
    if (is_linear_word(words.back())) linear = true;
    else if (std::ranges::any_of(words, is_embedding_word)) embedding = true;
    else linear = std::ranges::any_of(words, is_linear_word);
  }

  bool has(std::string_view part) const {
    return std::ranges::any_of(words, [&](const std::string& word) { return word.find(part) != std::string::npos; });
  }
};

// ---------------------------------------------------------------- modules

struct Module {
  std::string_view path;
  const TensorInfo* weight = nullptr;
  const TensorInfo* bias = nullptr;
  const TensorInfo* gamma = nullptr;
  const TensorInfo* beta = nullptr;
  const TensorInfo* alpha = nullptr;
  bool running_statistics = false;

  void add(std::string_view leaf, const TensorInfo& tensor) {
    if (leaf == "weight") weight = &tensor;
    else if (leaf == "bias") bias = &tensor;
    else if (leaf == "gamma") gamma = &tensor;
    else if (leaf == "beta") beta = &tensor;
    else if (leaf == "alpha") alpha = &tensor;
    else if (leaf == "running_mean" || leaf == "running_var") running_statistics = true;
  }

  bool has_vector_bias() const { return bias != nullptr && bias->shape.rank() == 1; }
};

struct CompiledHints {
  std::vector<Pattern> linear;
  std::vector<Pattern> not_linear;
  std::vector<Pattern> norm;
};

ModuleKind norm_kind(const NameEvidence& name, bool has_shift) {
  if (name.has("batch") || name.has("bn")) return ModuleKind::kBatchNorm;
  if (name.has("group") || name.has("gn")) return ModuleKind::kGroupNorm;
  if (name.has("instance")) return ModuleKind::kInstanceNorm;
  if (name.has("rms") || !has_shift) return ModuleKind::kRmsNorm;
  return ModuleKind::kLayerNorm;
}

// Which sides of a matrix a bias fits.
struct BiasFit {
  bool output = false;  // the side that a Linear of this layout has its outputs on
  bool other = false;
};

BiasFit bias_fit(const Module& module, LinearLayout layout) {
  const uint64_t length = module.bias->shape[0];
  const bool first = module.weight->shape[0] == length;
  const bool second = module.weight->shape[1] == length;
  if (layout == LinearLayout::kUnknown) return {first || second, false};
  return layout == LinearLayout::kOutIn ? BiasFit{first, second} : BiasFit{second, first};
}

class Classifier {
 public:
  Classifier(const Description& description, LinearLayout layout) : description_(description), layout_(layout) {}

  Result<std::vector<ModuleGuess>> run(const ModuleHints& hints) {
    BALLAST_TRY(hints_.linear, Pattern::compile_all(hints.linear));
    BALLAST_TRY(hints_.not_linear, Pattern::compile_all(hints.not_linear));
    BALLAST_TRY(hints_.norm, Pattern::compile_all(hints.norm));
    gather_modules();
    BALLAST_CHECK(read_netcl_config());
    std::vector<ModuleGuess> of_module;
    for (const Module& module : modules_) {
      BALLAST_TRY(const ModuleGuess guess, classify(module));
      of_module.push_back(guess);
    }
    std::vector<ModuleGuess> guesses;
    guesses.reserve(module_of_.size());
    for (const size_t module : module_of_) guesses.push_back(of_module[module]);
    return guesses;
  }

 private:
  void gather_modules() {
    std::unordered_map<std::string_view, size_t> position;
    for (const TensorInfo& tensor : description_.tensors) {
      const SplitName name = split_name(tensor.name);
      const auto [found, is_new] = position.emplace(name.module, modules_.size());
      if (is_new) modules_.push_back({.path = name.module});
      modules_[found->second].add(name.leaf, tensor);
      module_of_.push_back(found->second);
    }
    for (const Module& module : modules_) {
      if (module.weight == nullptr || module.weight->shape.rank() != 2 || !module.has_vector_bias()) continue;
      const BiasFit fit = bias_fit(module, layout_);
      if (fit.other && !fit.output) other_layout_seen_ = true;
    }
  }

  Status read_netcl_config() {
    const auto& config = description_.config;
    if (!config || config->schema != kNetclSchema) return {};
    const auto visit = [&](const NetclLayer& layer) -> Status {
      netcl_types_.push_back(parse_module_kind(layer.type).value_or(ModuleKind::kOther));
      return {};
    };
    BALLAST_TRY(const NetclModel model, parse_netcl_config(config->text, "model config", visit));
    static_cast<void>(model);
    return {};
  }

  // What the config says of the layer "<number>:".
  std::optional<ModuleKind> configured(const Module& module) const {
    if (netcl_types_.empty() || module.path.empty()) return std::nullopt;
    const std::string_view number = module.path.substr(0, module.path.size() - 1);
    size_t layer = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (error != std::errc() || end != number.data() + number.size() || layer >= netcl_types_.size())
      return std::nullopt;
    return netcl_types_[layer];
  }

  Result<ModuleGuess> classify(const Module& module) const {
    const TensorInfo* main = module.weight != nullptr ? module.weight : module.gamma;
    const NameEvidence name(module.path);
    bool not_linear = false;
    if (main != nullptr) {
      BALLAST_TRY(const bool norm, any_found(hints_.norm, main->name));
      if (norm) return ModuleGuess{norm_kind(name, module.bias != nullptr || module.beta != nullptr)};
      BALLAST_TRY(const bool linear, any_found(hints_.linear, main->name));
      if (linear && main->shape.rank() == 2) return ModuleGuess{ModuleKind::kLinear};
      BALLAST_TRY(not_linear, any_found(hints_.not_linear, main->name));
    }
    if (const auto kind = configured(module)) return ModuleGuess{*kind};
    if (module.running_statistics) {
      return ModuleGuess{name.has("instance") ? ModuleKind::kInstanceNorm : ModuleKind::kBatchNorm};
    }
    if (module.gamma != nullptr) return ModuleGuess{norm_kind(name, module.beta != nullptr)};
    if (module.weight == nullptr) return ModuleGuess{module.alpha != nullptr ? ModuleKind::kPRelu : ModuleKind::kOther};
    switch (module.weight->shape.rank()) {
      case 0: return ModuleGuess{name.prelu ? ModuleKind::kPRelu : ModuleKind::kOther};
      case 1: return classify_vector(module, name);
      case 2: return classify_matrix(module, name, not_linear);
      default: return ModuleGuess{ModuleKind::kConv};
    }
  }

  ModuleGuess classify_vector(const Module& module, const NameEvidence& name) const {
    // Burn and netcl call a norm's scale gamma; a vector called weight is something else there.
    if (layout_ == LinearLayout::kInOut) return {name.prelu ? ModuleKind::kPRelu : ModuleKind::kOther};
    if (name.prelu) return {ModuleKind::kPRelu};
    const bool has_shift = module.bias != nullptr && module.bias->shape == module.weight->shape;
    if (name.norm || has_shift) return {norm_kind(name, has_shift)};
    return {ModuleKind::kRmsNorm, ModuleKind::kOther, "a vector whose name does not say that it is a norm"};
  }

  ModuleGuess classify_matrix(const Module& module, const NameEvidence& name, bool not_linear) const {
    const bool has_bias = module.has_vector_bias();
    if (not_linear) return {has_bias ? ModuleKind::kOther : ModuleKind::kEmbedding};
    // A LayerNorm over two axes has a bias of the weight's own shape.
    if (name.norm && !has_bias) return {norm_kind(name, module.bias != nullptr)};
    if (has_bias) return classify_biased(bias_fit(module, layout_));
    if (name.linear) return {ModuleKind::kLinear};
    if (name.embedding) return {ModuleKind::kEmbedding};
    return {ModuleKind::kLinear, ModuleKind::kEmbedding, "no bias beside it, and the name does not tell"};
  }

  ModuleGuess classify_biased(BiasFit fit) const {
    if (fit.output && fit.other && other_layout_seen_) {
      return {ModuleKind::kLinear, ModuleKind::kOther, "square, and other matrices here lie the other way round"};
    }
    if (fit.output) return {ModuleKind::kLinear};
    if (fit.other)
      return {ModuleKind::kLinear, ModuleKind::kOther, "its bias fits only if it lies the other way round"};
    return {ModuleKind::kLinear, ModuleKind::kOther, "its bias fits neither side"};
  }

  const Description& description_;
  LinearLayout layout_;
  CompiledHints hints_;
  std::vector<Module> modules_;
  std::vector<size_t> module_of_;  // of each tensor
  std::vector<ModuleKind> netcl_types_;
  // Matrices of GPT-2 lie as in Burn even in PyTorch files. Where one is met, square ones are no longer certain.
  bool other_layout_seen_ = false;
};

}  // namespace

std::string_view module_kind_name(ModuleKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::vector<std::string_view> module_kind_names() { return {kKindNames.begin(), kKindNames.end()}; }

std::optional<ModuleKind> parse_module_kind(std::string_view name) {
  std::string word;
  for (const char c : name) word += to_lower(c);
  if (word.size() > 2 && word.back() == 'd' && is_digit(word[word.size() - 2])) word.resize(word.size() - 2);
  if (word == "convtranspose" || word == "deformconv") return ModuleKind::kConv;
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (std::ranges::equal(word, kKindNames[i], {}, {}, to_lower)) return static_cast<ModuleKind>(i);
  }
  return std::nullopt;
}

SplitName split_name(std::string_view name) {
  const size_t separator = name.find_last_of(".:");
  if (separator == std::string_view::npos) return {{}, name};
  return {name.substr(0, separator + 1), name.substr(separator + 1)};
}

Result<std::vector<ModuleGuess>> classify_modules(const Description& description, LinearLayout layout,
                                                  const ModuleHints& hints) {
  return Classifier(description, layout).run(hints);
}

}  // namespace ballast
