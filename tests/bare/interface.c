// The rules of include/ballast_core.h, one after the other. Prints what does not hold. tests/core compiles it for this
// machine, too, where sanitizers see it.
#include <string.h>

#include "ballast_core.h"
#include "semihosting.h"

extern const unsigned char flash_0[], flash_0_end[], flash_1[], flash_1_end[], flash_2[], flash_2_end[];
static _Alignas(16) unsigned char block[64 * 1024], other[32 * 1024], file[8 * 1024];
static int failures = 0;

#define EXPECT(condition)                                                                       \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      ++failures;                                                                               \
      print("line "), print_number(__LINE__), print(": " #condition "; the last message is: "); \
      print(ballast_core_message()), print("\n");                                               \
    }                                                                                           \
  } while (0)

static const ballast_core_format* const formats[] = {&ballast_core_burnpack, &ballast_core_safetensors};
static const uint64_t picture[] = {1, 8, 8};

static ballast_core_image image_of(const unsigned char* begin, const unsigned char* end) {
  const ballast_core_image image = {.bytes = begin, .size = (uint64_t)(end - begin), .name = "flash"};
  return image;
}

// With less memory than it takes, every size of block is an error, and one that suffices suffices.
static void runs_out_of_memory_without_an_abort(void) {
  const ballast_core_image image = image_of(flash_0, flash_0_end);
  ballast_core* archive;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  const size_t enough = ballast_core_peak(archive);
  int refused = 0, opened = 0;
  for (size_t size = 0; size < enough + 64; size += 24) {
    const ballast_core_code code = ballast_core_open(&archive, block, size, formats, 2, &image);
    EXPECT(code == BALLAST_CORE_OUT_OF_MEMORY || code == BALLAST_CORE_OK);
    EXPECT((archive == NULL) == (code != BALLAST_CORE_OK));
    refused += code == BALLAST_CORE_OUT_OF_MEMORY;
    opened += code == BALLAST_CORE_OK;
  }
  EXPECT(refused > 100);
  EXPECT(opened >= 1);
  EXPECT(ballast_core_open(&archive, NULL, 0, formats, 2, &image) == BALLAST_CORE_OUT_OF_MEMORY);
}

// A call that has too little memory leaves the archive as it was.
static void an_archive_outlives_a_call_without_memory(void) {
  const ballast_core_image image = image_of(flash_1, flash_1_end);
  ballast_core *archive, *again;
  ballast_core_model* model;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  const size_t opened = ballast_core_peak(archive);
  EXPECT(ballast_core_open(&again, other, opened + 512, formats, 2, &image) == BALLAST_CORE_OK);
  for (int i = 0; i < 50; ++i) {
    EXPECT(ballast_core_model_open(&model, again, picture, 3) == BALLAST_CORE_OUT_OF_MEMORY);
    EXPECT(strstr(ballast_core_message(), "is full") != NULL);
  }
  ballast_core_tensor tensor;
  size_t index = 99;
  EXPECT(ballast_core_count(again) == 6);
  EXPECT(ballast_core_find(again, "5.weight", &index) == BALLAST_CORE_OK);
  EXPECT(ballast_core_tensor_at(again, index, &tensor) == BALLAST_CORE_OK && tensor.rank == 2 &&
         tensor.shape[0] == 256);
}

static int reads = 0;
static int read_flash(void* user, uint64_t offset, void* out, size_t size) {
  ++reads;
  memcpy(out, (const unsigned char*)user + offset, size);
  return 0;
}
static int read_nothing(void* user, uint64_t offset, void* out, size_t size) {
  (void)user, (void)offset, (void)out, (void)size;
  return -1;
}

static void reads_an_image_that_cannot_be_addressed(void) {
  ballast_core_image image = {.size = (uint64_t)(flash_1_end - flash_1), .read = read_flash, .user = (void*)flash_1};
  ballast_core* archive;
  ballast_core_tensor tensor;
  size_t index;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  EXPECT(reads > 0);
  EXPECT(ballast_core_find(archive, "7.bias", &index) == BALLAST_CORE_OK);
  EXPECT(ballast_core_tensor_at(archive, index, &tensor) == BALLAST_CORE_OK && tensor.data == NULL);
  float bias[10];
  EXPECT(ballast_core_read(archive, index, bias, sizeof bias) == BALLAST_CORE_OK);
  EXPECT(ballast_core_read(archive, index, bias, 4) == BALLAST_CORE_INVALID_ARGUMENT);
  EXPECT(ballast_core_read(archive, 6, bias, 4) == BALLAST_CORE_INVALID_ARGUMENT);
  const ballast_core_image direct = image_of(flash_1, flash_1_end);
  EXPECT(ballast_core_open(&archive, other, sizeof other, formats, 2, &direct) == BALLAST_CORE_OK);
  EXPECT(ballast_core_tensor_at(archive, index, &tensor) == BALLAST_CORE_OK);
  EXPECT(tensor.data != NULL && memcmp(tensor.data, bias, sizeof bias) == 0);
  image.read = read_nothing;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_IO);
}

