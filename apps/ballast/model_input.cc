#include "apps/ballast/model_input.h"

#include <fmt/format.h>

#include "apps/ballast/image_file.h"
#include "apps/ballast/streams.h"
#include "ballast/archive/open.h"
#include "ballast/models/random_image.h"
#include "ballast/tensor/cast.h"

namespace ballast::cli {

namespace {

Error refuse(std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); }

Status check_exclusive(const InputFlags& flags) {
  const int given =
      int{!flags.tokens.empty()} + int{!flags.text.empty()} + int{!flags.image.empty()} + int{!flags.archive.empty()};
  if (given > 1) return refuse("--tokens, --text, --image and --input exclude each other: give one of them");
  if (flags.text.empty() && !flags.tokenizer.empty()) return refuse("--tokenizer is only of use with --text");
  return {};
}

Result<ModelInput> text_input(const InputFlags& flags, RunningModel& running) {
  if (!flags.tokens.empty()) {
    BALLAST_TRY(std::vector<TokenId> ids, parse_token_list(flags.tokens));
    return ModelInput(TokenInput{std::move(ids)});
  }
  if (flags.text.empty()) return refuse("a text model needs --tokens 1,2,3 or --text TEXT");
  BALLAST_TRY(const Tokenizer tokenizer, find_tokenizer(flags.tokenizer, running.path()));
  std::string text = flags.text;
  if (is_stream(text)) BALLAST_CHECK(assign(text, read_text_input()));
  BALLAST_TRY(std::vector<TokenId> ids, tokenizer.encode(text));
  return ModelInput(TokenInput{std::move(ids)});
}

// A tensor of a file: images for models that take nothing else, anything for others.
Result<ModelInput> archive_input(const InputFlags& flags, bool takes_values, Workspace& workspace) {
  BALLAST_TRY(const Archive archive, open_archive(flags.archive));
  const auto index = archive.find(flags.archive_key);
  if (!index) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: there is no tensor \"{}\"; --input-key names another",
                                                        flags.archive, flags.archive_key));
  }
  const TensorInfo& info = archive.tensors()[*index];
  if (info.shape.rank() > Dims::kMaxRank || (info.shape.rank() != 4 && !takes_values)) {
    return refuse(fmt::format("{}: tensor \"{}\" has shape {}; images are [n, 3, height, width]", flags.archive,
                              flags.archive_key, info.shape.to_string()));
  }
  BALLAST_TRY(Tensor image, workspace.make(Dims(info.shape.dims())));
  BALLAST_TRY(const Payload payload, archive.payload(*index));
  const MutableByteSpan out(reinterpret_cast<std::byte*>(image.writable<float>()), image.count() * sizeof(float));
  if (auto cast = cast_elements(info.dtype, payload.bytes(), DType::kF32, out); !cast)
    return std::move(cast).error().with_context(flags.archive);
  if (takes_values) return ModelInput(ValuesInput{std::move(image)});
  return ModelInput(ImageInput{std::move(image)});
}

Result<ModelInput> image_input(const InputFlags& flags, const ImageClassifier& model, Workspace& workspace) {
  const uint64_t size = flags.image_size != 0 ? flags.image_size : model.image_size();
  if (!flags.image.empty()) {
    BALLAST_TRY(const Picture picture, read_picture(flags.image));
    BALLAST_TRY(Tensor image, prepare_image(workspace, picture, size, model.recipe()));
    return ModelInput(ImageInput{std::move(image)});
  }
  constexpr uint64_t kMost = 1 << 16;
  if (flags.batch == 0 || flags.batch > kMost || size > kMost) {
    return refuse(fmt::format("--batch {} of --image-size {} is no input", flags.batch, size));
  }
  const Dims dims{flags.batch, model.channels(), size, size};
  BALLAST_TRY(Tensor noise, workspace.from(seeded_normals(flags.seed, dims.count()), dims));
  return ModelInput(ImageInput{std::move(noise)});
}

}  // namespace

void add_input_flags(Command& command, InputFlags& flags) {
  command.texts("--tokens", "IDS", flags.tokens, "Input of a text model: 1,2,3");
  command.text("--text", "TEXT", flags.text, "The same as text; - reads it from standard input");
  command.text("--tokenizer", "FILE", flags.tokenizer, "tokenizer.json or vocab.json, unless it stands beside MODEL");
  command.text("--image", "FILE", flags.image, "Input of an image model: a PNG or JPEG picture");
  command.text("--input", "FILE", flags.archive,
               "The same as a tensor [n, channels, height, width] in a file; any shape for a .netcl model");
  command.text("--input-key", "NAME", flags.archive_key, "Name of that tensor (input)");
  command.count("--seed", "N", flags.seed, "An image model without input gets noise of this seed (0)");
  command.count("--batch", "N", flags.batch, "How many images of noise (1)");
  command.count("--image-size", "N", flags.image_size, "Sides of images, unless the model's own");
}

Result<ModelInput> make_input(const InputFlags& flags, RunningModel& running) {
  BALLAST_CHECK(check_exclusive(flags));
  LoadedModel& model = running.model();
  const bool wants_text = !flags.tokens.empty() || !flags.text.empty();
  const bool takes_values = model.takes_values();
  const bool reads = model.as_causal_lm() != nullptr || model.as_text_embedder() != nullptr;
  if (wants_text && !reads && !takes_values) return wrong_capability(model, "text");
  if (wants_text && takes_values) return text_input(flags, running);
  const bool has_images = model.as_image_classifier() != nullptr;
  if (!flags.image.empty() && !has_images) return wrong_capability(model, "images");
  if (!flags.archive.empty()) {
    if (!has_images && !takes_values) return wrong_capability(model, "images");
    return archive_input(flags, takes_values, model.workspace());
  }
  if (takes_values && !has_images) {
    return refuse("the model takes a tensor: give a file that holds it with --input, and its name with --input-key");
  }
  if (const ImageClassifier* classifier = model.as_image_classifier())
    return image_input(flags, *classifier, model.workspace());
  return text_input(flags, running);
}

}  // namespace ballast::cli
