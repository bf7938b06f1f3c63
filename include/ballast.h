// Ballast for C, and for every language that can call C.
//
// The same rules hold for all functions:
//
// - Errors. A function that can fail returns a ballast_error*, NULL for success. The caller frees it. After a failure,
//   what it would have given through a pointer is NULL, or as it was.
// - Handles (ballast_archive*, ...) are opaque. Whoever gets one closes it, once. NULL and closed handles are noticed:
//   functions that can fail return BALLAST_INVALID_ARGUMENT, others return 0, NULL or an empty text. An object that
//   another still needs lives on until that one is closed: close in any order.
// - Texts are UTF-8. A ballast_text has a length, and a NUL behind its end that does not count. Texts and arrays that
//   functions return belong to the handle they were asked of, and are valid until it is closed, unless it says
//   otherwise. Where a function takes a text and its size, BALLAST_NUL as the size means that it ends with a NUL.
// - Options. struct_size is sizeof the struct; 0, false and NULL are the defaults of all other members, and a NULL
//   pointer to options means all defaults. Later versions append members, so old programs keep working.
// - Threads. Any thread may use any handle. Archives, tokenizers, models and engines work for several threads at once;
//   calls on the same writer or chat wait for each other.
// - Callbacks are called on the thread that made the call, before it returns. They may call any function but the one
//   they were called from, and may close handles. No exception leaves a function; one that a callback throws becomes an
//   error.
//
// The ABI is stable: within one BALLAST_ABI_VERSION, functions are added and never changed. The version is the number
// in libballast_c.so.1.
#ifndef BALLAST_H_
#define BALLAST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define BALLAST_API __attribute__((visibility("default")))
#define BALLAST_CHECKED __attribute__((visibility("default"), warn_unused_result))
#else
#define BALLAST_API
#define BALLAST_CHECKED
#endif

#define BALLAST_ABI_VERSION 1
#define BALLAST_NUL SIZE_MAX

typedef struct ballast_error ballast_error;
typedef struct ballast_buffer ballast_buffer;
typedef struct ballast_cancel ballast_cancel;
typedef struct ballast_archive ballast_archive;
typedef struct ballast_tensor ballast_tensor;
typedef struct ballast_writer ballast_writer;
typedef struct ballast_conversion ballast_conversion;
typedef struct ballast_findings ballast_findings;
typedef struct ballast_diff ballast_diff;
typedef struct ballast_tokenizer ballast_tokenizer;
typedef struct ballast_tokens ballast_tokens;
typedef struct ballast_text_model ballast_text_model;
typedef struct ballast_engine ballast_engine;
typedef struct ballast_chat ballast_chat;
typedef struct ballast_embedder ballast_embedder;
typedef struct ballast_image_model ballast_image_model;
typedef struct ballast_diagnosis ballast_diagnosis;
typedef struct ballast_statistics ballast_statistics;
typedef struct ballast_constraint ballast_constraint;

typedef struct ballast_text {
  const char* data;
  size_t size;
} ballast_text;

// ---------------------------------------------------------------- the library

// The BALLAST_ABI_VERSION of the library that was loaded.
BALLAST_API uint32_t ballast_abi_version(void);
// "0.1.0"
BALLAST_API const char* ballast_version(void);
// How many handles are open, errors among them. For tests that look for leaks.
BALLAST_API size_t ballast_open_handles(void);

// ---------------------------------------------------------------- errors

typedef enum ballast_kind {
  BALLAST_OK = 0,
  BALLAST_NOT_FOUND = 1,         // the path or the named tensor does not exist
  BALLAST_UNKNOWN_FORMAT = 2,    // no format recognises the bytes
  BALLAST_CORRUPT = 3,           // a recognised file is damaged or contradicts itself
  BALLAST_UNSUPPORTED = 4,       // recognised and sound, but of a kind that is not supported
  BALLAST_INVALID_ARGUMENT = 5,  // the call asks for something impossible
  BALLAST_LOSSY = 6,             // the target cannot hold everything, and losing it was not allowed
  BALLAST_EXISTS = 7,            // the destination exists, and overwriting it was not allowed
  BALLAST_IO = 8,                // the operating system refused a read or a write
  BALLAST_OUT_OF_MEMORY = 9,
  BALLAST_CANCELLED = 10,  // a callback or a ballast_cancel ended the work
  BALLAST_INTERNAL = 11    // an exception, from a callback or from a defect of the library
} ballast_kind;

// BALLAST_OK of NULL.
BALLAST_API ballast_kind ballast_error_kind(const ballast_error* error);
// "corrupt", "not_found", ...
BALLAST_API const char* ballast_error_kind_name(const ballast_error* error);
// What happened, where, and what to do: one text for people.
BALLAST_API ballast_text ballast_error_message(const ballast_error* error);
// What would help, for programs that can offer it; NULL from the last one on. The name is a stable word
// ("allow_overwrite"), the remedy says the same to people ("ask for overwriting").
BALLAST_API const char* ballast_error_remedy_name(const ballast_error* error, size_t index);
BALLAST_API const char* ballast_error_remedy(const ballast_error* error, size_t index);
BALLAST_API void ballast_error_free(ballast_error* error);

