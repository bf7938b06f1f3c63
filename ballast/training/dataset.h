// Sets of examples that training takes its batches from.
//
// A set is immutable once made: any number of threads may fill batches from it. Filling allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/base/dtype.h"
#include "ballast/base/progress.h"
#include "ballast/base/result.h"
#include "ballast/base/shape.h"
#include "ballast/models/model_input.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

class TableReader;  // training/data/table_reader.h

enum class FeatureKind : uint8_t { kValues, kTokens };  // f32 numbers, or ids of tokens
enum class TargetKind : uint8_t {
  kNone,
  kClasses,  // one index per example
  kValues,   // f32 numbers: regression, or shares of classes
  kTokens,   // one index per position: the token that follows
};

// What one example looks like. A batch puts a leading dimension before both shapes.
struct ExampleLayout {
  FeatureKind features = FeatureKind::kValues;
  Shape feature_shape;
  TargetKind targets = TargetKind::kNone;
  Shape target_shape;    // [] for a class
  uint64_t classes = 0;  // kClasses and kTokens: every index is below it
  bool shares = false;   // kValues: every row is of shares of classes, which add up to 1

  uint64_t feature_count() const { return feature_shape.element_count().value_or(0); }
  uint64_t target_count() const { return target_shape.element_count().value_or(0); }
};

// Memory of the caller for one batch; only what the layout speaks of is filled, and must have exactly the size of the
// batch.
struct BatchBuffers {
  std::span<float> features = {};
  std::span<uint32_t> feature_ids = {};
  std::span<float> targets = {};
  std::span<uint32_t> target_ids = {};
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const ExampleLayout& layout() const = 0;
  virtual uint64_t size() const = 0;
  // What errors and reports call it: its file.
  virtual const std::string& name() const = 0;
  // Names of the classes, in order, where the set knows them; empty otherwise.
  virtual std::span<const std::string> class_names() const { return {}; }

  // Puts these examples, in this order, into the buffers. kInvalidArgument for an example that does not exist or
  // buffers of another size.
  Status fill(std::span<const uint64_t> examples, const BatchBuffers& out) const;

 private:
  virtual Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const = 0;
};

// Room for one batch at a time, as large as the largest.
class Batch {
 public:
  Batch(const ExampleLayout& layout, uint64_t most_examples);

  // Fills the room with these examples.
  Status load(const Dataset& dataset, std::span<const uint64_t> examples);

  // What the layout does not speak of is empty.
  uint64_t size() const { return size_; }
  std::span<const float> features() const { return used(features_, feature_count_); }
  std::span<const uint32_t> feature_ids() const { return used(feature_ids_, feature_count_); }
  std::span<const float> targets() const { return used(targets_, target_count_); }
  std::span<const uint32_t> target_ids() const { return used(target_ids_, target_count_); }

 private:
  template <typename T>
  std::span<const T> used(const std::vector<T>& list, uint64_t each) const {
    return std::span<const T>(list).first(list.empty() ? 0 : size_ * each);
  }

  uint64_t most_;
  uint64_t feature_count_;
  uint64_t target_count_;
  uint64_t size_ = 0;
  std::vector<float> features_;
  std::vector<uint32_t> feature_ids_;
  std::vector<float> targets_;
  std::vector<uint32_t> target_ids_;
};

// ---------------------------------------------------------------- arrays

// How the second array of a set is to be understood.
enum class TargetForm : uint8_t {
  kAuto,     // whole numbers in one column are classes, anything else values
  kClasses,  // whole numbers, of any type
  kOneHot,   // rows of zeros with a single one, taken as classes
  kValues,   // numbers
  kNone,     // there is none
};

struct ArrayOptions {
  TargetForm target = TargetForm::kAuto;
  uint64_t classes = 0;             // 0: one more than the largest index found
  double divide_by = 1;             // every feature: 255 brings bytes of pictures to 0..1
  std::optional<Shape> item_shape;  // of one example's features, where the file has another of the same size
};

// One array: its elements as they are stored, little-endian and row-major. The first dimension counts the examples.
struct ArrayColumn {
  std::string name;  // for errors: "x", "labels"
  DType dtype = DType::kF32;
  Shape shape;
  BytesOrView bytes{ByteSpan{}};
  std::shared_ptr<const void> keeps = nullptr;  // what the bytes point into
};

// From arrays in memory; `name` is what errors call the set. Features keep their type and become f32 when a batch is
// filled, so that a set of bytes stays as small as its file.
Result<std::shared_ptr<const Dataset>> make_array_dataset(std::string name, ArrayColumn features,
                                                          std::optional<ArrayColumn> targets,
                                                          const ArrayOptions& options = {});

