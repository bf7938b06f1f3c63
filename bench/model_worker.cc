// model_worker MODEL THREADS [PERCENT]: a model that stays loaded and takes turns, for scripts/bench_peers, which runs
// the workers of the other programs beside it. PERCENT: the budget for parameters. Each command is a line on standard
// input, each answer a line of JSON on standard output, the first of which tells of the loading:
//   prefill N                time until the first token behind N tokens
//   decode N STEPS           time of a step behind N tokens
//   logits N STEPS FILE      the logits behind N tokens and STEPS more, which are the likeliest: FILE gets them as f32
//   images FILE BATCH        time of a forward pass of the images in FILE (f32, NCHW)
//   classes FILE BATCH OUT   their logits, to OUT
//   memory                   the most memory that this process held, in bytes
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ballast/device/host_values.h"
#include "ballast/engine/generator.h"
#include "ballast/models/model.h"
#include "ballast/runtime/load_model.h"

namespace ballast {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Error cannot_use(const std::string& path) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: cannot be read or written as expected", path));
}

Result<std::vector<float>> read_floats(const std::string& path, uint64_t count) {
  std::vector<float> values(count);
  std::ifstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
  if (!file.read(reinterpret_cast<char*>(values.data()), bytes)) return cannot_use(path);
  return values;
}

Status write_floats(const std::string& path, const Tensor& tensor) {
  BALLAST_TRY(const std::vector<float> values, floats_of(tensor));
  std::ofstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  if (!file.write(reinterpret_cast<const char*>(values.data()), bytes)) return cannot_use(path);
  return {};
}

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> start(const std::string& path, unsigned threads, double budget_percent) {
    auto worker = std::make_unique<Worker>();
    LoadOptions options;
    options.threads = threads;
    if (budget_percent > 0) options.param_budget_fraction = budget_percent / 100;
    const auto start = std::chrono::steady_clock::now();
    BALLAST_TRY(worker->model_, load_model(path, options));
    worker->load_ms_ = milliseconds_since(start);
    return worker;
  }

  std::string greeting() const {
    return fmt::format(R"({{"load_ms": {}, "param_bytes": {}}})", load_ms_, model_->report().param_bytes);
  }

  Result<std::string> answer(const std::string& line) {
    std::istringstream words(line);
    std::string command, file, out;
    uint64_t count = 0, steps = 0;
    words >> command;
    if (command == "prefill" && words >> count) return prefill(count);
    if (command == "decode" && words >> count >> steps && steps > 0) return decode(count, steps);
    if (command == "logits" && words >> count >> steps >> out) return logits(count, steps, out);
    if (command == "images" && words >> file >> count) return images(file, count, "");
    if (command == "classes" && words >> file >> count >> out) return images(file, count, out);
    if (command == "memory") return memory();
    return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no command", line));
  }

 private:
  Result<Generator> start_text(uint64_t prompt_tokens, uint64_t more) {
    const CausalLm* lm = model_->as_causal_lm();
    if (lm == nullptr) return model_->cannot("text generation");
    std::vector<TokenId> prompt(prompt_tokens);
    for (uint64_t i = 0; i < prompt_tokens; ++i) prompt[i] = static_cast<TokenId>(i * 7919 % lm->vocab_size());
    GenerateOptions options;
    options.max_tokens = more;
    options.sampling.temperature = 0;
    options.sampling.log_probabilities = false;
    return Generator::start(*lm, model_->context(), std::move(prompt), options);
  }

  Result<std::string> prefill(uint64_t prompt_tokens) {
    const auto start = std::chrono::steady_clock::now();
    BALLAST_TRY(Generator generator, start_text(prompt_tokens, 1));
    BALLAST_CHECK(generator.next());
    return fmt::format(R"({{"ms": {}}})", milliseconds_since(start));
  }

  // The first token comes from the prompt's logits: each of those behind it is one step. The prompt of the last call is
  // still computed, which saves most of the time where it is long.
  Result<std::string> decode(uint64_t prompt_tokens, uint64_t steps) {
    if (text_ && text_->tokens().size() == prompt_tokens + 1 + steps) {
      const auto prompt = text_->tokens().first(prompt_tokens);
      BALLAST_CHECK(text_->restart({prompt.begin(), prompt.end()}));
    } else {
      text_.reset();
      BALLAST_TRY(text_, start_text(prompt_tokens, 1 + steps));
    }
    BALLAST_CHECK(text_->next());
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < steps; ++i) {
      BALLAST_TRY(const auto token, text_->next());
      if (!token) return make_error(ErrorCode::kInvalidArgument, "the text ended before its last step");
    }
    return fmt::format(R"({{"ms": {}}})", milliseconds_since(start) / static_cast<double>(steps));
  }

  // The logits are those that the last token was chosen from.
  Result<std::string> logits(uint64_t prompt_tokens, uint64_t steps, const std::string& out) {
    BALLAST_TRY(Generator generator, start_text(prompt_tokens, 1 + steps));
    for (uint64_t i = 0; i < 1 + steps; ++i) BALLAST_CHECK(generator.next());
    BALLAST_CHECK(write_floats(out, generator.logits()));
    return fmt::format(R"({{"tokens": {}}})", generator.tokens().first(prompt_tokens + steps));
  }

  Result<std::string> images(const std::string& file, uint64_t batch, const std::string& out) {
    const ImageClassifier* classifier = model_->as_image_classifier();
    if (classifier == nullptr) return model_->cannot("image classification");
    const Dims dims{batch, classifier->channels(), classifier->image_size(), classifier->image_size()};
    BALLAST_TRY(const std::vector<float> values, read_floats(file, dims.count()));
    BALLAST_TRY(Tensor pixels, model_->workspace().from(values, dims));
    const ModelInput input(ImageInput{std::move(pixels)});
    const auto start = std::chrono::steady_clock::now();
    BALLAST_TRY(const Tensor output, model_->forward(input));
    BALLAST_TRY([[maybe_unused]] const auto computed, HostValues<float>::of(output));
    const double ms = milliseconds_since(start);
    if (!out.empty()) BALLAST_CHECK(write_floats(out, output));
    return fmt::format(R"({{"ms": {}}})", ms);
  }

  static Result<std::string> memory() {
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return fmt::format(R"({{"peak_bytes": {}}})", usage.ru_maxrss * 1024);  // Linux counts in KiB
  }

  std::unique_ptr<LoadedModel> model_;
  std::optional<Generator> text_;  // of the last call of decode(); goes before the model
  double load_ms_ = 0;
};

int take_turns(const std::string& path, unsigned threads, double budget_percent) {
  const auto worker = Worker::start(path, threads, budget_percent);
  if (!worker) {
    fmt::print(stderr, "model_worker: {}\n", worker.error().message);
    return 2;
  }
  std::cout << (*worker)->greeting() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = (*worker)->answer(line);
    if (!answer) {
      fmt::print(stderr, "model_worker: {}\n", answer.error().message);
      return 2;
    }
    std::cout << *answer << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  if (count < 3 || count > 4) {
    fmt::print(stderr, "usage: model_worker MODEL THREADS [PERCENT]\n");
    return 2;
  }
  return ballast::take_turns(arguments[1], static_cast<unsigned>(std::atoi(arguments[2])),
                             count > 3 ? std::atof(arguments[3]) : 0);
}
