// leaks_test DATA CYCLES: opening, reading, failing, generating and closing again and again takes no more memory.
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "check.h"

static const char* data_folder;

// KiB that the process has in memory.
static size_t resident(void) {
  size_t total = 0, pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  CHECK(fscanf(file, "%zu %zu", &total, &pages) == 2);
  fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void open_read_close(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path_in(data_folder, "safetensors/reference.safetensors"), NULL, &archive));
  ballast_tensor* tensor = NULL;
  OK(ballast_archive_slice(archive, "layer.0.weight[0]", &tensor));
  ballast_tensor_close(tensor);
  size_t index = 0;
  ballast_error* error = ballast_archive_find(archive, "none", &index);
  CHECK(error != NULL);
  ballast_error_free(error);
  ballast_archive_close(archive);
}

static void count_event(void* user, const ballast_engine_event* event) {
  (void)event;
  ++*(size_t*)user;
}

static void open_generate_close(void) {
  ballast_model_options options = {.struct_size = sizeof options};
  options.threads = 1;
  ballast_text_model* model = NULL;
  OK(ballast_text_model_open(path_in(data_folder, "gguf/tiny/tiny_llama.q4_0.gguf"), &options, &model));
  ballast_generate_options generate = {.struct_size = sizeof generate};
  OK(ballast_text_model_defaults(model, &generate));
  generate.max_tokens = 2;
  OK(ballast_generate(model, "a", 1, &generate, NULL, NULL, NULL));
  ballast_engine* engine = NULL;
  OK(ballast_engine_create(model, NULL, &engine));
  size_t events = 0;
  OK(ballast_engine_submit(engine, "b", 1, &generate, count_event, &events, NULL));
  OK(ballast_engine_submit(engine, "c", 1, &generate, count_event, &events, NULL));
  OK(ballast_engine_step(engine, NULL));
  CHECK(events > 0);
  ballast_text_model_close(model);
  ballast_engine_close(engine);  // in the middle of its work
}

static void check_cycles(const char* what, void (*cycle)(void), size_t cycles) {
  for (size_t i = 0; i < cycles / 10 + 10; ++i) cycle();
  const size_t before = resident();
  for (size_t i = 0; i < cycles; ++i) cycle();
  const size_t after = resident();
  printf("%s: %zu KiB before, %zu KiB after %zu cycles\n", what, before, after, cycles);
  CHECK(after < before + 1024);
  CHECK(ballast_open_handles() == 0);
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  data_folder = arguments[1];
  const size_t cycles = strtoul(arguments[2], NULL, 10);
  check_cycles("open and close", open_read_close, cycles);
  check_cycles("generate", open_generate_close, cycles);
  return end_of_test("leaks");
}
