#include "ballast/exchange/folder_gptrs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/edit/huggingface.h"
#include "ballast/exchange/folder_tensors.h"
#include "ballast/exchange/runnable.h"
#include "ballast/formats/drivers.h"
#include "ballast/io/file.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/decoder_config.h"
#include "ballast/models/config/model_config.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr uint64_t kMostTokenizerBytes = uint64_t{256} << 20;

Result<HuggingFaceReport> to_huggingface_names(WritePlan& plan, std::vector<std::string>& notes) {
  HuggingFaceOptions options;
  options.config_wanted = true;
  return gptrs_to_huggingface(plan, options, notes);
}

// gpt.rs's GPT computes the exact GELU unless it says otherwise, and transformers' GPT-2 the one with tanh: the folder
// says which, so that it computes what the checkpoint computes.
constexpr std::string_view kGeluKey = "activation_function";

// Where config.json is silent, transformers takes GPT-2's own mark for the end of a text.
constexpr uint64_t kGpt2End = 50256;

// Says what transformers would otherwise assume of any GPT-2.
Status name_gpt2_defaults(std::string& config) {
  if (config.find("GPT2LMHeadModel") == std::string::npos) return {};
  BALLAST_TRY(const JsonObject fields, parse_kind_config("gpt2", config));
  BALLAST_TRY(const uint64_t vocab, fields.count("vocab_size"));
  std::string said;
  if (!fields.has(kGeluKey)) said += fmt::format("\n  \"{}\": \"gelu\",", kGeluKey);
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (vocab <= kGpt2End && !fields.has(key)) said += fmt::format("\n  \"{}\": null,", key);
  }
  config.insert(config.find('{') + 1, said);
  return {};
}

Status to_folder(WritePlan& plan, std::vector<std::string>& notes) {
  std::vector<std::string> said;
  BALLAST_CHECK(to_huggingface_names(plan, said));
  for (std::string& note : said) {
    if (note.find(kGeluKey) == std::string::npos) notes.push_back(std::move(note));
  }
  plan.description.config.reset();  // it is a file of its own
  plan.description.metadata = {{"format", std::string("pt")}};
  return {};
}

// ---------------------------------------------------------------- later generations

// Their configs are those of transformers, but for the keys that gpt.rs does not read.
Result<std::string> with_model_type(const std::string& config, std::string_view type, std::string_view class_name) {
  BALLAST_TRY(const JsonObject fields, parse_kind_config(type, config));
  if (fields.has("model_type")) return config + '\n';
  const size_t brace = config.find('{');
  const bool is_empty = config.find('"') == std::string::npos;
  return fmt::format("{{\n  \"architectures\": [\"{}\"],\n  \"model_type\": \"{}\"{}{}\n", class_name, type,
                     is_empty ? "" : ",", config.substr(brace + 1));
}

// Names and layouts are transformers' already.
Status keep_names(WritePlan& plan, std::vector<std::string>&) {
  Description& description = plan.description;
  description.metadata = {{"format", std::string("pt")}};
  description.config.reset();
  description.stored_form.clear();
  for (TensorInfo& tensor : description.tensors) tensor.set_stored_form({});
  return {};
}

Status add_newer_gpt(const ExchangeSource& source, const KindConfig& model, ExchangePlan& plan) {
  BALLAST_TRY(const DecoderDescription d, describe_decoder(model));
  const FolderLayout layout{.naming = &kGpt2Naming, .prefix = "transformer.", .fused_qkv = true, .transposed = true};
  BALLAST_TRY(FolderTensors tensors, plan_decoder_tensors(d, layout, source.archive));
  plan.edits.push_back(move_tensors(source.archive, std::move(tensors)));
  return {};
}

// `file_config`: as the file has it
Result<ExchangePlan> plan_newer(const ExchangeSource& source, const std::string& file_config, const KindConfig& model) {
  ExchangePlan plan;
  const std::string& kind = model.gptrs_kind;
  const std::string config = model.text == "null" ? "{}" : model.text;
  const bool is_gpt = kind == "gpt";
  BALLAST_TRY(std::string text, is_gpt ? with_model_type(config, "gpt2", "GPT2LMHeadModel")
                                       : with_model_type(config, "llama", "LlamaForCausalLM"));
  plan.companions.push_back({"config.json", std::move(text)});
  if (is_gpt) BALLAST_CHECK(add_newer_gpt(source, model, plan));
  else plan.edits.emplace_back(keep_names);
  BALLAST_TRY(const JsonObject file, parse_kind_config(kind, file_config));
  if (!file.has("eos_token_ids")) return plan;
  BALLAST_TRY(const auto ends, file.counts("eos_token_ids"));
  plan.companions.push_back(
      {"generation_config.json", fmt::format("{{\n  \"eos_token_id\": [{}]\n}}\n", fmt::join(ends, ", "))});
  return plan;
}

Result<ExchangePlan> plan_first(const ExchangeSource& source) {
  ExchangePlan plan;
  // Run on a plan of its own for its config; the edit runs it on the one that is written.
  WritePlan probe = make_plan(source.archive);
  std::vector<std::string> unsaid;
  BALLAST_CHECK(unwrap_config(kGptrsCheckpointDriver)(probe, unsaid));
  BALLAST_TRY(HuggingFaceReport report, to_huggingface_names(probe, unsaid));
  BALLAST_CHECK(name_gpt2_defaults(report.config_text));
  plan.companions.push_back({"config.json", std::move(report.config_text)});
  plan.edits.emplace_back(to_folder);
  return plan;
}

// ---------------------------------------------------------------- the tokenizer

