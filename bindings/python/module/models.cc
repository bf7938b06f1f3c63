// Model: what ballast.load() gives, as far as the library does it. ballast/models.py has the doors that people use.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "ballast/device/host_values.h"
#include "ballast/models/model.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/generation.h"
#include "bindings/python/module/progress.h"
#include "bindings/python/module/tokenizer.h"

namespace ballast::python {

namespace {

using FloatsIn = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using PixelsIn = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

nb::object floats_to_numpy(std::span<const float> values, const std::vector<uint64_t>& shape) {
  const ByteSpan bytes = std::as_bytes(values);
  return numpy_owning(ByteVector(bytes.begin(), bytes.end()), DType::kF32, Shape(shape));
}

struct Output {
  std::vector<float> values;
  std::vector<uint64_t> shape;
};

// Of the model in Python: opened at once, opened again in the child of a fork(), and closed once.
class PyModel {
 public:
  explicit PyModel(ModelSettings settings) : settings_(std::move(settings)) { open(); }

  // Raises ValueError where it is closed.
  ModelHandle handle() {
    ModelHandle found = current();
    if (found && !found->is_here()) found = without_gil([&] { return open_again(); });
    if (!found) raise_closed("the model");
    return found;
  }

  void close() {
    ModelHandle last;
    {
      const std::lock_guard lock(mutex_);
      if (handle_ && handle_->is_here()) handle_->close();
      last = std::move(handle_);
    }
    const GilReleased released;
    last.reset();
  }
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return !handle_;
  }
  const ModelSettings& settings() const { return settings_; }

  std::unique_ptr<Generation> generate(std::vector<TokenId> prompt, const Wishes& wishes) {
    return start_generation(handle(), std::move(prompt), wishes, nullptr);
  }

  std::unique_ptr<Generation> chat(const std::string& context_json, const std::vector<int>& now, const Wishes& wishes) {
    const ModelHandle model = handle();
    const ClockTime clock = clock_of(now);
    const ChatFormat* format = without_gil([&] { return model->chat(); });
    std::vector<TokenId> prompt = without_gil([&] { return format->encode(context_json, clock); });
    return start_generation(model, std::move(prompt), wishes, format);
  }

  std::vector<TokenId> encode(nb::handle text) {
    const std::string prompt(utf8_of(text));
    const ModelHandle model = handle();
    return without_gil([&]() -> Result<std::vector<TokenId>> {
      BALLAST_TRY(const TextModel* text, model->text());
      return text->encode(prompt);
    });
  }

  nb::object embed(const nb::list& list) {
    std::vector<std::string> texts;
    for (const nb::handle text : list) texts.emplace_back(utf8_of(text));
    const ModelHandle model = handle();
    uint64_t width = 0;
    const auto work = [&](Watch& watch) -> Result<std::vector<Embedding>> {
      BALLAST_TRY(const Embedder* embedder, model->embedder());
      width = embedder->width();
      return embedder->embed(texts, watch.progress());
    };
    const std::vector<Embedding> embeddings = run_long(nb::none(), work);
    std::vector<float> values;
    values.reserve(embeddings.size() * width);
    for (const Embedding& embedding : embeddings) {
      values.insert(values.end(), embedding.vector.begin(), embedding.vector.end());
    }
    return floats_to_numpy(values, {embeddings.size(), width});
  }

  nb::list classify(const PixelsIn& pixels, size_t top) {
    const ModelHandle model = handle();
    const std::vector<ImageClass> classes = without_gil([&]() -> Result<std::vector<ImageClass>> {
      BALLAST_TRY(const ImageModel* images, model->images());
      Picture picture{pixels.shape(1), pixels.shape(0), {}};
      picture.pixels.assign(pixels.data(), pixels.data() + pixels.size());
      return images->classify(picture, top);
    });
    nb::list list;
    for (const ImageClass& found : classes)
      list.append(nb::make_tuple(found.index, found.name, found.probability, found.logit));
    return list;
  }

  nb::object forward_tokens(std::vector<TokenId> ids) {
    return forward([&](LoadedModel&) -> Result<ModelInput> { return ModelInput(TokenInput{std::move(ids)}); });
  }

  nb::object forward_values(const FloatsIn& values) {
    std::vector<uint64_t> shape;
    for (size_t i = 0; i < values.ndim(); ++i) shape.push_back(values.shape(i));
    if (shape.size() > Dims::kMaxRank) throw nb::value_error("the input has too many dimensions");
    return forward([&](LoadedModel& model) -> Result<ModelInput> {
      const std::lock_guard turn(model.running());
      BALLAST_TRY(const Tensor tensor, model.workspace().from({values.data(), values.size()}, Dims(shape)));
      if (model.as_image_classifier() != nullptr) return ModelInput(ImageInput{tensor});
      return ModelInput(ValuesInput{tensor});
    });
  }

 private:
  void open() {
    handle_ = ModelHandle(without_gil([&] { return OpenModel::open(settings_); }));
  }