// ---------------------------------------------------------------- logging, progress, cancelling, buffers

typedef enum ballast_log_level { BALLAST_LOG_INFO = 1, BALLAST_LOG_WARNING = 2 } ballast_log_level;

// What a person may want to know about work that succeeds: guesses about a tokenizer, tensors that a model ignores,
// what a conversion stored elsewhere. `message` is valid during the call. What the callback throws is dropped.
typedef void (*ballast_log_callback)(void* user, ballast_log_level level, const char* message);
// For the whole process; NULL: silence, which is the default. When it returns, the callback before it is not running
// on another thread and will not be called again.
BALLAST_API void ballast_set_log(ballast_log_callback callback, void* user);

typedef struct ballast_progress {
  const char* activity;  // "writing", "hashing", ...
  uint64_t done;         // bytes
  uint64_t total;        // bytes; 0 when unknown
} ballast_progress;

// Called every few MiB. false cancels the work, which then fails with BALLAST_CANCELLED and leaves nothing behind.
typedef bool (*ballast_progress_callback)(void* user, const ballast_progress* progress);

// A switch that any thread may use to end the work it was given to.
BALLAST_CHECKED ballast_error* ballast_cancel_create(ballast_cancel** out);
BALLAST_API void ballast_cancel_request(ballast_cancel* cancel);
BALLAST_API bool ballast_cancel_requested(const ballast_cancel* cancel);
BALLAST_API void ballast_cancel_close(ballast_cancel* cancel);

// Bytes that a function made. With a NUL behind them, so that a buffer of text is a C string.
BALLAST_API const void* ballast_buffer_data(const ballast_buffer* buffer);
BALLAST_API size_t ballast_buffer_size(const ballast_buffer* buffer);
BALLAST_API void ballast_buffer_close(ballast_buffer* buffer);

// ---------------------------------------------------------------- reading weight files

typedef struct ballast_open_options {
  size_t struct_size;
  // Read instead of mapping: survives a file that is truncated while it is open, but every view is a copy. Truncating a
  // mapped file kills whoever reads it (SIGBUS).
  bool positional;
} ballast_open_options;

typedef struct ballast_tensor_info {
  size_t struct_size;
  ballast_text name;
  const char* dtype;      // "f32", "bf16", "q4_k", ...
  uint32_t element_bits;  // 0 for quantised types, whose elements share bytes
  ballast_text scheme;    // which packing "qfloat" and "opaque" have; empty for all others
  size_t rank;
  const uint64_t* dims;  // outermost first
  uint64_t byte_size;    // little-endian, row-major
} ballast_tensor_info;

typedef enum ballast_meta_type {
  BALLAST_META_TEXT = 1,
  BALLAST_META_INT = 2,
  BALLAST_META_UINT = 3,
  BALLAST_META_FLOAT = 4,
  BALLAST_META_BOOL = 5,
  BALLAST_META_ARRAY = 6
} ballast_meta_type;

// Only the member of the type counts.
typedef struct ballast_meta {
  size_t struct_size;
  ballast_text key;
  ballast_meta_type type;
  ballast_text text;
  int64_t int_value;
  uint64_t uint_value;
  double float_value;
  bool bool_value;
  size_t array_size;  // elements; ballast_archive_meta_element gives them
} ballast_meta;

// Opens a file, a folder, an index of shards or the common prefix of a pair, in any format: content decides. Reads the
// header only.
BALLAST_CHECKED ballast_error* ballast_archive_open(const char* path, const ballast_open_options* options,
                                                    ballast_archive** out);
// The same from memory, which is copied, or borrowed: then it must stay as it is until the archive and all tensors of
// it are closed.
BALLAST_CHECKED ballast_error* ballast_archive_open_bytes(const void* data, size_t size, ballast_archive** out);
BALLAST_CHECKED ballast_error* ballast_archive_borrow_bytes(const void* data, size_t size, ballast_archive** out);
BALLAST_API void ballast_archive_close(ballast_archive* archive);

// "safetensors", "gguf", ...
BALLAST_API ballast_text ballast_archive_format(const ballast_archive* archive);
// The model config as the file has it (JSON); data is NULL where there is none.
BALLAST_API ballast_text ballast_archive_config(const ballast_archive* archive);

BALLAST_API size_t ballast_archive_tensor_count(const ballast_archive* archive);
BALLAST_CHECKED ballast_error* ballast_archive_tensor_info(const ballast_archive* archive, size_t index,
                                                           ballast_tensor_info* out);
// The index of a tensor, by its name or by its id (32 hexadecimal digits). BALLAST_NOT_FOUND names similar ones.
BALLAST_CHECKED ballast_error* ballast_archive_find(const ballast_archive* archive, const char* name, size_t* out);

BALLAST_API size_t ballast_archive_meta_count(const ballast_archive* archive);
BALLAST_CHECKED ballast_error* ballast_archive_meta(const ballast_archive* archive, size_t index, ballast_meta* out);
// An element of an array: integers as BALLAST_META_INT, the key empty. Arrays of arrays are BALLAST_UNSUPPORTED.
BALLAST_CHECKED ballast_error* ballast_archive_meta_element(const ballast_archive* archive, size_t index,
                                                            size_t element, ballast_meta* out);

