// train_test DIGITS SCRATCH: runs from C, with the pictures of DIGITS (models/digits).
#include "check.h"

static const char* digits;
static const char* scratch;

struct watched {
  size_t steps;
  size_t evaluations;
  size_t resumed;
  size_t stop_at;  // a step
  char last[1024];
  ballast_cancel* cancel_at_first;
};

static bool watch(void* user, const char* event, size_t size) {
  struct watched* watched = user;
  CHECK(size > 0 && strlen(event) == size && event[0] == '{' && event[size - 1] == '}' && size < sizeof watched->last);
  if (strncmp(event, "{\"step\":", 8) == 0) {
    ++watched->steps;
    memcpy(watched->last, event, size + 1);
  }
  if (strstr(event, "\"event\":\"eval\"") != NULL) ++watched->evaluations;
  if (strstr(event, "\"event\":\"resume\"") != NULL) ++watched->resumed;
  if (watched->cancel_at_first != NULL) ballast_cancel_request(watched->cancel_at_first);
  return watched->steps != watched->stop_at || watched->stop_at == 0;
}

static ballast_train_options options_of(struct watched* watched, const char* const* overrides, size_t count) {
  ballast_train_options options = {.struct_size = sizeof options};
  options.overrides = overrides;
  options.override_count = count;
  options.overwrite = true;
  options.callback = watch;
  options.user = watched;
  return options;
}

static bool result_has(const ballast_buffer* result, const char* part) {
  return strstr(ballast_buffer_data(result), part) != NULL;
}

// The loss that a line tells.
static double loss_of(const char* event) {
  const char* loss = strstr(event, "\"loss\":");
  CHECK(loss != NULL);
  return strtod(loss + strlen("\"loss\":"), NULL);
}

static const char* setting(const char* key, const char* value) {
  static char texts[8][4200];
  static unsigned next = 0;
  char* text = texts[next++ % 8];
  snprintf(text, sizeof texts[0], "%s=%s", key, value);
  return text;
}

static void a_file_is_trained_from(void) {
  const char* model = path_in(scratch, "digits.netcl");
  const char* overrides[] = {"train.steps=6", "train.threads=1", "eval.every=3", setting("train.output", model)};
  struct watched watched = {.steps = 0};
  ballast_train_options options = options_of(&watched, overrides, 4);
  ballast_buffer* result = NULL;
  OK(ballast_train(path_in(digits, "train.toml"), &options, &result));
  CHECK(watched.steps == 6 && watched.evaluations == 2 && loss_of(watched.last) > 0);
  CHECK(result_has(result, "\"step\":6,") && result_has(result, "\"finished\":true"));
  CHECK(result_has(result, "\"eval_accuracy\":0.") && result_has(result, "digits.netcl"));
  ballast_buffer_close(result);
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(model, NULL, &archive));
  CHECK(ballast_archive_tensor_count(archive) == 6);
  ballast_archive_close(archive);
  options.overwrite = false;
  FAILS(ballast_train(path_in(digits, "train.toml"), &options, &result), BALLAST_EXISTS, "digits.netcl");
  CHECK(result == NULL);
}

static char config_text[4096];

// A small run as text; it has the pictures' path.
static size_t make_config(const char* more) {
  const int size =
      snprintf(config_text, sizeof config_text,
               "{\"model\": {\"kind\": \"mlp\", \"hidden\": [8]}, \"optimizer\": {\"type\": \"adam\", \"lr\": 0.01},"
               " \"data\": {\"kind\": \"npz\", \"path\": \"%s\", \"divide_by\": 16, \"classes\": 10},"
               " \"train\": {\"steps\": 8, \"batch_size\": 16, \"threads\": 1}%s}",
               path_in(digits, "train.npz"), more);
  CHECK(size > 0 && (size_t)size < sizeof config_text);
  return (size_t)size;
}