  // Null once closed.
  ModelHandle current() const {
    const std::lock_guard lock(mutex_);
    return handle_;
  }

  // In the child of a fork(), by the first thread that needs it there; others wait for that one. Without the GIL.
  Result<ModelHandle> open_again() {
    const std::lock_guard turn(opening_);
    ModelHandle found = current();
    if (!found || found->is_here()) return found;
    BALLAST_TRY(auto opened, OpenModel::open(settings_));
    const std::lock_guard lock(mutex_);
    if (handle_) handle_ = ModelHandle(std::move(opened));
    return handle_;
  }

  // `make_input(LoadedModel&)` runs without the GIL as well.
  template <typename MakeInput>
  nb::object forward(const MakeInput& make_input) {
    const ModelHandle model = handle();
    const Output output = without_gil([&]() -> Result<Output> {
      BALLAST_TRY(const ModelInput input, make_input(model->model()));
      BALLAST_TRY(const Tensor made, model->model().forward(input));
      const std::lock_guard turn(model->model().running());
      BALLAST_TRY(std::vector<float> values, floats_of(made));
      const auto dims = made.dims().span();
      return Output{std::move(values), {dims.begin(), dims.end()}};
    });
    return floats_to_numpy(output.values, output.shape);
  }

  ModelSettings settings_;
  std::mutex opening_;
  mutable std::mutex mutex_;  // of the handle; held for a moment only
  ModelHandle handle_;        // null: closed
};

ModelSettings settings_of(std::string path, std::string device, unsigned threads, std::optional<uint64_t> budget,
                          std::optional<double> budget_share, bool exact, std::string tokenizer,
                          std::optional<std::string> chat_template, uint64_t most_sequences, uint64_t cache_bytes) {
  ModelSettings settings{std::move(path), std::move(tokenizer), std::move(chat_template), {}, {}};
  settings.load.backend = std::move(device);
  settings.load.threads = threads;
  settings.load.numerics = exact ? Numerics::kExact : Numerics::kFast;
  settings.load.param_budget = budget;
  settings.load.param_budget_fraction = budget_share;
  settings.engine.most_sequences = most_sequences;
  settings.engine.most_bytes = cache_bytes;
  return settings;
}

Wishes wishes_of(std::optional<uint64_t> max_tokens, std::optional<uint64_t> max_total,
                 std::optional<double> temperature, std::optional<uint64_t> top_k, std::optional<double> top_p,
                 std::optional<double> min_p, std::optional<double> repetition_penalty, uint64_t seed,
                 std::vector<std::string> stop, std::vector<TokenId> stop_token_ids, bool ignore_eos,
                 bool log_probabilities, std::optional<double> timeout, std::optional<Constraint> constraint) {
  Wishes wishes;
  wishes.max_tokens = max_tokens;
  wishes.max_total = max_total;
  wishes.temperature = temperature;
  wishes.top_k = top_k;
  wishes.top_p = top_p;
  wishes.min_p = min_p;
  wishes.repetition_penalty = repetition_penalty;
  wishes.seed = seed;
  wishes.stop = std::move(stop);
  wishes.stop_tokens = std::move(stop_token_ids);
  wishes.ignore_end = ignore_eos;
  wishes.log_probabilities = log_probabilities;
  wishes.timeout_seconds = timeout;
  wishes.constraint = std::move(constraint);
  return wishes;
}

// What a person may want to know about a model that was loaded all the same.
nb::list load_notes(const LoadReport& report) {
  nb::list notes;
  if (!report.unused.empty()) {
    notes.append(nb::str("the model does not use {} tensors of the file, among them {}")
                     .format(report.unused.size(), to_python_text(report.unused.front())));
  }
  if (report.narrowed != 0)
    notes.append(nb::str("{} tensors are stored as f64 and computed with as f32").format(report.narrowed));
  return notes;
}

nb::dict facts_of(PyModel& python_model) {
  const ModelHandle handle = python_model.handle();
  LoadedModel& model = handle->model();
  nb::dict facts;
  facts["kind"] = std::string(model.kind());
  nb::list capabilities, names;
  for (const std::string_view word : model.capabilities()) capabilities.append(std::string(word));
  for (const std::string& name : model.class_names()) names.append(name);
  facts["capabilities"] = capabilities;
  facts["class_names"] = names;
  facts["param_bytes"] = model.report().param_bytes;
  facts["notes"] = load_notes(model.report());
  facts["takes_values"] = model.takes_values();
  if (const CausalLm* writer = model.as_causal_lm()) {
    facts["context_length"] = writer->context_length();
    facts["vocab_size"] = writer->vocab_size();
  }
  if (const TextEmbedder* embedder = model.as_text_embedder()) {
    facts["context_length"] = embedder->max_length();
    facts["embedding_size"] = embedder->width();
  }
  if (const ImageClassifier* images = model.as_image_classifier()) {
    facts["channels"] = images->channels();
    facts["image_size"] = images->image_size();
  }
  facts["config"] = model.config_text();
  return facts;
}

nb::dict counters_of(PyModel& python_model) {
  const ModelHandle handle = python_model.handle();
  const EngineCounters counters = without_gil([&]() -> Result<EngineCounters> {
    BALLAST_TRY(SharedEngine * engine, handle->engine());
    return engine->counters();
  });
  nb::dict told;
  told["waiting"] = counters.waiting;
  told["running"] = counters.running;
  told["submitted"] = counters.submitted;
  told["finished"] = counters.finished;
  told["cancelled"] = counters.cancelled;
  told["steps"] = counters.steps;
  told["prompt_tokens"] = counters.prompt_tokens;
  told["reused_tokens"] = counters.reused_tokens;
  told["generated_tokens"] = counters.generated_tokens;
  return told;
}

PyTokenizer tokenizer_of(PyModel& python_model) {
  const ModelHandle handle = python_model.handle();
  return without_gil([&]() -> Result<PyTokenizer> {
    if (handle->model().as_text_embedder() != nullptr) {
      BALLAST_TRY(const Embedder* embedder, handle->embedder());
      return PyTokenizer(embedder->tokenizer(), handle->settings().path);
    }
    BALLAST_TRY(const TextModel* text, handle->text());
    BALLAST_TRY(const Tokenizer* tokenizer, text->tokenizer());
    return PyTokenizer(*tokenizer, handle->settings().path);
  });
}

}  // namespace