// Reads a tensor into memory of the caller; `size` is its byte_size.
BALLAST_CHECKED ballast_error* ballast_archive_read(const ballast_archive* archive, size_t index, void* out,
                                                    size_t size);
// The tensor's bytes where they are, without a copy, where the file has them in canonical form and the address is a
// multiple of `alignment` (1, 2, 4, 8 or 16); a copy otherwise.
BALLAST_CHECKED ballast_error* ballast_archive_view(const ballast_archive* archive, size_t index, size_t alignment,
                                                    ballast_tensor** out);
// Part of a tensor, chosen as in NumPy: "weight[0:4, ..., -1]". Reads only what it needs. Just a name, or 32
// hexadecimal digits (an id), is the whole tensor.
BALLAST_CHECKED ballast_error* ballast_archive_slice(const ballast_archive* archive, const char* name_and_slice,
                                                     ballast_tensor** out);

// A tensor that was viewed or sliced. It keeps what it needs of its archive.
BALLAST_API const void* ballast_tensor_data(const ballast_tensor* tensor);
BALLAST_API size_t ballast_tensor_size(const ballast_tensor* tensor);
// Whether the data are those of the file or of the borrowed memory, and no copy.
BALLAST_API bool ballast_tensor_is_view(const ballast_tensor* tensor);
BALLAST_CHECKED ballast_error* ballast_tensor_get_info(const ballast_tensor* tensor, ballast_tensor_info* out);
BALLAST_API void ballast_tensor_close(ballast_tensor* tensor);

// ---------------------------------------------------------------- writing weight files

typedef struct ballast_write_options {
  size_t struct_size;
  const char* format;  // "safetensors", "gguf", ...; NULL: by the extension of the path
  bool overwrite;
  bool no_sync;         // do not wait for the disk: faster, less durable
  bool allow_lossy;     // write what the format can hold
  bool compress;        // npz
  uint64_t shard_size;  // start a new file before this many bytes; 0: one file
  const char* target;   // write for older readers: "burn-0.20" (burnpack), "numpy" (npz)
  uint32_t threads;     // 0: as many as the machine has
  ballast_progress_callback progress;
  void* progress_user;
  ballast_cancel* cancel;
} ballast_write_options;

// Collects tensors and metadata for a file.
BALLAST_CHECKED ballast_error* ballast_writer_create(ballast_writer** out);
// `data` is not copied: it must stay as it is until the writer is closed. `size` must be that of the shape and dtype.
BALLAST_CHECKED ballast_error* ballast_writer_add_tensor(ballast_writer* writer, const char* name, const char* dtype,
                                                         const uint64_t* dims, size_t rank, const void* data,
                                                         size_t size);
// Adds metadata, or replaces what has the same key. Arrays are BALLAST_UNSUPPORTED.
BALLAST_CHECKED ballast_error* ballast_writer_set_meta(ballast_writer* writer, const ballast_meta* meta);
// The model config (JSON), for formats that have a field for it. `schema` says whose rules it follows: "gptrs",
// "netcl".
BALLAST_CHECKED ballast_error* ballast_writer_set_config(ballast_writer* writer, const char* schema,
                                                         const char* config);
// The file appears complete or not at all. May be called again, for another file.
BALLAST_CHECKED ballast_error* ballast_writer_write(ballast_writer* writer, const char* path,
                                                    const ballast_write_options* options);
// The file's bytes; options->format is needed. Of the other options, those of the format count.
BALLAST_CHECKED ballast_error* ballast_writer_write_bytes(ballast_writer* writer, const ballast_write_options* options,
                                                          ballast_buffer** out);
BALLAST_API void ballast_writer_close(ballast_writer* writer);

// ---------------------------------------------------------------- converting, verifying, comparing, hashing

typedef struct ballast_convert_options {
  size_t struct_size;
  const char* format;       // NULL: by the extension of the destination; safetensors for a folder
  const char* const* only;  // keep tensors whose name one of these regular expressions finds
  size_t only_count;
  const char* const* exclude;  // drop those whose name one of these finds
  size_t exclude_count;
  const char* dtype;       // cast floating tensors to "f32", "f16", "bf16" or "f64"
  const char* dequantize;  // what quantised tensors become: "f32", "f16" or "bf16"
  const char* quantize;    // a preset: "q4_k_m", "q8_0", ...
  bool container_only;     // keep names and layouts, whether or not the result runs
  bool dry_run;            // report, and write nothing
  bool overwrite;
  bool no_sync;
  bool allow_lossy;
  bool compress;
  uint64_t shard_size;
  const char* target;
  uint32_t threads;
  ballast_progress_callback progress;
  void* progress_user;
  ballast_cancel* cancel;
} ballast_convert_options;

// Converts a model or weight file. A converted model runs in the target format; where that is impossible, nothing is
// written and the error says what would work. A destination that ends in / becomes a Hugging Face folder. `out` may be
// NULL.
BALLAST_CHECKED ballast_error* ballast_convert(const char* source, const char* destination,
                                               const ballast_convert_options* options, ballast_conversion** out);
