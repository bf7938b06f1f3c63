// misuse_test DATA MODEL SCRATCH: whatever a program hands over that it should not, it gets an error and lives on.
#include "check.h"

static const char* data_folder;
static const char* model_path;
static const char* scratch;

static const char* reference_path(void) { return path_in(data_folder, "safetensors/reference.safetensors"); }

static ballast_archive* open_reference(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(reference_path(), NULL, &archive));
  return archive;
}

static void null_handles_are_errors_or_nothing(void) {
  size_t index;
  char byte;
  ballast_tensor* tensor = NULL;
  ballast_tensor_info info = {.struct_size = sizeof info};
  FAILS(ballast_archive_tensor_info(NULL, 0, &info), BALLAST_INVALID_ARGUMENT, "no open archive");
  FAILS(ballast_archive_find(NULL, "a", &index), BALLAST_INVALID_ARGUMENT, "no open archive");
  FAILS(ballast_archive_read(NULL, 0, &byte, 1), BALLAST_INVALID_ARGUMENT, "no open archive");
  FAILS(ballast_archive_view(NULL, 0, 1, &tensor), BALLAST_INVALID_ARGUMENT, "no open archive");
  FAILS(ballast_archive_slice(NULL, "a", &tensor), BALLAST_INVALID_ARGUMENT, "no open archive");
  FAILS(ballast_tensor_get_info(NULL, &info), BALLAST_INVALID_ARGUMENT, "no open tensor");
  FAILS(ballast_writer_write(NULL, "a", NULL), BALLAST_INVALID_ARGUMENT, "no open writer");
  FAILS(ballast_generate(NULL, "a", 1, NULL, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "no open text model");
  FAILS(ballast_engine_run(NULL), BALLAST_INVALID_ARGUMENT, "no open engine");
  FAILS(ballast_engine_wait(NULL, 1), BALLAST_INVALID_ARGUMENT, "no open engine");
  ballast_diagnosis_info diagnosis = {.struct_size = sizeof diagnosis};
  FAILS(ballast_diagnosis_get(NULL, &diagnosis), BALLAST_INVALID_ARGUMENT, "no open diagnosis");
  ballast_statistics* statistics = NULL;
  FAILS(ballast_archive_statistics(NULL, NULL, 0, 0, NULL, &statistics), BALLAST_INVALID_ARGUMENT, "no open archive");
  const char* text = "a";
  ballast_tokens* tokens = NULL;
  FAILS(ballast_tokenizer_encode_batch(NULL, &text, NULL, 1, NULL, &tokens), BALLAST_INVALID_ARGUMENT,
        "no open tokenizer");
  CHECK(ballast_tokens_offsets(NULL) == NULL && ballast_statistics_count(NULL) == 0);
  FAILS(ballast_chat_say(NULL, "a", 1, NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "no open chat");
  CHECK(ballast_archive_tensor_count(NULL) == 0 && ballast_archive_meta_count(NULL) == 0);
  CHECK(ballast_archive_format(NULL).size == 0 && ballast_archive_config(NULL).data == NULL);
  CHECK(ballast_tensor_data(NULL) == NULL && ballast_tensor_size(NULL) == 0 && !ballast_tensor_is_view(NULL));
  CHECK(ballast_buffer_data(NULL) == NULL && ballast_tokens_count(NULL) == 0 && ballast_tokenizer_size(NULL) == 0);
  CHECK(ballast_embedder_width(NULL) == 0 && ballast_text_model_context_length(NULL) == 0);
  CHECK(ballast_error_kind(NULL) == BALLAST_OK && ballast_error_message(NULL).size == 0);
  CHECK(ballast_error_remedy(NULL, 0) == NULL && !ballast_cancel_requested(NULL));
  CHECK(!ballast_constraint_accepts(NULL, "a", 1));
  ballast_cancel_request(NULL);
}

static void closing_null_does_nothing(void) {
  ballast_error_free(NULL);
  ballast_buffer_close(NULL);
  ballast_cancel_close(NULL);
  ballast_archive_close(NULL);
  ballast_tensor_close(NULL);
  ballast_writer_close(NULL);
  ballast_conversion_close(NULL);
  ballast_findings_close(NULL);
  ballast_diff_close(NULL);
  ballast_tokenizer_close(NULL);
  ballast_tokens_close(NULL);
  ballast_text_model_close(NULL);
  ballast_engine_close(NULL);
  ballast_chat_close(NULL);
  ballast_embedder_close(NULL);
  ballast_image_model_close(NULL);
  ballast_diagnosis_close(NULL);
  ballast_statistics_close(NULL);
  ballast_constraint_close(NULL);
}

static void null_arguments_are_named(void) {
  ballast_archive* archive = NULL;
  FAILS(ballast_archive_open(NULL, NULL, &archive), BALLAST_INVALID_ARGUMENT, "the path must not be NULL");
  FAILS(ballast_archive_open(reference_path(), NULL, NULL), BALLAST_INVALID_ARGUMENT, "result must not be NULL");
  FAILS(ballast_archive_open_bytes(NULL, 8, &archive), BALLAST_INVALID_ARGUMENT, "bytes must not be NULL");
  FAILS(ballast_convert(NULL, "a", NULL, NULL), BALLAST_INVALID_ARGUMENT, "the source");
  FAILS(ballast_convert("a", NULL, NULL, NULL), BALLAST_INVALID_ARGUMENT, "the destination");
  archive = open_reference();
  FAILS(ballast_archive_find(archive, NULL, NULL), BALLAST_INVALID_ARGUMENT, "the name must not be NULL");
  FAILS(ballast_archive_read(archive, 1, NULL, 12), BALLAST_INVALID_ARGUMENT, "must not be NULL");
  FAILS(ballast_archive_tensor_info(archive, 0, NULL), BALLAST_INVALID_ARGUMENT, "must not be NULL");
  ballast_archive_close(archive);
}

static void a_closed_handle_is_found_out(void) {
  ballast_archive* archive = open_reference();
  ballast_archive* second = NULL;
  ballast_archive_close(archive);
  ballast_archive_close(archive);
  CHECK(ballast_open_handles() == 0);
  // Even where another archive has taken its place.
  OK(ballast_archive_open(reference_path(), NULL, &second));
  CHECK(second != archive);
  size_t index;
  FAILS(ballast_archive_find(archive, "ids", &index), BALLAST_INVALID_ARGUMENT, "closed before");
  CHECK(ballast_archive_tensor_count(archive) == 0);
  ballast_archive_close(archive);
  CHECK(ballast_archive_tensor_count(second) == 6);
  ballast_archive_close(second);

  ballast_error* error = ballast_archive_open("", NULL, &archive);
  CHECK(error != NULL);
  ballast_error_free(error);
  CHECK(ballast_error_message(error).size == 0);
  ballast_error_free(error);
}

static void what_is_no_handle_is_found_out(void) {
  ballast_archive* archive = open_reference();
  int place = 0;
  ballast_archive* wild = (ballast_archive*)(void*)&place;
  CHECK(ballast_archive_tensor_count(wild) == 0);
  ballast_archive_close(wild);
  // A handle of another kind.
  ballast_tensor* not_a_tensor = (ballast_tensor*)(void*)archive;
  CHECK(ballast_tensor_data(not_a_tensor) == NULL);
  ballast_tensor_close(not_a_tensor);
  CHECK(ballast_archive_tensor_count(archive) == 6);
  ballast_archive_close(archive);
}

static void structs_of_other_versions_are_understood(void) {
  ballast_archive* archive = open_reference();
  // Of a program that was compiled before `dims` was added.
  ballast_tensor_info info;
  memset(&info, 0x55, sizeof info);
  info.struct_size = offsetof(ballast_tensor_info, dims);
  OK(ballast_archive_tensor_info(archive, 2, &info));
  CHECK(info.rank == 2);
  const uint64_t* untouched;
  memset(&untouched, 0x55, sizeof untouched);
  CHECK(memcmp(&info.dims, &untouched, sizeof untouched) == 0);
  // Of one that knows more than the library: members that are not set do not matter, others are refused.
  struct {
    ballast_open_options known;
    uint64_t unknown;
  } newer = {{.struct_size = sizeof newer}, 0};
  ballast_archive* second = NULL;
  OK(ballast_archive_open(reference_path(), &newer.known, &second));
  ballast_archive_close(second);
  newer.unknown = 1;
  FAILS(ballast_archive_open(reference_path(), &newer.known, &second), BALLAST_UNSUPPORTED, "does not have");
  // Of one that forgot.
  info.struct_size = 0;
  FAILS(ballast_archive_tensor_info(archive, 2, &info), BALLAST_INVALID_ARGUMENT, "struct_size is 0");
  info.struct_size = SIZE_MAX;
  FAILS(ballast_archive_tensor_info(archive, 2, &info), BALLAST_INVALID_ARGUMENT, "struct_size is");
  ballast_archive_close(archive);
}

// ---------------------------------------------------------------- callbacks

struct watcher {
  size_t calls;
  size_t stop_at;
  ballast_writer* writer;
  bool was_refused;
};

static bool watch(void* user, const ballast_progress* progress) {
  struct watcher* watcher = user;
  CHECK(strlen(progress->activity) > 0);
  if (watcher->writer != NULL) {
    ballast_error* error = ballast_writer_write(watcher->writer, "elsewhere.safetensors", NULL);
    watcher->was_refused = ballast_error_kind(error) == BALLAST_INVALID_ARGUMENT;
    ballast_error_free(error);
  }
  return ++watcher->calls != watcher->stop_at;
}

static void a_callback_that_says_no_leaves_nothing_behind(void) {
  struct watcher watcher = {.stop_at = 1};
  ballast_convert_options options = {.struct_size = sizeof options};
  options.container_only = true;
  options.progress = watch;
  options.progress_user = &watcher;
  const char* path = path_in(scratch, "stopped.npz");
  remove(path);
  FAILS(ballast_convert(model_path, path, &options, NULL), BALLAST_CANCELLED, "");
  CHECK(watcher.calls == 1 && !file_exists(path));

  ballast_archive* archive = NULL;
  OK(ballast_archive_open(model_path, NULL, &archive));
  ballast_work_options work = {.struct_size = sizeof work};
  work.progress = watch;
  work.progress_user = &watcher;
  watcher.calls = 0;
  ballast_digest digest;
  FAILS(ballast_archive_hash(archive, &work, &digest, NULL), BALLAST_CANCELLED, "");
  ballast_archive_close(archive);
}

static void a_switch_that_was_used_ends_the_work(void) {
  ballast_cancel* cancel = NULL;
  OK(ballast_cancel_create(&cancel));
  CHECK(!ballast_cancel_requested(cancel));
  ballast_cancel_request(cancel);
  CHECK(ballast_cancel_requested(cancel));
  ballast_convert_options options = {.struct_size = sizeof options};
  options.container_only = true;
  options.cancel = cancel;
  const char* path = path_in(scratch, "cancelled.npz");
  remove(path);
  FAILS(ballast_convert(model_path, path, &options, NULL), BALLAST_CANCELLED, "");
  CHECK(!file_exists(path));
  ballast_cancel_close(cancel);
  FAILS(ballast_convert(model_path, path, &options, NULL), BALLAST_INVALID_ARGUMENT, "no open cancel switch");
}

static void a_callback_cannot_call_what_called_it(void) {
  ballast_writer* writer = NULL;
  OK(ballast_writer_create(&writer));
  const uint64_t shape[1] = {1 << 20};
  float* values = calloc(1 << 20, sizeof *values);
  OK(ballast_writer_add_tensor(writer, "values", "f32", shape, 1, values, (1 << 20) * sizeof *values));
  struct watcher watcher = {.writer = writer};
  ballast_write_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  options.progress = watch;
  options.progress_user = &watcher;
  OK(ballast_writer_write(writer, path_in(scratch, "watched.safetensors"), &options));
  CHECK(watcher.calls > 0 && watcher.was_refused);
  ballast_writer_close(writer);
  free(values);
}

static void count_messages(void* user, ballast_log_level level, const char* message) {
  CHECK(level == BALLAST_LOG_INFO || level == BALLAST_LOG_WARNING);
  CHECK(strlen(message) > 0);
  ++*(size_t*)user;
}

static void a_conversion_that_has_notes_logs_them(void) {
  size_t messages = 0;
  ballast_set_log(count_messages, &messages);
  ballast_convert_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  options.container_only = true;
  ballast_conversion* conversion = NULL;
  OK(ballast_convert(model_path, path_in(scratch, "noted.npz"), &options, &conversion));
  size_t notes = 0;
  while (ballast_conversion_note(conversion, notes).data != NULL) ++notes;
  CHECK(notes > 0 && messages == notes);
  ballast_conversion_close(conversion);
  ballast_set_log(NULL, NULL);
  OK(ballast_convert(model_path, path_in(scratch, "noted.npz"), &options, NULL));
  CHECK(messages == notes);
}

int main(int count, char** arguments) {
  CHECK(count == 4);
  data_folder = arguments[1];
  model_path = arguments[2];
  scratch = arguments[3];
  null_handles_are_errors_or_nothing();
  closing_null_does_nothing();
  null_arguments_are_named();
  a_closed_handle_is_found_out();
  what_is_no_handle_is_found_out();
  structs_of_other_versions_are_understood();
  a_callback_that_says_no_leaves_nothing_behind();
  a_switch_that_was_used_ends_the_work();
  a_callback_cannot_call_what_called_it();
  a_conversion_that_has_notes_logs_them();
  return end_of_test("misuse");
}
