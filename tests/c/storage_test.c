// storage_test DATA SCRATCH: weight files are opened, listed, read, sliced and written from C.
#include "check.h"

static const char* data_folder;
static const char* scratch;

static ballast_archive* open_reference(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path_in(data_folder, "safetensors/reference.safetensors"), NULL, &archive));
  return archive;
}

static void the_library_says_which_it_is(void) {
  CHECK(ballast_abi_version() == BALLAST_ABI_VERSION);
  CHECK(strlen(ballast_version()) >= 5);
}

static void an_archive_lists_its_tensors(void) {
  ballast_archive* archive = open_reference();
  CHECK(is_text(ballast_archive_format(archive), "safetensors"));
  CHECK(ballast_archive_config(archive).data == NULL);
  CHECK(ballast_archive_tensor_count(archive) == 6);
  size_t index = 99;
  OK(ballast_archive_find(archive, "layer.0.weight", &index));
  ballast_tensor_info info = {.struct_size = sizeof info};
  OK(ballast_archive_tensor_info(archive, index, &info));
  CHECK(is_text(info.name, "layer.0.weight"));
  CHECK(strcmp(info.dtype, "f32") == 0 && info.element_bits == 32);
  CHECK(info.rank == 2 && info.dims[0] == 5 && info.dims[1] == 3);
  CHECK(info.byte_size == 60 && info.scheme.size == 0);
  FAILS(ballast_archive_tensor_info(archive, 6, &info), BALLAST_INVALID_ARGUMENT, "there are 6");
  FAILS(ballast_archive_find(archive, "layer.0.wieght", &index), BALLAST_NOT_FOUND, "layer.0.wieght");
  FAILS(ballast_archive_find(archive, "layer.0.weight[0]", &index), BALLAST_NOT_FOUND, "layer.0.weight[0]");
  ballast_archive_close(archive);
}

static void a_tensor_is_read_viewed_and_sliced(void) {
  ballast_archive* archive = open_reference();
  size_t index = 0;
  OK(ballast_archive_find(archive, "layer.0.weight", &index));
  float copy[15];
  OK(ballast_archive_read(archive, index, copy, sizeof copy));
  FAILS(ballast_archive_read(archive, index, copy, 59), BALLAST_INVALID_ARGUMENT, "has 60 bytes");

  ballast_tensor* view = NULL;
  OK(ballast_archive_view(archive, index, 1, &view));
  CHECK(ballast_tensor_is_view(view));
  CHECK(ballast_tensor_size(view) == sizeof copy);
  CHECK(memcmp(ballast_tensor_data(view), copy, sizeof copy) == 0);
  ballast_tensor_close(view);
  FAILS(ballast_archive_view(archive, index, 3, &view), BALLAST_INVALID_ARGUMENT, "1, 2, 4, 8 or 16");
  CHECK(view == NULL);
  OK(ballast_archive_view(archive, index, 16, &view));
  CHECK((uintptr_t)ballast_tensor_data(view) % 16 == 0);

  ballast_tensor* slice = NULL;
  OK(ballast_archive_slice(archive, "layer.0.weight[1:3, -1]", &slice));
  ballast_tensor_info info = {.struct_size = sizeof info};
  OK(ballast_tensor_get_info(slice, &info));
  CHECK(info.rank == 1 && info.dims[0] == 2 && strcmp(info.dtype, "f32") == 0);
  const float* values = ballast_tensor_data(slice);
  CHECK(values[0] == copy[5] && values[1] == copy[8]);
  ballast_tensor_close(slice);
  FAILS(ballast_archive_slice(archive, "layer.0.weight[9]", &slice), BALLAST_INVALID_ARGUMENT, "9");
  FAILS(ballast_archive_slice(archive, "nothing[0]", &slice), BALLAST_NOT_FOUND, "nothing");

  // A tensor keeps what it needs of its archive.
  ballast_archive_close(archive);
  CHECK(memcmp(ballast_tensor_data(view), copy, sizeof copy) == 0);
  ballast_tensor_close(view);
}

