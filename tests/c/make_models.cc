// make_models FOLDER: models that are too large to be kept as files, for the tests in C.
#include <cstdio>
#include <filesystem>

#include "tests/support/recorded_bert.h"
#include "tests/support/recorded_models.h"
#include "tests/support/temp_folder.h"

namespace fs = std::filesystem;
using namespace ballast::testing;

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: make_models FOLDER\n"), 2;
  const fs::path folder(arguments[1]);
  fs::remove_all(folder);
  fs::create_directories(folder);
  const TempFolder made, bert;
  const std::string image_model = write_rule_checkpoint(made, "mobilenet_v2", 1);
  fs::copy(image_model, folder / "mobilenet_v2.gptrs");
  copy_bert(bert, {bert_tokenizer()});
  fs::copy(bert.path(), folder / "bert", fs::copy_options::recursive);
}