struct NpzDatasetOptions {
  std::string features = "x";
  std::string targets = "y";
  ArrayOptions array;
};
// Arrays of an NPZ file, or of any other archive that `open_archive` reads. Payloads that are stored as they are stay
// in the file's mapping; their checksums are checked once.
Result<std::shared_ptr<const Dataset>> open_npz_dataset(const std::string& path, const NpzDatasetOptions& options = {});

// MNIST's format, plain or gzip: a file of images (any IDX array) and one of labels (empty: none).
Result<std::shared_ptr<const Dataset>> open_idx_dataset(const std::string& images, const std::string& labels,
                                                        const ArrayOptions& options = {});

// ---------------------------------------------------------------- pictures

struct ImageFolderOptions {
  uint64_t size = 32;     // both sides, after scaling and cutting the middle out
  uint64_t channels = 3;  // 3: colours, 1: grey
  double divide_by = 255;
  unsigned threads = 0;
};
// One class per folder inside `path`, in byte order of their names; .png, .jpg and .jpeg files inside those are the
// examples. Everything is decoded at once and kept as bytes: size * size * channels for each.
Result<std::shared_ptr<const Dataset>> open_image_folder(const std::string& path, const PictureReader& read,
                                                         const ImageFolderOptions& options = {},
                                                         const Progress& progress = {});

// ---------------------------------------------------------------- tables

struct TableOptions {
  std::vector<std::string> features = {};  // columns; empty: all but the target
  std::string target = {};                 // column
  bool last_is_target = false;             // where no column is named
  TargetForm form = TargetForm::kAuto;     // auto: texts, and whole numbers from 0 to below 1000, are classes
  uint64_t classes = 0;
  double divide_by = 1;
  std::vector<std::string> class_names = {};  // of the set that this one evaluates; empty: those found, sorted
};
// Reads the table to its end. Classes that are texts are numbered in byte order of their names, which the set keeps.
Result<std::shared_ptr<const Dataset>> open_table_dataset(TableReader& table, const TableOptions& options = {});

// Calls visit() with the text that each row has in this column.
Status read_table_texts(TableReader& table, const std::string& column,
                        const std::function<Status(const std::string& text)>& visit);

// The same set, with names for its classes.
std::shared_ptr<const Dataset> with_class_names(std::shared_ptr<const Dataset> dataset, std::vector<std::string> names);

// ---------------------------------------------------------------- text

// Calls visit() with each of the texts in a file.
using DocumentReader =
    std::function<Status(const std::string& path, const std::function<Status(const std::string& text)>& visit)>;

struct TextOptions {
  uint64_t context = 128;
  double held_out = 0;  // this part of each file, at its end
  // Stands between files, and behind the last. Must be one token of the tokenizer; empty: nothing does.
  std::string separator = {};
  // Examples for training lie side by side, instead of beginning at every token.
  bool side_by_side = false;
  // Null: a file is one text. Otherwise each text ends with the separator, or with a line break where there is none.
  DocumentReader documents = nullptr;
};
struct TextDatasets {
  std::shared_ptr<const Dataset> training;  // where an example begins at every token, draw them (Sampling::kDrawn)
  std::shared_ptr<const Dataset> held_out;  // windows that follow each other; null where nothing is held out
  uint64_t training_tokens = 0;
  uint64_t held_out_tokens = 0;
  uint64_t vocabulary = 0;  // ids are below it
};
// `tokenizer` null: a token is a byte. Features are `context` tokens, targets those that follow each of them.
Result<TextDatasets> open_text_datasets(const std::vector<std::string>& paths, const Tokenizer* tokenizer,
                                        const TextOptions& options);
// All of these files as windows side by side: for evaluation. Nothing is held out.
Result<std::shared_ptr<const Dataset>> open_text_windows(const std::vector<std::string>& paths,
                                                         const Tokenizer* tokenizer, const TextOptions& options);

// ---------------------------------------------------------------- splitting

struct SplitDatasets {
  std::shared_ptr<const Dataset> training;
  std::shared_ptr<const Dataset> held_out;
};
// Holds out this part (in (0, 1)) of the examples: those at the end, or with a seed a random choice that depends on the
// seed and the number of examples only. Neither part may be empty.
Result<SplitDatasets> split_dataset(std::shared_ptr<const Dataset> dataset, double held_out,
                                    std::optional<uint64_t> seed);

}  // namespace ballast