static void metadata_keep_their_types(void) {
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path_in(data_folder, "gguf/tiny/tiny_llama.q4_0.gguf"), NULL, &archive));
  size_t arrays = 0, texts = 0, numbers = 0;
  for (size_t i = 0; i < ballast_archive_meta_count(archive); ++i) {
    ballast_meta meta = {.struct_size = sizeof meta};
    OK(ballast_archive_meta(archive, i, &meta));
    CHECK(meta.key.size > 0);
    if (meta.type == BALLAST_META_TEXT) ++texts;
    if (meta.type == BALLAST_META_INT || meta.type == BALLAST_META_UINT || meta.type == BALLAST_META_FLOAT) ++numbers;
    ballast_meta element = {.struct_size = sizeof element};
    if (meta.type != BALLAST_META_ARRAY) {
      FAILS(ballast_archive_meta_element(archive, i, 0, &element), BALLAST_INVALID_ARGUMENT, "is no array");
      continue;
    }
    ++arrays;
    OK(ballast_archive_meta_element(archive, i, meta.array_size - 1, &element));
    FAILS(ballast_archive_meta_element(archive, i, meta.array_size, &element), BALLAST_INVALID_ARGUMENT, "there are");
    if (strcmp(meta.key.data, "tokenizer.ggml.tokens") == 0) CHECK(element.type == BALLAST_META_TEXT);
    if (strcmp(meta.key.data, "tokenizer.ggml.scores") == 0) CHECK(element.type == BALLAST_META_FLOAT);
    if (strcmp(meta.key.data, "tokenizer.ggml.token_type") == 0) CHECK(element.type == BALLAST_META_INT);
  }
  CHECK(arrays >= 3 && texts >= 2 && numbers >= 5);
  ballast_archive_close(archive);
}

// ---------------------------------------------------------------- writing

static const float weight[6] = {1, 2, 3, 4, 5, 6};
static const uint64_t weight_shape[2] = {2, 3};

static ballast_writer* make_writer(void) {
  ballast_writer* writer = NULL;
  OK(ballast_writer_create(&writer));
  OK(ballast_writer_add_tensor(writer, "weight", "f32", weight_shape, 2, weight, sizeof weight));
  OK(ballast_writer_add_tensor(writer, "scalar", "f32", NULL, 0, weight, 4));
  ballast_meta meta = {.struct_size = sizeof meta};
  meta.key = (ballast_text){"author", 6};
  meta.type = BALLAST_META_TEXT;
  meta.text = (ballast_text){"somebody else", BALLAST_NUL};
  OK(ballast_writer_set_meta(writer, &meta));
  meta.text = (ballast_text){"me", 2};  // replaces
  OK(ballast_writer_set_meta(writer, &meta));
  return writer;
}

static void check_written(const ballast_archive* archive) {
  float copy[6];
  size_t index = 0;
  OK(ballast_archive_find(archive, "weight", &index));
  OK(ballast_archive_read(archive, index, copy, sizeof copy));
  CHECK(memcmp(copy, weight, sizeof copy) == 0);
  ballast_meta meta = {.struct_size = sizeof meta};
  CHECK(ballast_archive_meta_count(archive) == 1);
  OK(ballast_archive_meta(archive, 0, &meta));
  CHECK(is_text(meta.key, "author") && is_text(meta.text, "me"));
}

static void what_is_written_is_read(void) {
  ballast_writer* writer = make_writer();
  const char* path = path_in(scratch, "written.safetensors");
  remove(path);
  OK(ballast_writer_write(writer, path, NULL));
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path, NULL, &archive));
  check_written(archive);
  ballast_archive_close(archive);

  ballast_error* error = ballast_writer_write(writer, path, NULL);
  CHECK(ballast_error_kind(error) == BALLAST_EXISTS);
  CHECK(strcmp(ballast_error_kind_name(error), "exists") == 0);
  CHECK(strcmp(ballast_error_remedy_name(error, 0), "allow_overwrite") == 0);
  CHECK(strlen(ballast_error_remedy(error, 0)) > 0);
  CHECK(ballast_error_remedy(error, 1) == NULL && ballast_error_remedy_name(error, 1) == NULL);
  ballast_error_free(error);

  ballast_write_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  options.no_sync = true;
  OK(ballast_writer_write(writer, path, &options));
  FAILS(ballast_writer_write(writer, path_in(scratch, "written.what"), NULL), BALLAST_INVALID_ARGUMENT, "safetensors");
  options.format = "safetesnors";
  FAILS(ballast_writer_write(writer, path, &options), BALLAST_INVALID_ARGUMENT, "there is no format");
  ballast_writer_close(writer);
}

