// hostile_test FOLDER... SCRATCH: every file of these folders, whatever it is, is opened as everything that there is,
// and handed to everything that takes a file: an error, or something that can be used to its end.
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>

#include "check.h"

static const char* scratch;
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
  ballast_statistics* statistics = NULL;
  took(ballast_archive_statistics(archive, NULL, 0, 0, NULL, &statistics));
  ballast_statistics_close(statistics);
  ballast_archive_close(archive);
}

// Whatever is written has been read: it opens.
static void check_written(const char* path) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path, NULL, &archive));
  ballast_archive_close(archive);
}

static void convert_and_rescue(const char* path) {
  const char* const destinations[2] = {path_in(scratch, "hostile.safetensors"), path_in(scratch, "hostile.gguf")};
  for (size_t i = 0; i < 4; ++i) {
    ballast_convert_options options = {.struct_size = sizeof options, .overwrite = true, .no_sync = true};
    options.allow_lossy = true;
    options.container_only = i < 2;
    if (took(ballast_convert(path, destinations[i % 2], &options, NULL))) check_written(destinations[i % 2]);
  }
  ballast_diagnosis* diagnosis = NULL;
  ballast_diagnosis_info info = {.struct_size = sizeof info};
  if (took(ballast_doctor(path, NULL, &diagnosis))) OK(ballast_diagnosis_get(diagnosis, &info));
  ballast_diagnosis_close(diagnosis);
  ballast_write_options options = {.struct_size = sizeof options, .overwrite = true, .no_sync = true};
  options.allow_lossy = true;
  if (took(ballast_rescue(path, destinations[0], &options, NULL, NULL))) check_written(destinations[0]);
}

static void use_as_everything(const char* path) {
  use_archive(path);
  convert_and_rescue(path);
  ballast_buffer* trained = NULL;
  took(ballast_train(path, NULL, &trained));
  ballast_buffer_close(trained);
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
  CHECK(count > 2);
  scratch = arguments[count - 1];
  for (int i = 1; i < count - 1; ++i) {
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
