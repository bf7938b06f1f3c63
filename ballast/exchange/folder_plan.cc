#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/edit/quantize.h"
#include "ballast/exchange/exchange.h"
#include "ballast/exchange/folder_config.h"
#include "ballast/exchange/folder_gptrs.h"
#include "ballast/exchange/folder_tokenizer.h"
#include "ballast/io/guard.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- types

// The type of most of the weights, once they are dequantised.
DType main_type(const Description& file, const FolderOptions& options) {
  if (options.dtype) return *options.dtype;
  std::map<DType, uint64_t> elements;
  for (const TensorInfo& tensor : file.tensors) {
    const DType dtype = is_block(tensor.dtype) ? options.dequantize.value_or(DType::kF32) : tensor.dtype;
    elements[dtype] += tensor.shape.element_count().value_or(0);
  }
  const auto most = std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
  return most == elements.end() ? DType::kF32 : most->first;
}

bool is_quantised(const Description& file) {
  return std::ranges::any_of(file.tensors, [](const TensorInfo& tensor) { return is_block(tensor.dtype); });
}

// ---------------------------------------------------------------- GGUF

class GgufFolder {
 public:
  GgufFolder(const ExchangeSource& source, const FolderOptions& options) : source_(source), options_(options) {}

  Result<ExchangePlan> plan() {
    BALLAST_CHECK(read_vocabulary());
    BALLAST_TRY(const bool is_bert, is_encoder());
    BALLAST_CHECK(is_bert ? plan_bert() : plan_decoder());
    BALLAST_CHECK(add_tokenizer());
    return std::move(plan_);
  }

 private:
  const Description& file() const { return source_.archive.description(); }

  Result<bool> is_encoder() {
    metadata_ = runnable_config(file())->text;
    BALLAST_TRY(const JsonObject fields, parse_kind_config("gguf", metadata_));
    if (!fields.has("general.architecture")) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: it names no model (\"general.architecture\" is missing), so there is no "
                                    "config.json to write for it",
                                    source_.path));
    }
    BALLAST_TRY(const std::string architecture, fields.text("general.architecture"));
    return architecture == "bert";
  }

  Status plan_decoder() {
    BALLAST_TRY(const DecoderDescription d, describe_gguf(metadata_));
    context_ = d.context;
    BALLAST_TRY(const FolderFamily* family, find_folder_family(d));
    const FolderLayout layout = folder_layout(*family);
    BALLAST_TRY(FolderTensors tensors, plan_decoder_tensors(d, layout, source_.archive));
    BALLAST_TRY(std::string config, folder_config(*family, d, facts(tensors), source_.archive));
    // What is written must be what we ourselves can run.
    BALLAST_CHECK(describe_huggingface(config));
    add("config.json", std::move(config));
    add_edits(std::move(tensors), layout.transposed);
    return {};
  }

  Status plan_bert() {
    BALLAST_TRY(const BertDescription d, describe_bert({.text = metadata_, .words = KindConfig::Words::kGguf}));
    context_ = d.positions;
    BALLAST_TRY(FolderTensors tensors, plan_bert_tensors(d, source_.archive));
    add("config.json", folder_bert_config(d, facts(tensors)));
    add_sentence(d);
    add_edits(std::move(tensors), false);
    return {};
  }

  FolderFacts facts(const FolderTensors& tensors) const {
    return {tensors, main_type(file(), options_), tokens_ ? tokens_->marks : TokenMarks{}};
  }

  // Matrices must be unpacked before they are transposed; otherwise rows are moved first, packed, and stacks of experts
  // are taken apart where they lie.
  void add_edits(FolderTensors tensors, bool transposes) {
    PlanEdit move = move_tensors(source_.archive, std::move(tensors));
    if (!transposes) plan_.edits.push_back(std::move(move));
    if (is_quantised(file()) && (options_.dequantize || transposes)) {
      plan_.edits.push_back(dequantize_tensors(options_.dequantize.value_or(DType::kF32), options_.casts));
    }
    if (transposes) plan_.edits.push_back(std::move(move));
  }

  // sentence-transformers' own files say how the states of tokens become one vector.
  void add_sentence(const BertDescription& d) {
    if (d.pooling == Pooling::kNone) return;
    add("modules.json",
        "[\n"
        "  {\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"},\n"
        "  {\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}\n"
        "]\n");
    const bool first = d.pooling == Pooling::kFirst;
    add("1_Pooling/config.json", fmt::format("{{\n"
                                             "  \"word_embedding_dimension\": {},\n"
                                             "  \"pooling_mode_cls_token\": {},\n"
                                             "  \"pooling_mode_mean_tokens\": {}\n"
                                             "}}\n",
                                             d.width, first, !first));
  }

  Status read_vocabulary() {
    if (!has_gguf_vocabulary(file())) return {};
    BALLAST_TRY(vocabulary_, read_gguf_vocabulary(file(), source_.path));
    BALLAST_TRY(tokens_, describe_gguf_vocabulary(vocabulary_, source_.path));
    return {};
  }

  Status add_tokenizer() {
    if (!tokens_) {
      plan_.notes.push_back("the file holds no vocabulary, so the folder has no tokenizer");
      return {};
    }
    const FolderTokenizer tokenizer{vocabulary_, *tokens_, file(), source_.path};
    BALLAST_TRY(std::string json, folder_tokenizer_json(tokenizer));
    add("tokenizer.json", std::move(json));
    add("tokenizer_config.json", folder_tokenizer_config(tokenizer, context_));
    if (vocabulary_.model != "bert") add("generation_config.json", folder_generation_config(tokens_->marks, file()));
    plan_.notes.insert(plan_.notes.end(), tokens_->notes.begin(), tokens_->notes.end());
    return {};
  }

  void add(std::string name, std::string contents) {
    plan_.companions.push_back({std::move(name), std::move(contents)});
  }

  const ExchangeSource& source_;
  const FolderOptions& options_;
  std::string metadata_;
  GgufVocabulary vocabulary_;
  std::optional<TokenizerDescription> tokens_;
  uint64_t context_ = 0;
  ExchangePlan plan_;
};

}  // namespace

Result<ExchangePlan> plan_folder(const ExchangeSource& source, const FolderOptions& options) {
  return guarded([&]() -> Result<ExchangePlan> {
    const std::string& format = source.archive.description().format;
    if (format == "gguf") return GgufFolder(source, options).plan();
    if (has_gptrs_config(source.archive.description())) return plan_gptrs_folder(source);
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: a {} file does not become a Hugging Face folder; a GGUF file, a gpt.rs "
                                  "checkpoint or a text model trained here does",
                                  source.path, format));
  });
}

}  // namespace ballast