void bind_models(nb::module_& module) {
  nb::class_<Wishes>(module, "Wishes")
      .def(
          "__init__",
          [](Wishes* self, std::optional<uint64_t> max_tokens, std::optional<uint64_t> max_total,
             std::optional<double> temperature, std::optional<uint64_t> top_k, std::optional<double> top_p,
             std::optional<double> min_p, std::optional<double> repetition_penalty, uint64_t seed,
             std::vector<std::string> stop, std::vector<TokenId> stop_token_ids, bool ignore_eos,
             bool log_probabilities, std::optional<double> timeout, std::optional<Constraint> constraint) {
            new (self) Wishes(wishes_of(max_tokens, max_total, temperature, top_k, top_p, min_p, repetition_penalty,
                                        seed, std::move(stop), std::move(stop_token_ids), ignore_eos, log_probabilities,
                                        timeout, std::move(constraint)));
          },
          nb::arg("max_tokens").none(), nb::arg("max_total").none(), nb::arg("temperature").none(),
          nb::arg("top_k").none(), nb::arg("top_p").none(), nb::arg("min_p").none(),
          nb::arg("repetition_penalty").none(), nb::arg("seed"), nb::arg("stop"), nb::arg("stop_token_ids"),
          nb::arg("ignore_eos"), nb::arg("log_probabilities"), nb::arg("timeout").none(), nb::arg("constraint").none());
  nb::class_<PyModel>(module, "Model")
      .def(
          "__init__",
          [](PyModel* self, std::string path, std::string device, unsigned threads, std::optional<uint64_t> budget,
             std::optional<double> budget_share, bool exact, std::string tokenizer,
             std::optional<std::string> chat_template, uint64_t most_sequences, uint64_t cache_bytes) {
            new (self)
                PyModel(settings_of(std::move(path), std::move(device), threads, budget, budget_share, exact,
                                    std::move(tokenizer), std::move(chat_template), most_sequences, cache_bytes));
          },
          nb::arg("path"), nb::arg("device"), nb::arg("threads"), nb::arg("param_budget").none(),
          nb::arg("param_budget_share").none(), nb::arg("exact"), nb::arg("tokenizer"), nb::arg("chat_template").none(),
          nb::arg("max_sequences"), nb::arg("cache_bytes"))
      .def("close", &PyModel::close)
      .def_prop_ro("closed", &PyModel::is_closed)
      .def("facts", &facts_of)
      .def("counters", &counters_of)
      .def("tokenizer", &tokenizer_of)
      .def("encode", &PyModel::encode, nb::arg("prompt"))
      .def("generate", &PyModel::generate, nb::arg("prompt"), nb::arg("wishes"))
      .def("chat", &PyModel::chat, nb::arg("context_json"), nb::arg("now"), nb::arg("wishes"))
      .def("chat_marks",
           [](PyModel& model) {
             const ModelHandle handle = model.handle();
             const ChatFormat* format = without_gil([&] { return handle->chat(); });
             return nb::make_tuple(format->bos_token(), format->eos_token());
           })
      .def("stop_token_ids",
           [](PyModel& model) {
             const ModelHandle handle = model.handle();
             const TextModel* text = without_gil([&] { return handle->text(); });
             return std::vector<TokenId>(text->stop_tokens().begin(), text->stop_tokens().end());
           })
      .def("embed", &PyModel::embed, nb::arg("texts"))
      .def("classify", &PyModel::classify, nb::arg("pixels"), nb::arg("top"))
      .def("forward_tokens", &PyModel::forward_tokens, nb::arg("ids"))
      .def("forward_values", &PyModel::forward_values, nb::arg("values"));
}

}  // namespace ballast::python
