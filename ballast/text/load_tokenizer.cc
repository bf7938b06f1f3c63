#include "ballast/text/load_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "ballast/archive/file_set.h"
#include "ballast/io/file_system.h"
#include "ballast/io/guard.h"
#include "ballast/text/tokenizer/byte_tokenizer.h"
#include "ballast/text/tokenizer/gguf_vocabulary.h"
#include "ballast/text/tokenizer/sentencepiece_file.h"
#include "ballast/text/tokenizer/tokenizer_file.h"

namespace ballast {

namespace {

// Far above any vocabulary in use, far below what could hurt.
constexpr uint64_t kLargest = uint64_t{256} << 20;
constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::array<const char*, 3> kTokenizerNames = {"tokenizer.json", "tokenizer.model", "vocab.json"};

Result<std::string> read_tokenizer_text(const FileSet& files, const std::string& name) {
  return read_text_of(files, name, kLargest, "a tokenizer file");
}

bool begins_as_gguf(const Result<std::shared_ptr<const ByteSource>>& source) {
  if (!source || (*source)->size() < kGgufMagic.size()) return false;
  const auto bytes = read_bytes(**source, 0, kGgufMagic.size());
  return bytes && as_text(*bytes) == kGgufMagic;
}

// Whether the weights stand in a GGUF file, by its first bytes: a damaged one must not pass for a model without a
// vocabulary.
bool is_gguf(const ModelSource& model) { return begins_as_gguf(model.first_file()); }

Result<TokenizerDescription> describe_gguf(const ModelSource& model) {
  BALLAST_TRY(const auto archive, model.archive());
  BALLAST_TRY(GgufVocabulary vocabulary, read_gguf_vocabulary(archive->description(), model.name()));
  return describe_gguf_vocabulary(std::move(vocabulary), model.name());
}

Result<TokenizerDescription> describe_content(const FileSet& files, const std::string& name) {
  BALLAST_TRY(const std::string text, read_tokenizer_text(files, name));
  const std::string place = files.place_of(name);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && text[begin] != '{') {
    if (looks_like_sentencepiece(text)) return parse_sentencepiece(text, place);
    return make_error(ErrorCode::kUnknownFormat,
                      fmt::format("{}: neither a tokenizer.json nor a SentencePiece model nor a GGUF file", place));
  }
  BALLAST_TRY(const bool has_merges, files.has("merges.txt"));
  if (name == "vocab.json" && has_merges) {
    BALLAST_TRY(const std::string merges, read_tokenizer_text(files, "merges.txt"));
    return parse_vocab_and_merges(text, place, merges, files.place_of("merges.txt"));
  }
  return parse_tokenizer_json(text, place);
}

Result<TokenizerDescription> describe(const FileSet& files, const std::string& name) {
  BALLAST_TRY(TokenizerDescription description, describe_content(files, name));
  BALLAST_TRY(const auto config, read_if_there(files, "tokenizer_config.json", kLargest, "a tokenizer file"));
  if (config) BALLAST_CHECK(apply_tokenizer_config(*config, files.place_of("tokenizer_config.json"), description));
  return description;
}

Result<std::optional<std::string>> find_in(const FileSet& files) {
  for (const char* name : kTokenizerNames) {
    BALLAST_TRY(const bool is_there, files.has(name));
    if (is_there) return std::optional<std::string>(name);
  }
  return std::optional<std::string>();
}

// The GGUF file of a folder that holds one, and so the vocabulary too; nullopt where there are several.
Result<std::optional<std::string>> find_only_gguf(const FileSet& files) {
  std::optional<std::string> found;
  BALLAST_TRY(const std::vector<std::string> names, files.names());
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf") || !begins_as_gguf(files.open(name, FileAccess::kPositional))) continue;
    if (found) return std::optional<std::string>();
    found = name;
  }
  return found;
}