static void names_what_is_wrong(void) {
  ballast_core_image image = image_of(flash_2, flash_2_end);
  ballast_core* archive;
  ballast_core_model* model;
  ballast_core_text text;
  size_t index;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  EXPECT(ballast_core_model_open(&model, archive, picture, 3) == BALLAST_CORE_UNSUPPORTED && model == NULL);
  EXPECT(strstr(ballast_core_message(), "layer 1 is a Softplus; known here: Conv2d, Linear") != NULL);
  EXPECT(ballast_core_find(archive, "nothing", &index) == BALLAST_CORE_NOT_FOUND);
  EXPECT(strcmp(ballast_core_message(), "there is no tensor \"nothing\"") == 0);
  EXPECT(ballast_core_metadata(archive, "ballast.sequential", &text) == BALLAST_CORE_OK && text.data[0] == '{');
  EXPECT(ballast_core_metadata(archive, "nothing", &text) == BALLAST_CORE_NOT_FOUND);
  image.size = 20;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) != BALLAST_CORE_OK);
  EXPECT(archive == NULL);
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 1, &image) == BALLAST_CORE_UNKNOWN_FORMAT);
  EXPECT(strstr(ballast_core_message(), "known formats: burnpack") != NULL);
}

static void refuses_inputs_that_do_not_fit(void) {
  const ballast_core_image image = image_of(flash_1, flash_1_end);
  const uint64_t wide[] = {1, 9, 9}, flat[] = {64}, huge[] = {1, UINT64_MAX / 2, 3};
  float values[64] = {0};
  ballast_core* archive;
  ballast_core_model* model;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  EXPECT(ballast_core_model_open(&model, archive, flat, 1) == BALLAST_CORE_INVALID_ARGUMENT);
  EXPECT(ballast_core_model_open(&model, archive, huge, 3) == BALLAST_CORE_INVALID_ARGUMENT);
  EXPECT(ballast_core_model_open(&model, archive, wide, 3) == BALLAST_CORE_OK);  // 9 / 2 is 4, too
  EXPECT(ballast_core_model_open(&model, archive, picture, 3) == BALLAST_CORE_OK);
  EXPECT(ballast_core_model_inputs(model) == 64 && ballast_core_model_outputs(model) == 10);
  EXPECT(ballast_core_model_run(model, values, 63, values, 10) == BALLAST_CORE_INVALID_ARGUMENT);
}

static void write_with(const ballast_core_writer* writer) {
  static const uint64_t shape[] = {2, 3};
  static const float values[] = {1, 2, 3, 4, 5, 6};
  const ballast_core_entry entry = {"step", "17"};
  ballast_core_tensor tensor = {{"layer.weight", 12}, "f32", shape, 2, sizeof values, values};
  const ballast_core_content content = {&tensor, 1, &entry, 1};
  uint64_t size = 0, written = 0;
  EXPECT(ballast_core_write(writer, other, sizeof other, &content, NULL, 0, &size) == BALLAST_CORE_OK && size > 24);
  EXPECT(ballast_core_write(writer, other, sizeof other, &content, file, (size_t)size - 1, &written) ==
         BALLAST_CORE_INVALID_ARGUMENT);
  EXPECT(ballast_core_write(writer, other, 256, &content, file, sizeof file, &written) == BALLAST_CORE_OUT_OF_MEMORY);
  EXPECT(ballast_core_write(writer, other, sizeof other, &content, file, sizeof file, &written) == BALLAST_CORE_OK);
  EXPECT(written == size);
  const ballast_core_image image = {.bytes = file, .size = written};
  ballast_core* archive;
  ballast_core_tensor read;
  ballast_core_text text;
  EXPECT(ballast_core_open(&archive, block, sizeof block, formats, 2, &image) == BALLAST_CORE_OK);
  EXPECT(ballast_core_count(archive) == 1 && ballast_core_tensor_at(archive, 0, &read) == BALLAST_CORE_OK);
  EXPECT(strcmp(read.name.data, "layer.weight") == 0 && strcmp(read.dtype, "f32") == 0 && read.rank == 2);
  EXPECT(read.size == sizeof values && memcmp(read.data, values, sizeof values) == 0);
  EXPECT(ballast_core_metadata(archive, "step", &text) == BALLAST_CORE_OK && strcmp(text.data, "17") == 0);
  tensor.size = 20;
  EXPECT(ballast_core_write(writer, other, sizeof other, &content, file, sizeof file, &written) ==
         BALLAST_CORE_INVALID_ARGUMENT);
  tensor.size = sizeof values;
  tensor.dtype = "f33";
  EXPECT(ballast_core_write(writer, other, sizeof other, &content, file, sizeof file, &written) ==
         BALLAST_CORE_INVALID_ARGUMENT);
}

int main(void) {
  runs_out_of_memory_without_an_abort();
  an_archive_outlives_a_call_without_memory();
  reads_an_image_that_cannot_be_addressed();
  names_what_is_wrong();
  refuses_inputs_that_do_not_fit();
  write_with(&ballast_core_write_burnpack);
  write_with(&ballast_core_write_safetensors);
  print(failures == 0 ? "all rules hold\n" : "some rules do not hold\n");
  return failures != 0;
}