Result<std::string> read_tokenizer_text(const fs::path& path) {
  BALLAST_TRY(const auto source, open_file(path.string(), FileAccess::kPositional));
  if (source->size() > kMostTokenizerBytes) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: {} bytes are too many for a tokenizer file", path.string(), source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The id of a token; nullopt where the vocabulary does not have it.
Result<std::optional<uint64_t>> id_in(std::string_view vocab, std::string_view token, const std::string& where) {
  JsonReader reader(vocab, where);
  BALLAST_CHECK(reader.enter_object());
  std::string_view key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) return std::optional<uint64_t>();
    const bool found = key == token;
    BALLAST_TRY(const uint64_t id, reader.read_u64());
    if (found) return std::optional(id);
  }
}

// A line of merges.txt each, below the one with its version.
std::string merges_list(std::string_view lines) {
  JsonWriter json;
  json.begin_array();
  for (bool first = true; !lines.empty(); first = false) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(first && line.starts_with("#version"))) json.string(line);
  }
  json.end_array();
  return json.take();
}

struct FlatTokenizer {
  std::string_view vocab;
  std::string merges;
  std::string mark;  // the one special token that such files know
};

Result<std::string> byte_level_document(const FlatTokenizer& flat, bool mark_is_unknown, const std::string& where) {
  constexpr std::string_view kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  BALLAST_TRY(const auto mark, id_in(flat.vocab, flat.mark, where));
  JsonWriter json;
  json.begin_object().key("version").string("1.0").key("truncation").null().key("padding").null();
  json.key("added_tokens").begin_array();
  if (mark) {
    json.begin_object().key("id").number(*mark).key("content").string(flat.mark);
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) json.key(key).boolean(false);
    json.key("special").boolean(true).end_object();
  }
  json.end_array().key("normalizer").null();
  for (const char* key : {"pre_tokenizer", "post_processor", "decoder"}) json.key(key).raw(kByteLevel);
  json.key("model").begin_object().key("type").string("BPE").key("dropout").null().key("unk_token");
  if (mark && mark_is_unknown) json.string(flat.mark);
  else json.null();
  json.key("continuing_subword_prefix").null().key("end_of_word_suffix").null();
  json.key("fuse_unk").boolean(false).key("byte_fallback").boolean(false);
  json.key("vocab").raw(flat.vocab).key("merges").raw(flat.merges).end_object().end_object();
  return json.take() + '\n';
}

// The tokenizer that stands beside the checkpoint, for transformers.
Status add_tokenizer_beside(const ExchangeSource& source, ExchangePlan& plan) {
  const auto found = source.path.empty() || source.path == "-" ? std::nullopt : find_tokenizer_beside(source.path);
  if (!found) {
    plan.notes.push_back("no tokenizer is beside the checkpoint, so the folder has none");
    return {};
  }
  const fs::path path = *found;
  BALLAST_TRY(const std::string text, read_tokenizer_text(path));
  const bool is_json = path.extension() == ".json";
  if (is_json) {
    std::optional<std::string> merges;
    const fs::path beside = path.parent_path() / "merges.txt";
    if (path.filename() == "vocab.json" && is_there(beside)) BALLAST_CHECK(assign(merges, read_tokenizer_text(beside)));
    BALLAST_TRY(std::string json, gptrs_tokenizer_json(text, merges ? &*merges : nullptr, path.string()));
    plan.companions.push_back({"tokenizer.json", std::move(json)});
  } else {
    plan.companions.push_back({path.filename().string(), text});
  }
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}) {
    if (!is_there(path.parent_path() / name)) continue;
    BALLAST_TRY(std::string contents, read_tokenizer_text(path.parent_path() / name));
    plan.companions.push_back({name, std::move(contents)});
  }
  const bool has_config =
      std::ranges::find(plan.companions, "tokenizer_config.json", &CompanionFile::name) != plan.companions.end();
  if (is_json && !has_config) {
    plan.companions.push_back({"tokenizer_config.json", "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n"});
  }
  return {};
}

}  // namespace

Result<std::string> gptrs_tokenizer_json(const std::string& json, const std::string* merges, const std::string& where) {
  if (merges != nullptr) {
    return byte_level_document({json, merges_list(*merges), std::string(kEndOfText)}, false, where);
  }
  BALLAST_TRY(const JsonObject fields, JsonObject::parse(json, where, kStrictRules));
  if (fields.has("model")) return json;
  const auto vocab = fields.find("vocab"), pairs = fields.find("merges");
  if (!vocab || !pairs) return fields.corrupt("it has no vocabulary with merges, so it is no tokenizer");
  BALLAST_TRY(std::string unknown, fields.text_or("unk_token", "<unk>"));
  return byte_level_document({*vocab, std::string(*pairs), std::move(unknown)}, true, where);
}

bool has_gptrs_config(const Description& file) {
  const auto config = runnable_config(file);
  return config && config->schema == kGptrsSchema;
}

Result<ExchangePlan> plan_gptrs_folder(const ExchangeSource& source) {
  const std::string config = runnable_config(source.archive.description())->text;
  BALLAST_TRY(const ModelDescription model, parse_model_config(config, source.path));
  const bool is_newer = model.kind == "decoder";
  BALLAST_TRY(ExchangePlan plan, is_newer ? plan_newer(source, config, model.config) : plan_first(source));
  plan.edits.insert(plan.edits.begin(), unwrap_config(kGptrsCheckpointDriver));
  BALLAST_CHECK(add_tokenizer_beside(source, plan));
  return plan;
}

}  // namespace ballast