BALLAST_API uint64_t ballast_conversion_tensors(const ballast_conversion* conversion);
BALLAST_API uint64_t ballast_conversion_payload_bytes(const ballast_conversion* conversion);
// Of these three, data is NULL from the last one on.
BALLAST_API ballast_text ballast_conversion_file(const ballast_conversion* conversion, size_t index);
BALLAST_API ballast_text ballast_conversion_note(const ballast_conversion* conversion, size_t index);
BALLAST_API ballast_text ballast_conversion_loss(const ballast_conversion* conversion, size_t index);
BALLAST_API void ballast_conversion_close(ballast_conversion* conversion);

typedef struct ballast_work_options {
  size_t struct_size;
  uint32_t threads;  // 0: as many as the machine has
  ballast_progress_callback progress;
  void* progress_user;
  ballast_cancel* cancel;
} ballast_work_options;

typedef enum ballast_severity {
  BALLAST_FINDING_NOTE = 1,     // unusual but sound
  BALLAST_FINDING_WARNING = 2,  // the file opens, but something is wrong with it
  BALLAST_FINDING_ERROR = 3     // the file cannot be trusted
} ballast_severity;

typedef struct ballast_finding {
  size_t struct_size;
  ballast_severity severity;
  ballast_text code;  // a stable word: "overlap", "checksum", "non_finite", ...
  uint64_t offset;    // in the file
  ballast_text tensor;
  ballast_text message;
} ballast_finding;

// Everything that is wrong with a file. A damaged file is no error: see the findings. `content` also reads the
// payloads: are all values finite, do the digests of a manifest match.
BALLAST_CHECKED ballast_error* ballast_verify(const char* path, bool content, const ballast_work_options* options,
                                              ballast_findings** out);
// No warning and no error.
BALLAST_API bool ballast_findings_sound(const ballast_findings* findings);
BALLAST_API size_t ballast_findings_count(const ballast_findings* findings);
BALLAST_CHECKED ballast_error* ballast_findings_get(const ballast_findings* findings, size_t index,
                                                    ballast_finding* out);
BALLAST_API void ballast_findings_close(ballast_findings* findings);

typedef enum ballast_difference {
  BALLAST_SAME = 0,
  BALLAST_ONLY_IN_A = 1,
  BALLAST_ONLY_IN_B = 2,
  BALLAST_CHANGED = 3,
  BALLAST_RENAMED = 4,
  BALLAST_TRANSPOSED = 5
} ballast_difference;

typedef struct ballast_diff_entry {
  size_t struct_size;
  ballast_difference difference;
  ballast_text name_a;  // empty for BALLAST_ONLY_IN_B
  ballast_text name_b;  // empty for BALLAST_ONLY_IN_A
  ballast_text note;    // "dtype f32 -> f16"
  bool comparable;      // the members below are known
  bool within_tolerance;
  uint64_t differing;  // elements
  uint64_t elements;
  double max_abs;
  double max_rel;
} ballast_diff_entry;

// Compares two archives tensor by tensor, whatever their formats. Values with |a - b| <= atol + rtol * |b| are equal;
// with both 0, only the same bytes are.
BALLAST_CHECKED ballast_error* ballast_diff_archives(const ballast_archive* a, const ballast_archive* b, double rtol,
                                                     double atol, const ballast_work_options* options,
                                                     ballast_diff** out);
BALLAST_API bool ballast_diff_equal(const ballast_diff* diff);
// In a's order, then what is only in b; tensors that are the same too.
BALLAST_API size_t ballast_diff_count(const ballast_diff* diff);
BALLAST_CHECKED ballast_error* ballast_diff_get(const ballast_diff* diff, size_t index, ballast_diff_entry* out);
BALLAST_API void ballast_diff_close(ballast_diff* diff);

// BLAKE3, of content alone: neither the order of tensors nor the format matters.
typedef struct ballast_digest {
  uint8_t bytes[32];
} ballast_digest;

// `tensors` is NULL, or has room for the digest of each tensor.
BALLAST_CHECKED ballast_error* ballast_archive_hash(const ballast_archive* archive, const ballast_work_options* options,
                                                    ballast_digest* total, ballast_digest* tensors);

typedef struct ballast_tensor_statistics {
  size_t struct_size;
  bool measured;  // false: a type without arithmetic, and nothing below counts
  uint64_t count;
  uint64_t zeros;
  uint64_t denormals;
  uint64_t nan;
  uint64_t positive_infinity;
  uint64_t negative_infinity;
  double min;  // of the finite numbers, as the three that follow; NaN where there are none
  double max;
  double mean;
  double std;            // of all of them, as NumPy's
  double histogram_low;  // mean +- 4 std, or less where there is nothing more
  double histogram_high;
  uint64_t below;  // numbers under histogram_low
  uint64_t above;
  const uint64_t* histogram;  // how many numbers lie in each of the equal bins between the two
  size_t bins;                // 1 where all numbers are the same, 0 where none is finite
} ballast_tensor_statistics;

