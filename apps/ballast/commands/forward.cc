#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/write_tensors.h"
#include "apps/ballast/models/model_input.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/interrupt.h"
#include "ballast/device/host_values.h"
#include "ballast/engine/sampler.h"

namespace ballast::cli {

namespace {

struct ForwardFlags {
  ModelFlags model;
  InputFlags input;
  std::vector<std::string> images;  // without a flag
  uint64_t top = 0;                 // 0: five of one input, the best of each of several images
  std::string out;
  bool json = false;
};

struct Entry {
  TokenId index;
  float value;
  double log_probability;
};

struct Ranked {
  uint64_t row;
  std::string image;  // "" where the input is something else
  std::vector<Entry> best;
};

struct ForwardResult {
  std::string kind;
  std::vector<uint64_t> shape;
  std::vector<float> values;  // of all rows, for --out
  bool classifies = true;     // known to: what else a model of layers computes may be classes or a regression
  bool has_shares = true;     // a single number has none
  bool has_rows = true;       // the states of an embedder are nothing to choose from
  std::vector<Ranked> rows;   // of a text its last position, of images each
  std::vector<std::string> labels;
  std::optional<Tokenizer> tokenizer;  // of a text model that has one
  double seconds = 0;
};

// ---------------------------------------------------------------- running

std::vector<Entry> best_of(std::span<const float> row, uint64_t top) {
  std::vector<Entry> best;
  for (const SampledToken& token : Sampler::likeliest(row, std::min<uint64_t>(top, row.size())))
    best.push_back({token.id, row[token.id], token.log_probability});
  return best;
}

// One input through the model; its rows go behind those that are there.
Status run_once(const InputFlags& input_flags, uint64_t top, RunningModel& running, ForwardResult& result) {
  LoadedModel& model = running.model();
  BALLAST_TRY(const ModelInput input, make_input(input_flags, running));
  const auto start = std::chrono::steady_clock::now();
  BALLAST_TRY(const Tensor output, model.forward(input));
  result.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto dims = output.dims().span();
  const uint64_t count = output.dims().leading(), width = output.dims().back();
  result.has_rows = model.as_text_embedder() == nullptr;
  result.classifies = model.chooses();
  result.has_shares = result.classifies || width > 1;
  const uint64_t before = result.shape.empty() ? 0 : result.shape.front();
  result.shape.assign(dims.begin(), dims.end());
  if (before != 0) result.shape.front() += before;
  BALLAST_TRY(const auto values, HostValues<float>::of(output));
  result.values.insert(result.values.end(), values.begin(), values.end());
  for (uint64_t row = model.as_causal_lm() != nullptr ? count - 1 : 0; result.has_rows && row < count; ++row)
    result.rows.push_back({before + row, input_flags.image, best_of(values.span().subspan(row * width, width), top)});
  return {};
}

Result<ForwardResult> run(const ForwardFlags& flags, RunningModel& running) {
  ForwardResult result;
  result.kind = running.model().kind();
  InputFlags input = flags.input;
  BALLAST_TRY(const std::vector<std::string> images, image_files(input.images));
  const uint64_t top = flags.top != 0 ? flags.top : images.size() > 1 ? 1 : 5;
  if (images.empty()) BALLAST_CHECK(run_once(input, top, running, result));
  const CancelScope cancel;
  for (const std::string& image : images) {
    if (interrupted()) return make_error(ErrorCode::kCancelled, "interrupted");
    input.image = image;
    BALLAST_CHECK(run_once(input, top, running, result));
  }
  const auto labels = running.model().class_names();
  if (running.model().as_image_classifier() != nullptr || !labels.empty())
    result.labels.assign(labels.begin(), labels.end());
  else if (auto tokenizer = tokenizer_for(flags.input.tokenizer, running.source(), TokenizerAdvice::kTokenizer))
    result.tokenizer = std::move(*tokenizer);
  if (!flags.out.empty()) {
    BALLAST_TRY(Tensor all, running.model().workspace().from(result.values, Dims(result.shape)));
    const NamedTensor named{result.has_rows ? "logits" : "states", std::move(all)};
    BALLAST_CHECK(write_tensors(flags.out, std::span(&named, 1), flags.model.overwrite));
  }
  return result;
}

// ---------------------------------------------------------------- saying so

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
  json.key("output_shape").numbers(result.shape);
  json.key("seconds").real(result.seconds).key("rows").begin_array();
  for (const Ranked& row : result.rows) {
    json.begin_object();
    add_number(json, "row", row.row);
    if (!row.image.empty()) add_text(json, "image", row.image);
    json.key("top").begin_array();
    for (const Entry& entry : row.best) {
      json.begin_object();
      add_number(json, "index", entry.index);
      json.key(result.has_shares ? "logit" : "value").real(static_cast<double>(entry.value));
      if (result.has_shares) json.key("log_probability").real(entry.log_probability);
      if (!label_of(result, entry.index).empty()) add_text(json, "label", label_of(result, entry.index));
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

std::string share_text(const ForwardResult& result, const Entry& entry) {
  return result.has_shares ? fmt::format("{:.2f}%", 100 * std::exp(entry.log_probability)) : "";
}

// A table a row, or one table for many images.
void print_rows(const ForwardResult& result, Console& console) {
  const std::string_view value = result.classifies ? "logit" : "value";
  const std::string_view share = !result.has_shares ? "" : result.classifies ? "share" : "softmax";
  const bool images = result.rows.size() > 1 && !result.rows.front().image.empty();
  const Column name = images ? name_column("image") : Column{""};
  const auto make_table = [&] {
    return images ? Table({name, {"index", Align::kRight}, {value, Align::kRight}, {share, Align::kRight}, {""}})
                  : Table({{"index", Align::kRight}, {value, Align::kRight}, {share, Align::kRight}, {""}});
  };
  Table table = make_table();
  for (const Ranked& row : result.rows) {
    for (const Entry& entry : row.best) {
      std::string index = std::to_string(entry.index), number = fmt::format("{:.6f}", entry.value);
      std::string label = shown_label(result, entry.index), part = share_text(result, entry);
      if (images) table.add_row(printable(row.image), std::move(index), std::move(number), std::move(part), label);
      else table.add_row(std::move(index), std::move(number), std::move(part), label);
    }
    if (images) continue;
    console.heading(row.image.empty() ? fmt::format("row {}", row.row) : printable(row.image));
    table.append_to(console.out(), console.output());
    table = make_table();
  }
  if (!images) return;
  console.out() += '\n';
  table.append_to(console.out(), console.output());
}

void print_forward(const ForwardResult& result, Console& console) {
  console.out() += fmt::format("{} model, output [{}]\n", result.kind, fmt::join(result.shape, ", "));
  print_rows(result, console);
  console.remark(fmt::format("forward {:.1f} ms\n", result.seconds * 1e3));
}

int forward(const ForwardFlags& flags, Console& console) {
  const Status possible = check_outputs(flags.out, flags.model);
  if (!possible) return console.fail(possible.error(), flags.json);
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
    "Runs the model once per input. For text, shows the most likely next tokens; for images, the most likely classes;\n"
    "for other models, the values. Several images, or a folder of them, give one line each. --out stores all outputs\n"
    "as tensor \"logits\" in the format of its extension; for an embedding model, the token states as \"states\".\n"
    "\n"
    "Examples:\n"
    "  ballast forward --text 'It is a truth'\n"
    "  ballast forward model.gptrs --tokens 1,2,3 --out logits.gten\n"
    "  ballast forward model.gptrs --tokens 1,2,3 --top 10 --json\n"
    "  ballast forward digits.netcl --image seven.png\n"
    "  ballast forward digits.netcl seven.png seven.png --top 2\n"
    "  ballast forward model.netcl --input data.npz --input-key x\n";

}  // namespace

RunCommand add_forward(CLI::App& program, Console& console) {
  Command command(program, "forward", "Run a model on one or more inputs and show its output");
  auto flags = std::make_shared<ForwardFlags>();
  command.optional_path("MODEL", flags->model.path,
                        "Model file or folder (default: the model that comes with Ballast)");
  command.optional_texts("IMAGE", flags->images, "PNG or JPEG files, or folders of them, for an image model");
  add_input_flags(command, flags->input);
  command.count("--top", "N", flags->top, "Show the N best entries of each output (5; 1 for several images)", 1);
  command.written_file("--out", flags->out, "Store all outputs: .gten, .npz, .npy or .safetensors");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kForwardFooter);
  return [flags, &console] {
    flags->input.images.insert(flags->input.images.begin(), flags->images.begin(), flags->images.end());
    return forward(*flags, console);
  };
}

}  // namespace ballast::cli
