// Ballast for programs without an operating system: reads weight files that lie in flash, and runs small models on
// them.
//
// The rules, which hold for all functions:
//
// - Memory. Nothing is allocated but from the block that the caller gives to ballast_core_open (or ballast_core_write).
//   It holds everything that belongs to one archive, is never freed and may be used again once the archive is no longer
//   needed. A block that is too small is BALLAST_CORE_OUT_OF_MEMORY, never an abort: the archive then still is what it
//   was before the call.
// - Errors. Functions return a code. ballast_core_message() says what happened, in one static buffer that the next
//   failure overwrites.
// - Bytes. An image that can be addressed is never copied: names and metadata are parsed into the block, payloads are
//   pointers into the image. The image must stay where it is, unchanged, as long as the archive is used.
// - Formats. Only those that a program names are linked, if it is linked with -Wl,--gc-sections.
// - Threads and interrupts. One call at a time, in the whole program. A callback must not call these functions.
//
// Link with the library of bindings/core. docs/embedding.md shows a whole program and the sizes of all parts.
#ifndef BALLAST_CORE_H_
#define BALLAST_CORE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------- errors

// The numbers are those of ballast_kind in ballast.h.
typedef enum ballast_core_code {
  BALLAST_CORE_OK = 0,
  BALLAST_CORE_NOT_FOUND = 1,         // there is no such tensor or metadata
  BALLAST_CORE_UNKNOWN_FORMAT = 2,    // none of the named formats recognises the bytes
  BALLAST_CORE_CORRUPT = 3,           // a recognised file is damaged or contradicts itself
  BALLAST_CORE_UNSUPPORTED = 4,       // recognised and sound, but of a kind that is not supported
  BALLAST_CORE_INVALID_ARGUMENT = 5,  // the call asks for something impossible
  BALLAST_CORE_LOSSY = 6,             // the format cannot hold what is to be written
  BALLAST_CORE_IO = 8,                // the image's `read` failed
  BALLAST_CORE_OUT_OF_MEMORY = 9,     // the block is too small
  BALLAST_CORE_INTERNAL = 11          // a defect of the library
} ballast_core_code;

// What the last failure was: one text for people, cut to 255 bytes. "" before the first.
const char* ballast_core_message(void);

// ---------------------------------------------------------------- formats

typedef struct ballast_core_format ballast_core_format;

extern const ballast_core_format ballast_core_burnpack;
extern const ballast_core_format ballast_core_safetensors;
extern const ballast_core_format ballast_core_gptrs;          // gpt.rs checkpoints (GPTRSCHK)
extern const ballast_core_format ballast_core_gptrs_tensors;  // gpt.rs tensors without a model
extern const ballast_core_format ballast_core_gguf;
extern const ballast_core_format ballast_core_torch;
extern const ballast_core_format ballast_core_netcl;
extern const ballast_core_format ballast_core_npz;
extern const ballast_core_format ballast_core_npy;

const char* ballast_core_format_name(const ballast_core_format* format);

// ---------------------------------------------------------------- reading

typedef struct ballast_core ballast_core;

typedef struct ballast_core_image {
  const void* bytes;  // where it lies; NULL: it cannot be addressed, and `read` brings its bytes
  uint64_t size;
  // Copies [offset, offset + size) to `out`; 0 for success. Never asked for anything outside the image.
  int (*read)(void* user, uint64_t offset, void* out, size_t size);
  void* user;
  const char* name;  // in messages; NULL: "image"
} ballast_core_image;

typedef struct ballast_core_text {
  const char* data;  // UTF-8, with a NUL behind its end that does not count
  size_t size;
} ballast_core_text;

