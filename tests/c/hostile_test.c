// hostile_test FOLDER...: every file of these folders, whatever it is, is opened as everything that there is: an error,
// or something that can be used to its end.
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>

#include "check.h"

static size_t refused, opened;

static bool took(ballast_error* error) {
  if (error == NULL) {
    ++opened;
    return true;
  }
  CHECK(ballast_error_kind(error) != BALLAST_INTERNAL);
  CHECK(ballast_error_message(error).size > 0);
  ballast_error_free(error);
  ++refused;
  return false;
}

static void use_archive(const char* path) {
  ballast_archive* archive = NULL;
  if (!took(ballast_archive_open(path, NULL, &archive))) return;
  for (size_t i = 0; i < ballast_archive_tensor_count(archive); ++i) {
    ballast_tensor_info info = {.struct_size = sizeof info};
    OK(ballast_archive_tensor_info(archive, i, &info));
    ballast_tensor* tensor = NULL;
    if (took(ballast_archive_view(archive, i, 8, &tensor))) CHECK(ballast_tensor_size(tensor) == info.byte_size);
    ballast_tensor_close(tensor);
  }
  ballast_digest digest;
  took(ballast_archive_hash(archive, NULL, &digest, NULL));
  ballast_archive_close(archive);
}

static void use_as_everything(const char* path) {
  use_archive(path);
  ballast_findings* findings = NULL;
  took(ballast_verify(path, true, NULL, &findings));
  ballast_findings_close(findings);
  ballast_tokenizer* tokenizer = NULL;
  ballast_tokens* tokens = NULL;
  if (took(ballast_tokenizer_open(path, &tokenizer))) {
    took(ballast_tokenizer_encode(tokenizer, "a text <s> \xF0\x9F", BALLAST_NUL, true, true, &tokens));
  }
  ballast_tokens_close(tokens);
  ballast_tokenizer_close(tokenizer);
  ballast_text_model* model = NULL;
  if (took(ballast_text_model_open(path, NULL, &model))) {
    ballast_generate_options options = {.struct_size = sizeof options};
    OK(ballast_text_model_defaults(model, &options));
    options.max_tokens = 2;
    took(ballast_generate(model, "a", 1, &options, NULL, NULL, NULL));
  }
  ballast_text_model_close(model);
  CHECK(ballast_open_handles() == 0);
}

int main(int count, char** arguments) {
  size_t files = 0;
  for (int i = 1; i < count; ++i) {
    DIR* folder = opendir(arguments[i]);
    CHECK(folder != NULL);
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
      if (entry->d_name[0] == '.') continue;
      use_as_everything(path_in(arguments[i], entry->d_name));
      ++files;
    }
    closedir(folder);
  }
  printf("%zu files, %zu calls refused, %zu succeeded\n", files, refused, opened);
  CHECK(files >= 100 && refused > files);
  return end_of_test("hostile");
}
