#include "ballast/training/open_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/guard.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/training/data/table_reader.h"
#include "ballast/training/tokenizer_files.h"

namespace ballast {

namespace {

TargetForm target_form(const DataSpec& data) {
  if (data.kind == "npz" && data.y.empty()) return TargetForm::kNone;
  if (data.target == "classes") return TargetForm::kClasses;
  if (data.target == "one_hot") return TargetForm::kOneHot;
  return data.target == "values" ? TargetForm::kValues : TargetForm::kAuto;
}

ArrayOptions array_options(const DataSpec& data, uint64_t classes) {
  ArrayOptions options;
  options.target = target_form(data);
  options.classes = data.classes != 0 ? data.classes : classes;
  options.divide_by = data.divide_by;
  options.item_shape = data.shape;
  return options;
}

Result<std::unique_ptr<TableReader>> open_table(const DataSpec& data, const std::string& path) {
  if (data.kind == "jsonl") return open_jsonl(path);
  return open_csv(path, {.delimiter = data.delimiter[0], .header = data.header});
}

// Everything but text. `known`: the set that this one will evaluate; null: none.
Result<std::shared_ptr<const Dataset>> open_examples(const DataSpec& data, const OpenDataSettings& settings,
                                                     const Dataset* known) {
  const std::string& path = data.paths.front();
  const uint64_t classes = known != nullptr ? known->layout().classes : 0;
  if (data.is_table()) {
    BALLAST_TRY(const auto table, open_table(data, path));
    TableOptions options;
    options.features = data.columns;
    options.target = data.y;
    options.last_is_target = data.kind == "csv";
    options.form = target_form(data);
    options.classes = data.classes != 0 ? data.classes : classes;
    options.divide_by = data.divide_by;
    if (known != nullptr) options.class_names.assign(known->class_names().begin(), known->class_names().end());
    return open_table_dataset(*table, options);
  }
  if (data.kind == "npz") return open_npz_dataset(path, {data.x, data.y, array_options(data, classes)});
  if (data.kind == "idx") return open_idx_dataset(path, data.labels, array_options(data, classes));
  if (!settings.read_picture) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: this program decodes no pictures", path));
  }
  return open_image_folder(path, settings.read_picture, {data.size, data.channels, data.divide_by, settings.threads},
                           settings.progress);
}

// Training and evaluation must speak of the same examples.
Status check_alike(const Dataset& training, const Dataset& evaluation) {
  const ExampleLayout& a = training.layout();
  const ExampleLayout& b = evaluation.layout();
  const bool alike = a.features == b.features && a.feature_shape == b.feature_shape && a.targets == b.targets &&
                     a.target_shape == b.target_shape && b.classes <= a.classes;
  if (!alike) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: examples of {} with targets {} and {} classes cannot evaluate what {} trains: {}, "
                    "{} and {} classes",
                    evaluation.name(), b.feature_shape.to_string(), b.target_shape.to_string(), b.classes,
                    training.name(), a.feature_shape.to_string(), a.target_shape.to_string(), a.classes));
  }
  const auto a_names = training.class_names();
  const auto b_names = evaluation.class_names();
  if (std::equal(a_names.begin(), a_names.end(), b_names.begin(), b_names.end())) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: its folders are other classes than those of {}",
                                                             evaluation.name(), training.name()));
}

// Null where a file is one text.
DocumentReader documents_of(const DataSpec& data) {
  if (!data.is_table()) return nullptr;
  return [data](const std::string& path, const auto& visit) -> Status {
    BALLAST_TRY(const auto table, open_table(data, path));
    return read_table_texts(*table, data.text, visit);
  };
}

Status open_text(const DataSpec& data, const EvalSpec& eval, const OpenDataSettings& settings, TrainingData& out) {
  if (data.tokenizer != "bytes") {
    BALLAST_TRY(Tokenizer tokenizer, load_tokenizer(data.tokenizer));
    out.tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer));
  }
  BALLAST_TRY(out.companions, tokenizer_files(data.tokenizer));
  TextOptions options;
  options.context = settings.context;
  options.held_out = data.held_out;
  options.separator = data.separator;
  options.side_by_side = !data.shuffle;
  options.documents = documents_of(data);
  BALLAST_TRY(const TextDatasets sets, open_text_datasets(data.paths, out.tokenizer.get(), options));
  out.training = sets.training;
  out.evaluation = sets.held_out;
  out.sampling = data.shuffle ? Sampling::kDrawn : Sampling::kFileOrder;
  out.drawn_per_epoch = std::max<uint64_t>(1, sets.training_tokens / settings.context);
  if (!eval.data) return {};
  options.separator = eval.data->separator;
  options.documents = documents_of(*eval.data);
  BALLAST_TRY(out.evaluation, open_text_windows(eval.data->paths, out.tokenizer.get(), options));
  return {};
}

}  // namespace

Result<TrainingData> open_training_data(const DataSpec& data, const EvalSpec& eval, const OpenDataSettings& settings) {
  return guarded([&]() -> Result<TrainingData> {
    TrainingData out;
    out.drop_last = data.drop_last;
    if (data.is_text()) {
      BALLAST_CHECK(open_text(data, eval, settings, out));
      return out;
    }
    out.sampling = data.shuffle ? Sampling::kShuffled : Sampling::kFileOrder;
    BALLAST_TRY(out.training, open_examples(data, settings, nullptr));
    if (eval.data) {
      BALLAST_TRY(out.evaluation, open_examples(*eval.data, settings, out.training.get()));
      BALLAST_CHECK(check_alike(*out.training, *out.evaluation));
    } else if (data.held_out > 0) {
      const std::optional<uint64_t> seed = data.shuffle ? std::optional(settings.seed) : std::nullopt;
      BALLAST_TRY(const SplitDatasets split, split_dataset(out.training, data.held_out, seed));
      out.training = split.training;
      out.evaluation = split.held_out;
    }
    return out;
  });
}

Result<BatchOrder> TrainingData::training_order(uint64_t batch_size, uint64_t seed) const {
  auto order = BatchOrder::make({.examples = training->size(),
                                 .batch_size = batch_size,
                                 .sampling = sampling,
                                 .drop_last = drop_last,
                                 .seed = seed,
                                 .drawn_per_epoch = drawn_per_epoch});
  if (!order) return std::move(order).error().with_context(training->name());
  return order;
}

Result<BatchOrder> TrainingData::evaluation_order(uint64_t batch_size) const {
  return BatchOrder::make({.examples = evaluation->size(), .batch_size = batch_size, .sampling = Sampling::kFileOrder});
}

}  // namespace ballast
