// interop_write_tokenizer VOCABULARY.gguf FOLDER: what the vocabulary of a GGUF file becomes in a Hugging Face folder,
// tokenizer.json and tokenizer_config.json. Files of vocabularies hold no model, so `ballast convert` takes none.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "ballast/archive/open.h"
#include "ballast/exchange/folder_tokenizer.h"
#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {
namespace {

Status write_tokenizer(const std::string& source, const std::filesystem::path& folder) {
  BALLAST_TRY(const Archive archive, open_archive(source));
  BALLAST_TRY(const GgufVocabulary vocabulary, read_gguf_vocabulary(archive.description(), source));
  BALLAST_TRY(const TokenizerDescription description, describe_gguf_vocabulary(vocabulary, source));
  const FolderTokenizer tokenizer{vocabulary, description, archive.description(), source};
  BALLAST_TRY(const std::string json, folder_tokenizer_json(tokenizer));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json", std::ios::binary) << json;
  std::ofstream(folder / "tokenizer_config.json", std::ios::binary) << folder_tokenizer_config(tokenizer, 4096);
  return {};
}

}  // namespace
}  // namespace ballast

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: interop_write_tokenizer VOCABULARY.gguf FOLDER\n";
    return 2;
  }
  const ballast::Status done = ballast::write_tokenizer(argv[1], argv[2]);
  if (done) return 0;
  std::cerr << done.error().message << '\n';
  return 1;
}
