#include <fmt/format.h>

#include <map>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/write_tensors.h"
#include "apps/ballast/models/model_input.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/ops/context.h"

namespace ballast::cli {

namespace {

struct TraceFlags {
  ModelFlags model;
  InputFlags input;
  std::string out;
  bool json = false;
};

// Keeps every output, under a name of its own.
class Recorder final : public TraceSink {
 public:
  Status on_output(std::string_view name, std::string_view functional, const Tensor& output) override {
    std::string base = name.empty() || name.ends_with('.') ? fmt::format("{}{}", name, functional) : std::string(name);
    const size_t times = ++seen_[base];
    steps_.push_back({times == 1 ? base : fmt::format("{}#{}", base, times), output});
    functionals_.emplace_back(functional);
    return {};
  }

  const std::vector<NamedTensor>& steps() const { return steps_; }
  const std::vector<std::string>& functionals() const { return functionals_; }

 private:
  std::vector<NamedTensor> steps_;
  std::vector<std::string> functionals_;
  std::map<std::string, size_t> seen_;
};

Result<Recorder> record(const TraceFlags& flags, RunningModel& running) {
  InputFlags chosen = flags.input;
  BALLAST_TRY(const std::vector<std::string> images, image_files(chosen.images));
  if (images.size() > 1) return make_error(ErrorCode::kInvalidArgument, "trace records one image at a time");
  if (!images.empty()) chosen.image = images.front();
  BALLAST_TRY(const ModelInput input, make_input(chosen, running));
  Recorder recorder;
  running.model().context().trace = &recorder;
  auto output = running.model().forward(input);
  running.model().context().trace = nullptr;
  if (!output) return std::move(output).error();
  if (!flags.out.empty()) BALLAST_CHECK(write_tensors(flags.out, recorder.steps(), flags.model.overwrite));
  return recorder;
}

std::string trace_json(const RunningModel& running, const Recorder& recorder) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "model", running.path());
  json.key("steps").begin_array();
  for (size_t i = 0; i < recorder.steps().size(); ++i) {
    json.begin_object();
    add_text(json, "name", recorder.steps()[i].name);
    add_text(json, "functional", recorder.functionals()[i]);
    json.key("shape").numbers(recorder.steps()[i].tensor.dims().span());
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + '\n';
}

void print_trace(const Recorder& recorder, Console& console) {
  Table table({name_column("name"), {"functional"}, {"shape"}});
  for (size_t i = 0; i < recorder.steps().size(); ++i) {
    table.add_row(printable(recorder.steps()[i].name), recorder.functionals()[i],
                  recorder.steps()[i].tensor.dims().to_string());
  }
  table.append_to(console.out(), console.output());
}

int trace(const TraceFlags& flags, Console& console) {
  const Status possible = check_outputs(flags.out, flags.model, Tensors::kSeveral);
  if (!possible) return console.fail(possible.error(), flags.json);
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto recorder = record(flags, **running);
  if (!recorder) return console.fail(recorder.error(), flags.json);
  if (flags.json) console.out() += trace_json(**running, *recorder);
  else print_trace(*recorder, console);
  if (!flags.out.empty()) console.remark(fmt::format("wrote {}\n", printable(flags.out)));
  const Status status = (*running)->finish(console);
  return status ? kExitYes : console.fail(status.error(), flags.json);
}

constexpr const char* kTraceFooter =
    "Runs the model once and shows the output of each operation, in order. --out stores the values; `ballast diff\n"
    "--trace` on two such files shows where two runs diverge.\n"
    "\n"
    "Examples:\n"
    "  ballast trace --text 'It is a truth'\n"
    "  ballast trace model.gptrs --tokens 1,2,3 --out trace.gten\n";

}  // namespace

RunCommand add_trace(CLI::App& program, Console& console) {
  Command command(program, "trace", "Record the output of every operation of a model");
  auto flags = std::make_shared<TraceFlags>();
  command.optional_path("MODEL", flags->model.path,
                        "Model file or folder (default: the model that comes with Ballast)");
  add_input_flags(command, flags->input);
  command.written_file("--out", flags->out, "Store the values: .gten, .npz or .safetensors");
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kTraceFooter);
  return [flags, &console] { return trace(*flags, console); };
}

}  // namespace ballast::cli