// Where the tokenizer of a model is: in its GGUF file, or in a file of this name beside it.
struct TokenizerPlace {
  bool in_weights = false;
  std::string name = {};  // of a GGUF file where `is_gguf`
  bool is_gguf = false;
};

Result<std::optional<TokenizerPlace>> find_place(const ModelSource& model) {
  using Place = std::optional<TokenizerPlace>;
  // What stands beside a file that is not there is the tokenizer of another model.
  if (model.files() != nullptr && !model.is_folder()) BALLAST_CHECK(model.first_file());
  const bool weights_have_it = is_gguf(model);
  if (weights_have_it && !model.is_folder()) return Place({.in_weights = true});
  if (model.files() == nullptr) return Place();
  BALLAST_TRY(const auto beside, find_in(*model.files()));
  if (beside) return Place({.name = *beside});
  if (weights_have_it) return Place({.in_weights = true});
  if (!model.is_folder()) return Place();
  BALLAST_TRY(const auto other, find_only_gguf(*model.files()));
  return other ? Place({.name = *other, .is_gguf = true}) : Place();
}

Result<TokenizerDescription> describe_place(const ModelSource& model, const TokenizerPlace& place) {
  if (place.in_weights) return describe_gguf(model);
  if (!place.is_gguf) return describe(*model.files(), place.name);
  BALLAST_TRY(auto source, model.files()->open(place.name, FileAccess::kMapped));
  return describe_gguf(ModelSource(NamedSources{{place.name, std::move(source)}}, model.name()));
}

bool is_there(const std::string& path) {
  const auto file = is_file(os_file_system(), path), folder = is_folder(os_file_system(), path);
  return (file && *file) || (folder && *folder);
}

Result<Tokenizer> make_tokenizer(TokenizerDescription description, const std::string& place) {
  auto tokenizer = Tokenizer::make(std::move(description));
  if (!tokenizer) return std::move(tokenizer).error().with_context(place);
  return tokenizer;
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& path) {
  return guarded([&]() -> Result<Tokenizer> {
    if (path == kByteTokenizerName && !is_there(path)) {
      BALLAST_TRY(TokenizerDescription bytes, parse_tokenizer_json(byte_tokenizer_json(), path));
      return Tokenizer::make(std::move(bytes));
    }
    const ModelSource file(path);
    std::string name = std::filesystem::path(path).filename().string();
    if (file.is_folder()) {
      BALLAST_TRY(auto found, find_in(*file.files()));
      if (!found) {
        return make_error(
            ErrorCode::kNotFound,
            fmt::format("{}: the folder holds none of tokenizer.json, tokenizer.model and vocab.json", path));
      }
      name = *std::move(found);
    } else if (is_gguf(file)) {
      BALLAST_TRY(TokenizerDescription description, describe_gguf(file));
      return make_tokenizer(std::move(description), path);
    }
    BALLAST_TRY(TokenizerDescription description, describe(*file.files(), name));
    return make_tokenizer(std::move(description), file.files()->place_of(name));
  });
}

Result<Tokenizer> find_tokenizer(const ModelSource& model) {
  return guarded([&]() -> Result<Tokenizer> {
    BALLAST_TRY(const auto place, find_place(model));
    if (!place) return make_error(ErrorCode::kNotFound, model.name() + ": no tokenizer found next to the model");
    BALLAST_TRY(TokenizerDescription description, describe_place(model, *place));
    return make_tokenizer(std::move(description),
                          place->in_weights ? model.name() : model.files()->place_of(place->name));
  });
}

std::optional<std::string> find_tokenizer_beside(const std::string& model_path) {
  const ModelSource model(model_path);
  const auto place = find_place(model);
  if (!place || !*place) return std::nullopt;
  if (!(*place)->in_weights) return model.files()->place_of((*place)->name);
  const auto source = model.first_file();
  return model.is_folder() && source ? (*source)->name() : model_path;
}

}  // namespace ballast
