// A model of layers that runs where its weights lie.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ballast/base/checked.h"
#include "bindings/core/handle.h"
#include "bindings/core/layers.h"

struct ballast_core_model {
  ballast::core::Arena* arena = nullptr;
  std::vector<ballast::core::Step> steps;
  ballast::core::Form in, out;
  std::vector<float> buffers[2];
};

namespace ballast::core {

namespace {

// The metadata entry of files other than netcl's; see nn/sequential_file.h.
constexpr std::string_view kSequentialEntry = "ballast.sequential";

struct Listing {
  std::string_view text;
  char separator;
};

Result<Listing> find_listing(const Description& description) {
  for (const MetaEntry& entry : description.metadata) {
    if (entry.key != kSequentialEntry) continue;
    if (const auto* text = std::get_if<std::string>(&entry.value)) return Listing{*text, '.'};
  }
  if (description.config && description.config->schema == kNetclSchema) {
    return Listing{description.config->text, ':'};
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("the file says nothing of layers: it has neither metadata \"{}\" "
                                "nor a config of netcl's; a model of another kind?",
                                kSequentialEntry));
}

Result<Form> input_form(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t length : shape) {
    const auto product = checked_mul(count, length);
    if (!product || *product == 0 || *product > SIZE_MAX / sizeof(float)) {
      return make_error(ErrorCode::kInvalidArgument, "the input has a length of 0, or too many values");
    }
    count = *product;
  }
  if (shape.size() == 1) return Form{shape[0]};
  if (shape.size() == 3) return Form{shape[0], shape[1], shape[2], true};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("inputs have 1 dimension or 3, not {}", shape.size()));
}

Status check_size(const Form& form, const NetclLayer& layer) {
  const auto area = checked_mul(form.height, form.width);
  const auto count = area ? checked_mul(*area, form.channels) : std::nullopt;
  if (count && *count != 0 && *count <= SIZE_MAX / sizeof(float)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("layer {} ({}): gives {}x{}x{} values, which cannot be held", layer.index, layer.type,
                                form.channels, form.height, form.width));
}

Status add_layer(ballast_core_model& model, const ballast_core& archive, const NetclLayer& layer, char separator) {
  const LayerRow* row = find_layer(layer.type);
  if (row == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("layer {} is a {}; known here: {}", layer.index, layer.type, known_layers()));
  }
  if (row->plan == nullptr) return {};
  Step step;
  step.in = step.out = model.out;
  BALLAST_CHECK(row->plan(LayerSource(archive, layer, separator), step));
  BALLAST_CHECK(check_size(step.out, layer));
  model.out = step.out;
  if (step.run != nullptr) model.steps.push_back(std::move(step));
  return {};
}

// Values go back and forth between two buffers; each is as large as the largest that it ever holds.
void make_buffers(ballast_core_model& model) {
  uint64_t sizes[2] = {model.in.count(), 0};
  size_t at = 0;
  for (const Step& step : model.steps) {
    if (!step.in_place) at ^= 1;
    sizes[at] = std::max(sizes[at], step.out.count());
  }
  for (size_t i = 0; i < 2; ++i) model.buffers[i].resize(static_cast<size_t>(sizes[i]));
}

Status run(ballast_core_model& model, std::span<const float> input, std::span<float> output) {
  if (input.size() != model.in.count() || output.size() != model.out.count()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the model takes {} values and gives {}; given were {}, and room for {}",
                                  model.in.count(), model.out.count(), input.size(), output.size()));
  }
  size_t at = 0;
  std::copy(input.begin(), input.end(), model.buffers[0].begin());
  for (const Step& step : model.steps) {
    const float* from = model.buffers[at].data();
    if (!step.in_place) at ^= 1;
    step.run(step, from, model.buffers[at].data());
  }
  std::copy_n(model.buffers[at].begin(), output.size(), output.begin());
  return {};
}

}  // namespace

}  // namespace ballast::core

using namespace ballast;
using namespace ballast::core;

ballast_core_code ballast_core_model_open(ballast_core_model** model, ballast_core* archive, const uint64_t* shape,
                                          size_t rank) {
  *model = nullptr;
  return enter(*archive->arena, [&]() -> Status {
    BALLAST_TRY(const Listing listing, find_listing(archive->archive.description()));
    auto made = std::make_unique<ballast_core_model>();
    made->arena = archive->arena;
    BALLAST_TRY(made->in, input_form({shape, rank}));
    made->out = made->in;
    BALLAST_TRY([[maybe_unused]] const NetclModel read,
                parse_netcl_config(listing.text, "the model's layers", [&](const NetclLayer& layer) {
                  return add_layer(*made, *archive, layer, listing.separator);
                }));
    make_buffers(*made);
    *model = made.release();
    return {};
  });
}

size_t ballast_core_model_inputs(const ballast_core_model* model) { return static_cast<size_t>(model->in.count()); }
size_t ballast_core_model_outputs(const ballast_core_model* model) { return static_cast<size_t>(model->out.count()); }

ballast_core_code ballast_core_model_run(ballast_core_model* model, const float* input, size_t input_count,
                                         float* output, size_t output_count) {
  return enter(*model->arena, [&] { return run(*model, {input, input_count}, {output, output_count}); });
}

size_t ballast_core_argmax(const float* values, size_t count) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    const bool best_is_nan = values[best] != values[best];
    if (values[i] > values[best] || (best_is_nan && values[i] == values[i])) best = i;
  }
  return best;
}