// What the numbers of these tensors look like; of all where `tensors` is NULL and `count` is 0. `bins`: of the
// histograms; 0: 24. Reads each payload once, and never more than a part of it at a time.
BALLAST_CHECKED ballast_error* ballast_archive_statistics(const ballast_archive* archive, const size_t* tensors,
                                                          size_t count, size_t bins,
                                                          const ballast_work_options* options,
                                                          ballast_statistics** out);
// In the order in which they were asked for.
BALLAST_API size_t ballast_statistics_count(const ballast_statistics* statistics);
BALLAST_CHECKED ballast_error* ballast_statistics_get(const ballast_statistics* statistics, size_t index,
                                                      ballast_tensor_statistics* out);
// Over all tensors together.
BALLAST_CHECKED ballast_error* ballast_statistics_total(const ballast_statistics* statistics,
                                                        ballast_tensor_statistics* out);
BALLAST_API void ballast_statistics_close(ballast_statistics* statistics);

// ---------------------------------------------------------------- files that cannot be read

typedef enum ballast_verdict {
  BALLAST_VERDICT_SOUND = 1,
  BALLAST_VERDICT_FLAWED = 2,       // it can be read, but warnings say that something is odd
  BALLAST_VERDICT_DAMAGED = 3,      // of a known format, and broken
  BALLAST_VERDICT_UNREADABLE = 4,   // of a known format, but the operating system could not read all of it
  BALLAST_VERDICT_UNSUPPORTED = 5,  // of a known format, and of a kind that is not handled
  BALLAST_VERDICT_FOREIGN = 6,      // something else, which is known: a web page, a Git LFS pointer, ...
  BALLAST_VERDICT_UNKNOWN = 7
} ballast_verdict;

typedef struct ballast_diagnosis_info {
  size_t struct_size;
  ballast_verdict verdict;
  const char* verdict_name;  // "sound", "damaged", ...
  ballast_text format;       // recognised; of an unknown file the nearest, or empty
  ballast_text content;      // of BALLAST_VERDICT_FOREIGN: "html", "git_lfs_pointer", ...
  ballast_text what;         // what is wrong, in a sentence
  ballast_text cause;        // the likely cause; this and the advice may be empty
  ballast_text advice;
  uint64_t size;    // of the file
  bool has_offset;  // it breaks at `offset`
  uint64_t offset;
  uint64_t sound_tensors;  // what a rescue would give
  uint64_t sound_bytes;
  size_t lost_tensors;  // that the file speaks of and that cannot be had
  bool complete;        // a rescue gives everything that the file held
} ballast_diagnosis_info;

typedef struct ballast_lost_tensor {
  size_t struct_size;
  ballast_text name;
  ballast_text code;  // of the finding that tells, or "description"
  ballast_text why;
} ballast_lost_tensor;

// Why a file cannot be read, and what of it can be saved. Fails only where there is nothing to look at.
BALLAST_CHECKED ballast_error* ballast_doctor(const char* path, const ballast_work_options* options,
                                              ballast_diagnosis** out);
BALLAST_CHECKED ballast_error* ballast_diagnosis_get(const ballast_diagnosis* diagnosis, ballast_diagnosis_info* out);
BALLAST_CHECKED ballast_error* ballast_diagnosis_lost(const ballast_diagnosis* diagnosis, size_t index,
                                                      ballast_lost_tensor* out);
BALLAST_CHECKED ballast_error* ballast_diagnosis_findings(const ballast_diagnosis* diagnosis, ballast_findings** out);
BALLAST_API void ballast_diagnosis_close(ballast_diagnosis* diagnosis);
// Writes the tensors that are sound, with metadata and config as far as they could be read, to a new file.
// BALLAST_CORRUPT where none is, or BALLAST_IO where reading failed. `diagnosis` and `out` may be NULL.
BALLAST_CHECKED ballast_error* ballast_rescue(const char* path, const char* destination,
                                              const ballast_write_options* options, ballast_diagnosis** diagnosis,
                                              ballast_conversion** out);

// ---------------------------------------------------------------- tokenizers

typedef struct ballast_encode_options {
  size_t struct_size;
  bool special;  // these two as for ballast_tokenizer_encode
  bool around;
  bool offsets;      // say which part of the text each token stands for; takes several times as long
  uint32_t threads;  // 0: as many as the machine has
} ballast_encode_options;

// A part of a text, in bytes.
typedef struct ballast_span {
  size_t begin;
  size_t end;
} ballast_span;

// A tokenizer.json, a vocab.json with its merges.txt, a SentencePiece model, a GGUF file with a vocabulary, or a folder
// that holds one of the first three.
BALLAST_CHECKED ballast_error* ballast_tokenizer_open(const char* path, ballast_tokenizer** out);
// How many different ids there are.
BALLAST_API size_t ballast_tokenizer_size(const ballast_tokenizer* tokenizer);
// Tokens of a text. `special`: recognise special tokens in it; not for what users typed. `around`: add the tokens that
// the model expects before and behind a text.
BALLAST_CHECKED ballast_error* ballast_tokenizer_encode(const ballast_tokenizer* tokenizer, const char* text,
                                                        size_t size, bool special, bool around, ballast_tokens** out);