static void bytes_in_memory_are_an_archive_too(void) {
  ballast_writer* writer = make_writer();
  ballast_buffer* buffer = NULL;
  FAILS(ballast_writer_write_bytes(writer, NULL, &buffer), BALLAST_INVALID_ARGUMENT, "which format to write");
  ballast_write_options options = {.struct_size = sizeof options};
  options.format = "safetensors";
  OK(ballast_writer_write_bytes(writer, &options, &buffer));
  ballast_writer_close(writer);
  ballast_archive *copied = NULL, *borrowed = NULL;
  OK(ballast_archive_open_bytes(ballast_buffer_data(buffer), ballast_buffer_size(buffer), &copied));
  OK(ballast_archive_borrow_bytes(ballast_buffer_data(buffer), ballast_buffer_size(buffer), &borrowed));
  check_written(borrowed);
  ballast_tensor* view = NULL;
  OK(ballast_archive_slice(borrowed, "weight", &view));
  const char* begin = ballast_buffer_data(buffer);
  const char* seen = ballast_tensor_data(view);
  CHECK(ballast_tensor_is_view(view) && seen > begin && seen < begin + ballast_buffer_size(buffer));
  ballast_tensor_close(view);
  ballast_archive_close(borrowed);
  ballast_buffer_close(buffer);
  check_written(copied);
  ballast_archive_close(copied);
}

static void tensors_that_contradict_themselves_are_refused(void) {
  ballast_writer* writer = make_writer();
  const uint64_t huge[2] = {UINT64_MAX, UINT64_MAX};
  FAILS(ballast_writer_add_tensor(writer, "a", "f32", weight_shape, 2, weight, 20), BALLAST_INVALID_ARGUMENT,
        "has 24 bytes, not 20");
  FAILS(ballast_writer_add_tensor(writer, "a", "f33", weight_shape, 2, weight, 24), BALLAST_INVALID_ARGUMENT,
        "f33 is no element type");
  FAILS(ballast_writer_add_tensor(writer, "a", "f32", huge, 2, weight, 24), BALLAST_INVALID_ARGUMENT, "too large");
  FAILS(ballast_writer_add_tensor(writer, "a", "opaque", weight_shape, 2, weight, 24), BALLAST_INVALID_ARGUMENT,
        "cannot be written this way");
  OK(ballast_writer_add_tensor(writer, "weight", "f32", weight_shape, 2, weight, sizeof weight));
  ballast_error* error = ballast_writer_write(writer, path_in(scratch, "twice.safetensors"), NULL);
  CHECK(error != NULL);  // two tensors of one name
  ballast_error_free(error);
  CHECK(!file_exists(path_in(scratch, "twice.safetensors")));
  ballast_writer_close(writer);
}

// ---------------------------------------------------------------- converting, verifying, comparing, hashing

static void a_conversion_keeps_the_content(void) {
  const char* source = path_in(data_folder, "safetensors/reference.safetensors");
  const char* path = path_in(scratch, "converted.npz");
  ballast_convert_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  ballast_conversion* conversion = NULL;
  OK(ballast_convert(source, path, &options, &conversion));
  CHECK(ballast_conversion_tensors(conversion) == 6);
  CHECK(ballast_conversion_payload_bytes(conversion) == 116);
  CHECK(is_text(ballast_conversion_file(conversion, 0), path));
  CHECK(ballast_conversion_file(conversion, 1).data == NULL);
  CHECK(ballast_conversion_loss(conversion, 0).data == NULL);
  ballast_conversion_close(conversion);

  ballast_archive *a = open_reference(), *b = NULL;
  OK(ballast_archive_open(path, NULL, &b));
  ballast_diff* diff = NULL;
  OK(ballast_diff_archives(a, b, 0, 0, NULL, &diff));
  CHECK(ballast_diff_equal(diff) && ballast_diff_count(diff) == 6);
  ballast_diff_close(diff);
  ballast_digest digest_a, digest_b, tensors[6];
  OK(ballast_archive_hash(a, NULL, &digest_a, tensors));
  OK(ballast_archive_hash(b, NULL, &digest_b, NULL));
  CHECK(memcmp(&digest_a, &digest_b, sizeof digest_a) == 0);
  CHECK(memcmp(&tensors[0], &tensors[1], sizeof digest_a) != 0);
  ballast_archive_close(b);
  ballast_archive_close(a);
}