static void a_text_is_trained_from(void) {
  const size_t size = make_config("");
  struct watched watched = {.steps = 0}, shorter = {.steps = 0};
  ballast_train_options options = options_of(&watched, NULL, 0);
  OK(ballast_train_json(config_text, size, &options, NULL));
  CHECK(watched.steps == 8);
  const char* overrides[] = {"train.steps=2"};
  options = options_of(&shorter, overrides, 1);
  ballast_buffer* result = NULL;
  OK(ballast_train_json(config_text, BALLAST_NUL, &options, &result));
  CHECK(shorter.steps == 2 && result_has(result, "\"output\":null"));
  ballast_buffer_close(result);
}

static void remove_folder(const char* folder) {
  char command[4200];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(system(command) == 0);
}

static void a_run_that_a_callback_ends_goes_on_where_it_was(void) {
  make_config("");
  struct watched whole = {.steps = 0}, first = {.stop_at = 3}, rest = {.steps = 0};
  ballast_train_options options = options_of(&whole, NULL, 0);
  OK(ballast_train_json(config_text, BALLAST_NUL, &options, NULL));
  const char* folder = path_in(scratch, "checkpoints");
  remove_folder(folder);
  const char* overrides[] = {setting("checkpoint.folder", folder)};
  options = options_of(&first, overrides, 1);
  ballast_buffer* result = NULL;
  OK(ballast_train_json(config_text, BALLAST_NUL, &options, &result));
  CHECK(first.steps == 3 && result_has(result, "\"finished\":false"));
  ballast_buffer_close(result);
  options.user = &rest;
  OK(ballast_train_json(config_text, BALLAST_NUL, &options, &result));
  CHECK(rest.steps == 5 && rest.resumed == 1 && result_has(result, "\"resumed_from\":3"));
  CHECK(loss_of(rest.last) == loss_of(whole.last));
  ballast_buffer_close(result);
}

static void a_switch_ends_a_run(void) {
  make_config("");
  struct watched watched = {.steps = 0};
  OK(ballast_cancel_create(&watched.cancel_at_first));
  ballast_train_options options = options_of(&watched, NULL, 0);
  options.cancel = watched.cancel_at_first;
  ballast_buffer* result = NULL;
  FAILS(ballast_train_json(config_text, BALLAST_NUL, &options, &result), BALLAST_CANCELLED, "interrupted");
  CHECK(watched.steps == 1 && result == NULL);
  ballast_cancel_close(watched.cancel_at_first);
}

static void what_cannot_be_trained_is_an_error(void) {
  ballast_buffer* result = NULL;
  FAILS(ballast_train(NULL, NULL, &result), BALLAST_INVALID_ARGUMENT, "NULL");
  FAILS(ballast_train_json(NULL, 4, NULL, &result), BALLAST_INVALID_ARGUMENT, "NULL");
  FAILS(ballast_train(path_in(digits, "none.toml"), NULL, &result), BALLAST_NOT_FOUND, "none.toml");
  FAILS(ballast_train_json("[", 1, NULL, &result), BALLAST_INVALID_ARGUMENT, "the configuration");
  FAILS(ballast_train_json("{}", 2, NULL, &result), BALLAST_INVALID_ARGUMENT, "the configuration");
  make_config(", \"log\": {\"report\": \"report.html\"}");
  FAILS(ballast_train_json(config_text, BALLAST_NUL, NULL, &result), BALLAST_INVALID_ARGUMENT, "log.report");
  make_config("");
  const char* overrides[] = {"train.stepps=2"};
  struct watched watched = {.steps = 0};
  ballast_train_options options = options_of(&watched, overrides, 1);
  FAILS(ballast_train_json(config_text, BALLAST_NUL, &options, &result), BALLAST_INVALID_ARGUMENT, "stepps");
  options = options_of(&watched, NULL, 0);
  options.backend = "abacus";
  FAILS(ballast_train_json(config_text, BALLAST_NUL, &options, &result), BALLAST_INVALID_ARGUMENT, "abacus");
  CHECK(result == NULL && watched.steps == 0);
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  digits = arguments[1];
  scratch = arguments[2];
  a_file_is_trained_from();
  a_text_is_trained_from();
  a_run_that_a_callback_ends_goes_on_where_it_was();
  a_switch_ends_a_run();
  what_cannot_be_trained_is_an_error();
  return end_of_test("train");
}