// Many texts at once, on several threads. `sizes` is NULL where all texts end with a NUL. `out` has room for `count`
// lists, each of which is closed by itself; an error names the text by its number, and leaves none.
BALLAST_CHECKED ballast_error* ballast_tokenizer_encode_batch(const ballast_tokenizer* tokenizer,
                                                              const char* const* texts, const size_t* sizes,
                                                              size_t count, const ballast_encode_options* options,
                                                              ballast_tokens** out);
// Text of tokens. It may end in the middle of a character.
BALLAST_CHECKED ballast_error* ballast_tokenizer_decode(const ballast_tokenizer* tokenizer, const uint32_t* ids,
                                                        size_t count, bool skip_special, ballast_buffer** out);
// The id of a token by its text. BALLAST_NOT_FOUND where there is none.
BALLAST_CHECKED ballast_error* ballast_tokenizer_find(const ballast_tokenizer* tokenizer, const char* text,
                                                      uint32_t* out);
BALLAST_API void ballast_tokenizer_close(ballast_tokenizer* tokenizer);

BALLAST_API const uint32_t* ballast_tokens_data(const ballast_tokens* tokens);
// The whole characters that each token stands for; nothing of one that was added. NULL where they were not asked for.
BALLAST_API const ballast_span* ballast_tokens_offsets(const ballast_tokens* tokens);
BALLAST_API size_t ballast_tokens_count(const ballast_tokens* tokens);
BALLAST_API void ballast_tokens_close(ballast_tokens* tokens);

// ---------------------------------------------------------------- structured output

// What a text has to look like: compiled once, for any number of texts and models. docs/structured.md says what
// schemas, grammars and expressions may contain. What is wrong with one is BALLAST_INVALID_ARGUMENT, what cannot be
// enforced BALLAST_UNSUPPORTED, with the name and the place.
//
// Any JSON object.
BALLAST_CHECKED ballast_error* ballast_constraint_of_json_object(ballast_constraint** out);
// JSON that a JSON Schema accepts.
BALLAST_CHECKED ballast_error* ballast_constraint_of_schema(const char* json, size_t size, ballast_constraint** out);
// What the rule "root" of a grammar in GBNF matches.
BALLAST_CHECKED ballast_error* ballast_constraint_of_grammar(const char* gbnf, size_t size, ballast_constraint** out);
// What a regular expression matches as a whole.
BALLAST_CHECKED ballast_error* ballast_constraint_of_regex(const char* expression, size_t size,
                                                           ballast_constraint** out);
// Whether a text is complete: one that max_tokens, a full context or a stop text cut off is not.
BALLAST_API bool ballast_constraint_accepts(const ballast_constraint* constraint, const char* text, size_t size);
BALLAST_API void ballast_constraint_close(ballast_constraint* constraint);

// ---------------------------------------------------------------- text generation

typedef struct ballast_model_options {
  size_t struct_size;
  const char* backend;        // NULL: the default
  uint32_t threads;           // 0: as many as the machine has
  bool exact;                 // multiply quantised and bf16 weights in f32: slower
  uint64_t param_budget;      // bytes of weights in memory at a time; 0: all
  const char* config;         // a model config (JSON) for files that carry none
  const char* tokenizer;      // instead of the model's own: a path as ballast_tokenizer_open takes it
  const char* chat_template;  // instead of the model's own: its text (Jinja)
  uint64_t image_size;        // of a side that pictures are brought to; 0: the model's own
} ballast_model_options;

typedef struct ballast_generate_options {
  size_t struct_size;
  uint64_t max_tokens;
  double temperature;  // 0: always the most likely token; < 1: more focused
  uint64_t top_k;      // 0: all
  double top_p;
  double min_p;
  double repetition_penalty;
  uint64_t repetition_window;  // tokens it looks back at
  uint64_t seed;
  const char* const* stops;  // texts that end the answer and are no part of it
  size_t stop_count;
  bool context_shift;  // at the end of the context, forget the oldest token instead of stopping
  bool half_cache;     // keep keys and values in f16: half the memory, not always the same tokens; not for engines
  int32_t priority;    // in an engine: higher goes first
  ballast_cancel* cancel;
  const ballast_constraint* constraint;  // what the text, or each answer of a chat, has to look like; NULL: anything
} ballast_generate_options;

typedef enum ballast_finish {
  BALLAST_FINISH_NONE = 0,
  BALLAST_FINISH_STOP_TOKEN = 1,  // the model ended its text
  BALLAST_FINISH_STOP_TEXT = 2,
  BALLAST_FINISH_MAX_TOKENS = 3,
  BALLAST_FINISH_CONTEXT_FULL = 4,
  BALLAST_FINISH_CANCELLED = 5,
  BALLAST_FINISH_FAILED = 6
} ballast_finish;

// Receives text piece by piece, in whole characters; false ends it. `text` is valid during the call.
typedef bool (*ballast_text_callback)(void* user, const char* text, size_t size);