typedef struct ballast_core_tensor {
  ballast_core_text name;
  const char* dtype;      // "f32", "q8_0", ...: the names of docs/formats.md
  const uint64_t* shape;  // `rank` numbers; row-major
  size_t rank;
  uint64_t size;  // bytes of the payload
  // The payload in the image, little-endian; NULL where the image cannot be addressed or the file stores the payload
  // otherwise (compressed, big-endian, column-major): ballast_core_read copies it. It may be unaligned, and checksums
  // of zip files have not been compared with it; ballast_core_read compares them.
  const void* data;
} ballast_core_tensor;

// Opens and validates an image; `formats` are tried in their order. On success *archive lies in the block.
ballast_core_code ballast_core_open(ballast_core** archive, void* block, size_t block_size,
                                    const ballast_core_format* const* formats, size_t format_count,
                                    const ballast_core_image* image);
const ballast_core_format* ballast_core_format_of(const ballast_core* archive);
// How much of the block was in use at most: by opening, and by every call since.
size_t ballast_core_peak(const ballast_core* archive);

size_t ballast_core_count(const ballast_core* archive);
ballast_core_code ballast_core_find(const ballast_core* archive, const char* name, size_t* index);
// What it points to lies in the block or the image.
ballast_core_code ballast_core_tensor_at(const ballast_core* archive, size_t index, ballast_core_tensor* tensor);
// Copies the payload in canonical form: little-endian, row-major, unpacked. `size` must be the tensor's.
ballast_core_code ballast_core_read(ballast_core* archive, size_t index, void* out, size_t size);

// The text that the file's metadata has for `key`; BALLAST_CORE_INVALID_ARGUMENT where it is a number or a list.
ballast_core_code ballast_core_metadata(const ballast_core* archive, const char* key, ballast_core_text* value);

// ---------------------------------------------------------------- writing

typedef struct ballast_core_writer ballast_core_writer;

extern const ballast_core_writer ballast_core_write_burnpack;
extern const ballast_core_writer ballast_core_write_safetensors;

typedef struct ballast_core_entry {
  const char* key;
  const char* value;
} ballast_core_entry;

typedef struct ballast_core_content {
  const ballast_core_tensor* tensors;  // name.data, name.size, dtype, shape, rank, size and data count
  size_t tensor_count;
  const ballast_core_entry* metadata;
  size_t metadata_count;
} ballast_core_content;

// Writes a file into `out`. *size becomes its exact size, also where `out` is NULL or `capacity` smaller than that; the
// latter is BALLAST_CORE_INVALID_ARGUMENT and writes nothing. The block is free again afterwards.
ballast_core_code ballast_core_write(const ballast_core_writer* writer, void* block, size_t block_size,
                                     const ballast_core_content* content, void* out, size_t capacity, uint64_t* size);

// ---------------------------------------------------------------- models of layers

typedef struct ballast_core_model ballast_core_model;

// The model of layers (`kind = "sequential"`) that an open archive holds, for inputs of this shape (without the batch:
// {channels, height, width}, or {features}). Weights are f32, f16, bf16 or q8_0 and are read where they lie; the two
// buffers for what passes between layers come from the archive's block. Layers: Conv2d, Linear, ReLU, LeakyReLU,
// MaxPool2d, AvgPool2d, GlobalAvgPool2d, Flatten, Identity and Dropout; any other is BALLAST_CORE_UNSUPPORTED.
ballast_core_code ballast_core_model_open(ballast_core_model** model, ballast_core* archive, const uint64_t* shape,
                                          size_t rank);
size_t ballast_core_model_inputs(const ballast_core_model* model);
size_t ballast_core_model_outputs(const ballast_core_model* model);
// One input to one output; allocates nothing. The numbers are those of the model.
ballast_core_code ballast_core_model_run(ballast_core_model* model, const float* input, size_t input_count,
                                         float* output, size_t output_count);
// Which of the values is the largest: the class that a classifier's scores name. The first of equal ones; NaN is less
// than any number.
size_t ballast_core_argmax(const float* values, size_t count);

#ifdef __cplusplus
}
#endif
#endif  // BALLAST_CORE_H_
