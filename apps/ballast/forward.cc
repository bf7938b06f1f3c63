#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/model_input.h"
#include "apps/ballast/table.h"
#include "apps/ballast/text.h"
#include "apps/ballast/write_tensors.h"
#include "ballast/text/sampler.h"

namespace ballast::cli {

namespace {

constexpr size_t kShown = 5;

struct ForwardFlags {
  ModelFlags model;
  InputFlags input;
  std::string out;
  bool overwrite = false;
  bool json = false;
};

struct Ranked {
  uint64_t row;
  std::vector<SampledToken> best;
};

struct ForwardResult {
  std::string kind;
  Tensor logits;             // of a model that embeds texts, its states
  std::vector<Ranked> rows;  // of a text its last position, of images each
  std::vector<std::string> labels;
  std::optional<Tokenizer> tokenizer;  // of a text model that has one
  double seconds = 0;
};

Result<ForwardResult> run(const ForwardFlags& flags, RunningModel& running) {
  LoadedModel& model = running.model();
  BALLAST_TRY(const ModelInput input, make_input(flags.input, running));
  const auto start = std::chrono::steady_clock::now();
  ForwardResult result;
  BALLAST_TRY(result.logits, model.forward(input));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.kind = model.kind();
  const uint64_t count = result.logits.dims().leading(), width = result.logits.dims().back();
  const bool has_logits = model.as_text_embedder() == nullptr;
  for (uint64_t row = model.as_causal_lm() != nullptr ? count - 1 : 0; has_logits && row < count; ++row) {
    result.rows.push_back({row, Sampler::likeliest({result.logits.f32() + row * width, width}, kShown)});
  }
  const ImageClassifier* classifier = model.as_image_classifier();
  const auto labels = classifier != nullptr ? classifier->labels() : model.class_names();
  if (classifier != nullptr || !labels.empty()) result.labels.assign(labels.begin(), labels.end());
  else if (auto tokenizer = find_tokenizer(flags.input.tokenizer, running.path()))
    result.tokenizer = std::move(*tokenizer);
  if (!flags.out.empty()) {
    const NamedTensor named{has_logits ? "logits" : "states", result.logits};
    BALLAST_CHECK(write_tensors(flags.out, std::span(&named, 1), flags.overwrite));
  }
  return result;
}

// The class of an image, the text of a token.
std::string label_of(const ForwardResult& result, TokenId id) {
  if (result.tokenizer) return std::string(result.tokenizer->bytes_of(id).value_or(""));
  return id < result.labels.size() ? result.labels[id] : "";
}

std::string shown_label(const ForwardResult& result, TokenId id) {
  const std::string label = printable(label_of(result, id));
  return result.tokenizer ? fmt::format("\"{}\"", label) : label;  // a token may begin with a space
}

std::string forward_json(const ForwardResult& result) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "kind", result.kind);
  json.key("output_shape").numbers(result.logits.dims().span());
  json.key("seconds").real(result.seconds).key("rows").begin_array();
  const uint64_t width = result.logits.dims().back();
  for (const Ranked& row : result.rows) {
    json.begin_object();
    add_number(json, "row", row.row);
    json.key("top").begin_array();
    for (const SampledToken& token : row.best) {
      json.begin_object();
      add_number(json, "index", token.id);
      json.key("logit").real(static_cast<double>(result.logits.f32()[row.row * width + token.id]));
      json.key("log_probability").real(token.log_probability);
      if (!label_of(result, token.id).empty()) add_text(json, "label", label_of(result, token.id));
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_forward(const ForwardResult& result, Console& console) {
  console.out() += fmt::format("{} model, output {}\n", result.kind, result.logits.dims().to_string());
  const uint64_t width = result.logits.dims().back();
  for (const Ranked& row : result.rows) {
    console.heading(fmt::format("row {}", row.row));
    Table table({{"index", Align::kRight}, {"logit", Align::kRight}, {"share", Align::kRight}, {""}});
    for (const SampledToken& token : row.best) {
      table.add_row(std::to_string(token.id), fmt::format("{:.6f}", result.logits.f32()[row.row * width + token.id]),
                    fmt::format("{:.2f}%", 100 * std::exp(token.log_probability)), shown_label(result, token.id));
    }
    table.append_to(console.out(), console.output());
  }
  console.remark(fmt::format("forward {:.1f} ms\n", result.seconds * 1e3));
}

int forward(const ForwardFlags& flags, Console& console) {
  if (const Status status = check_destination(flags.out, flags.overwrite); !status)
    return console.fail(status.error(), flags.json);
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto result = run(flags, **running);
  if (!result) return console.fail(result.error(), flags.json);
  if (flags.json) console.out() += forward_json(*result);
  else print_forward(*result, console);
  if (!flags.out.empty()) console.remark(fmt::format("wrote {}\n", printable(flags.out)));
  const Status status = (*running)->finish(console);
  return status ? kExitYes : console.fail(status.error(), flags.json);
}

constexpr const char* kForwardFooter =
    "Runs the model once. For text the likeliest next tokens of the last position are shown, for images the likeliest\n"
    "classes. --out keeps all logits as tensor \"logits\" in the format that its extension names; of a model that "
    "embeds\n"
    "texts, the states of the tokens as \"states\".\n"
    "\n"
    "Examples:\n"
    "  ballast forward --text 'It is a truth'\n"
    "  ballast forward model.gptrs --tokens 1,2,3 --out logits.gten\n"
    "  ballast forward model.gptrs --tokens 1,2,3 --json\n"
    "  ballast forward digits.netcl --image seven.png\n"
    "  ballast forward model.netcl --input data.npz --input-key x\n";

}  // namespace

RunCommand add_forward(CLI::App& program, Console& console) {
  Command command(program, "forward", "Run a model once and show what it says");
  auto flags = std::make_shared<ForwardFlags>();
  command.optional_path("MODEL", flags->model.path, "A checkpoint; without it the model that comes with Ballast");
  add_input_flags(command, flags->input);
  command.text("--out", "FILE", flags->out, "Keep all logits: .gten, .npz or .safetensors");
  command.flag("--overwrite", flags->overwrite, "Replace what stands at --out");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kForwardFooter);
  return [flags, &console] { return forward(*flags, console); };
}

}  // namespace ballast::cli