typedef struct ballast_generation {
  size_t struct_size;
  ballast_finish finish;
  uint64_t prompt_tokens;
  uint64_t written_tokens;
} ballast_generation;

// A model that writes text, with its tokenizer and chat template. Weights are read when they are first needed.
BALLAST_CHECKED ballast_error* ballast_text_model_open(const char* path, const ballast_model_options* options,
                                                       ballast_text_model** out);
// "llama", "gpt", ...
BALLAST_API ballast_text ballast_text_model_kind(const ballast_text_model* model);
// In tokens.
BALLAST_API uint64_t ballast_text_model_context_length(const ballast_text_model* model);
// The model's tokenizer. BALLAST_NOT_FOUND where it has none.
BALLAST_CHECKED ballast_error* ballast_text_model_tokenizer(const ballast_text_model* model, ballast_tokenizer** out);
// What generating does unless it is told otherwise, as the model's files say. Begin with these and change what you
// like: here 0 does not mean the default. Only struct_size must be set before.
BALLAST_CHECKED ballast_error* ballast_text_model_defaults(const ballast_text_model* model,
                                                           ballast_generate_options* options);
BALLAST_API void ballast_text_model_close(ballast_text_model* model);

// Continues a prompt. `callback` and `out` may be NULL. A callback that returns false ends the text, with
// BALLAST_FINISH_CANCELLED and no error; a ballast_cancel is BALLAST_CANCELLED.
BALLAST_CHECKED ballast_error* ballast_generate(const ballast_text_model* model, const char* prompt, size_t size,
                                                const ballast_generate_options* options, ballast_text_callback callback,
                                                void* user, ballast_generation* out);

typedef struct ballast_engine_options {
  size_t struct_size;
  uint64_t most_bytes;      // of the KV cache; 0: no limit
  uint64_t most_rows;       // tokens in a pass; 0: 512
  uint64_t most_sequences;  // requests in a pass; 0: 64
  bool half_cache;          // keys and values in f16
  bool no_prefix_sharing;   // do not reuse what requests begin with in common
} ballast_engine_options;

typedef struct ballast_engine_event {
  uint64_t request;
  ballast_text text;       // new text, in whole characters; may be empty
  uint32_t token;          // where `finish` is BALLAST_FINISH_NONE
  double log_probability;  // the same
  ballast_finish finish;   // anything but BALLAST_FINISH_NONE: the last event of the request
  ballast_error* error;    // of BALLAST_FINISH_FAILED; freed after the call
} ballast_engine_event;

// Is told what happens to a request. The event is valid during the call.
typedef void (*ballast_engine_callback)(void* user, const ballast_engine_event* event);

typedef struct ballast_engine_counters {
  size_t struct_size;
  uint64_t waiting;
  uint64_t running;
  uint64_t finished;
  uint64_t cancelled;
  uint64_t failed;
  uint64_t generated_tokens;
  uint64_t prompt_tokens;  // computed
  uint64_t reused_tokens;  // of prompts that begin alike
} ballast_engine_counters;

// Many requests on one model: each pass computes tokens of all of them. What a request gets does not depend on the
// others. It has no thread of its own: whoever calls ballast_engine_run, ballast_engine_step or ballast_engine_wait
// computes for all requests. Callbacks of a request are called on the thread that waits for it; where none does, on the
// one that runs or steps. Requests may be submitted and cancelled meanwhile from other threads, and from callbacks,
// which cannot run, step or wait themselves.
BALLAST_CHECKED ballast_error* ballast_engine_create(const ballast_text_model* model,
                                                     const ballast_engine_options* options, ballast_engine** out);
// `request` gets a number that is never 0. options->cancel is not for engines.
BALLAST_CHECKED ballast_error* ballast_engine_submit(ballast_engine* engine, const char* prompt, size_t size,
                                                     const ballast_generate_options* options,
                                                     ballast_engine_callback callback, void* user, uint64_t* request);
// The last event of the request comes with the next pass. BALLAST_NOT_FOUND where it has ended.
BALLAST_CHECKED ballast_error* ballast_engine_cancel(ballast_engine* engine, uint64_t request);
// One pass. `more` (may be NULL): whether there is anything left to do, but for what other threads wait for.
BALLAST_CHECKED ballast_error* ballast_engine_step(ballast_engine* engine, bool* more);
// Passes until nothing is left to do. BALLAST_CANCELLED where the engine is closed meanwhile.
BALLAST_CHECKED ballast_error* ballast_engine_run(ballast_engine* engine);
// Passes until this request has ended. Any number of threads may wait, each for requests of its own, beside one that
// runs or without one. BALLAST_NOT_FOUND where it has ended; BALLAST_CANCELLED where the engine is closed meanwhile.
BALLAST_CHECKED ballast_error* ballast_engine_wait(ballast_engine* engine, uint64_t request);
BALLAST_CHECKED ballast_error* ballast_engine_get_counters(const ballast_engine* engine, ballast_engine_counters* out);
// Requests that have not ended get no more events.
BALLAST_API void ballast_engine_close(ballast_engine* engine);

// ---------------------------------------------------------------- chat