static void a_cast_is_a_difference(void) {
  const char* path = path_in(scratch, "half.safetensors");
  const char* const only[] = {"^layer\\.0\\.weight$"};
  ballast_convert_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  options.dtype = "f16";
  options.only = only;
  options.only_count = 1;
  OK(ballast_convert(path_in(data_folder, "safetensors/reference.safetensors"), path, &options, NULL));
  ballast_archive *a = open_reference(), *b = NULL;
  OK(ballast_archive_open(path, NULL, &b));
  CHECK(ballast_archive_tensor_count(b) == 1);
  ballast_diff* diff = NULL;
  OK(ballast_diff_archives(a, b, 0, 0, NULL, &diff));
  CHECK(!ballast_diff_equal(diff));
  size_t changed = 0, gone = 0;
  for (size_t i = 0; i < ballast_diff_count(diff); ++i) {
    ballast_diff_entry entry = {.struct_size = sizeof entry};
    OK(ballast_diff_get(diff, i, &entry));
    gone += entry.difference == BALLAST_ONLY_IN_A;
    changed += entry.difference == BALLAST_CHANGED && strstr(entry.note.data, "f32 -> f16") != NULL;
  }
  CHECK(changed == 1 && gone == 5);
  ballast_diff_close(diff);
  FAILS(ballast_diff_archives(a, b, -1, 0, NULL, &diff), BALLAST_INVALID_ARGUMENT, "");
  ballast_archive_close(b);
  ballast_archive_close(a);
  options.dtype = "f99";
  FAILS(ballast_convert(path, path, &options, NULL), BALLAST_INVALID_ARGUMENT, "f99");
}

static void a_model_becomes_a_folder_and_a_quantised_file(void) {
  const char* source = path_in(data_folder, "gguf/tiny/tiny_llama.f32.gguf");
  ballast_convert_options options = {.struct_size = sizeof options};
  options.overwrite = true;
  ballast_conversion* conversion = NULL;
  OK(ballast_convert(source, path_in(scratch, "folder/"), &options, &conversion));
  bool has_config = false;
  for (size_t i = 0; ballast_conversion_file(conversion, i).data != NULL; ++i) {
    has_config |= strstr(ballast_conversion_file(conversion, i).data, "config.json") != NULL;
  }
  CHECK(has_config && file_exists(path_in(scratch, "folder/config.json")));
  ballast_conversion_close(conversion);
  options.quantize = "q8_0";
  OK(ballast_convert(source, path_in(scratch, "small.gguf"), &options, NULL));
  ballast_archive* archive = NULL;
  OK(ballast_archive_open(path_in(scratch, "small.gguf"), NULL, &archive));
  size_t quantised = 0;
  for (size_t i = 0; i < ballast_archive_tensor_count(archive); ++i) {
    ballast_tensor_info info = {.struct_size = sizeof info};
    OK(ballast_archive_tensor_info(archive, i, &info));
    quantised += strcmp(info.dtype, "q8_0") == 0 && info.element_bits == 0;
  }
  CHECK(quantised > 0);
  ballast_archive_close(archive);
  options.quantize = "q9";
  FAILS(ballast_convert(source, path_in(scratch, "small.gguf"), &options, NULL), BALLAST_INVALID_ARGUMENT, "q9");
}

static void a_damaged_file_has_findings(void) {
  ballast_findings* findings = NULL;
  OK(ballast_verify(path_in(data_folder, "gguf/tiny/tiny_llama.q4_0.gguf"), true, NULL, &findings));
  CHECK(ballast_findings_sound(findings));
  ballast_findings_close(findings);
  OK(ballast_verify(path_in(data_folder, "gguf/hostile/offset_overlap.gguf"), false, NULL, &findings));
  CHECK(!ballast_findings_sound(findings) && ballast_findings_count(findings) > 0);
  ballast_finding finding = {.struct_size = sizeof finding};
  OK(ballast_findings_get(findings, 0, &finding));
  CHECK(finding.severity == BALLAST_FINDING_ERROR && finding.code.size > 0 && finding.message.size > 0);
  FAILS(ballast_findings_get(findings, ballast_findings_count(findings), &finding), BALLAST_INVALID_ARGUMENT,
        "number from 0");
  ballast_findings_close(findings);
  FAILS(ballast_verify(path_in(data_folder, "no such file"), false, NULL, &findings), BALLAST_NOT_FOUND,
        "no such file");
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  data_folder = arguments[1];
  scratch = arguments[2];
  the_library_says_which_it_is();
  an_archive_lists_its_tensors();
  a_tensor_is_read_viewed_and_sliced();
  metadata_keep_their_types();
  what_is_written_is_read();
  bytes_in_memory_are_an_archive_too();
  tensors_that_contradict_themselves_are_refused();
  a_conversion_keeps_the_content();
  a_cast_is_a_difference();
  a_model_becomes_a_folder_and_a_quantised_file();
  a_damaged_file_has_findings();
  return end_of_test("storage");
}