typedef struct ballast_reply {
  size_t struct_size;
  ballast_text text;  // valid until the next call with this chat
  ballast_finish finish;
  uint64_t prompt_tokens;
  uint64_t reused_tokens;  // of these, known from the turns before
  uint64_t written_tokens;
} ballast_reply;

// A conversation. BALLAST_NOT_FOUND where the model has no chat template.
BALLAST_CHECKED ballast_error* ballast_chat_create(const ballast_text_model* model,
                                                   const ballast_generate_options* options, ballast_chat** out);
// Sets the system message; an empty one removes it.
BALLAST_CHECKED ballast_error* ballast_chat_set_system(ballast_chat* chat, const char* text, size_t size);
// Adds the user's message and the model's answer. `callback` receives the answer piece by piece; both it and `out` may
// be NULL. An answer that a callback stops is kept as far as it came. An error leaves the conversation as it was.
BALLAST_CHECKED ballast_error* ballast_chat_say(ballast_chat* chat, const char* text, size_t size,
                                                ballast_text_callback callback, void* user, ballast_reply* out);
// The messages as JSON: {"messages": [{"role": ..., "content": ...}, ...]}, and the way back.
BALLAST_CHECKED ballast_error* ballast_chat_messages(const ballast_chat* chat, ballast_buffer** out);
BALLAST_CHECKED ballast_error* ballast_chat_set_messages(ballast_chat* chat, const char* json, size_t size);
BALLAST_API void ballast_chat_close(ballast_chat* chat);

// ---------------------------------------------------------------- embeddings

// A model that turns texts into vectors.
BALLAST_CHECKED ballast_error* ballast_embedder_open(const char* path, const ballast_model_options* options,
                                                     ballast_embedder** out);
// Numbers in a vector.
BALLAST_API uint64_t ballast_embedder_width(const ballast_embedder* embedder);
// Tokens that it sees of a text.
BALLAST_API uint64_t ballast_embedder_max_length(const ballast_embedder* embedder);
// One vector after the other into `out`, which has room for count * width numbers (`out_count`). Many texts at once are
// faster. A text that is too long loses its end; `cut` (may be NULL, otherwise room for `count`) says how many tokens.
BALLAST_CHECKED ballast_error* ballast_embedder_embed(const ballast_embedder* embedder, const char* const* texts,
                                                      size_t count, float* out, size_t out_count, size_t* cut);
BALLAST_API void ballast_embedder_close(ballast_embedder* embedder);

// ---------------------------------------------------------------- images

typedef struct ballast_image_class {
  size_t struct_size;
  uint32_t index;
  ballast_text name;  // empty where the model's files do not say it
  float logit;
  double probability;
} ballast_image_class;

// A model that says what a picture shows.
BALLAST_CHECKED ballast_error* ballast_image_model_open(const char* path, const ballast_model_options* options,
                                                        ballast_image_model** out);
// The most likely classes of a picture, best first: as many as there is room for in `out`, whose elements have their
// struct_size set; `count` says how many there are. `rgb` has 3 bytes for each pixel, row by row; `size` is 3 * width *
// height.
BALLAST_CHECKED ballast_error* ballast_image_model_classify(const ballast_image_model* model, const uint8_t* rgb,
                                                            size_t size, uint64_t width, uint64_t height,
                                                            ballast_image_class* out, size_t capacity, size_t* count);
BALLAST_API void ballast_image_model_close(ballast_image_model* model);

// ---------------------------------------------------------------- training

// Is told of every step, evaluation and checkpoint, as JSON: {"step":12,"loss":0.5,...}; other events have an "event"
// first ("eval", "checkpoint", "resume", "warning"). false ends the run behind a checkpoint. `event` is valid during
// the call.
typedef bool (*ballast_train_callback)(void* user, const char* event, size_t size);

typedef struct ballast_train_options {
  size_t struct_size;
  const char* backend;           // NULL: the default
  const char* const* overrides;  // "train.steps=20": settings that win over those of the configuration
  size_t override_count;
  bool overwrite;       // replace a model that is there
  bool no_checkpoints;  // look for none and write none, whatever the configuration says
  ballast_train_callback callback;
  void* user;
  ballast_cancel* cancel;  // ends the run as the callback does; the call then fails with BALLAST_CANCELLED
} ballast_train_options;

// Does what `ballast train` does: from a configuration (TOML or JSON; docs/training.md lists the settings) to a trained
// model. A run that was ended, or killed, goes on from its last checkpoint when it is called again, and comes to the
// same numbers. `result` (may be NULL) gets what became of it, as JSON: {"step":...,"loss":...,"finished":true,
// "output":...,...}. Pictures (data of kind "images") are BALLAST_UNSUPPORTED: the library decodes none.
BALLAST_CHECKED ballast_error* ballast_train(const char* config_path, const ballast_train_options* options,
                                             ballast_buffer** result);
// The same with the configuration itself, in JSON.
BALLAST_CHECKED ballast_error* ballast_train_json(const char* json, size_t size, const ballast_train_options* options,
                                                  ballast_buffer** result);

#ifdef __cplusplus
}
#endif

#endif  // BALLAST_H_
