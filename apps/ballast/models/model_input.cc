#include "apps/ballast/models/model_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "apps/ballast/models/image_file.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/open.h"
#include "ballast/io/list_folder.h"
#include "ballast/models/random_image.h"
#include "ballast/runtime/image_model.h"
#include "ballast/tensor/cast.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostNoise = 1 << 16;  // images, and columns of one

Error refuse(std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); }

Status check_exclusive(const InputFlags& flags) {
  const int given =
      int{!flags.tokens.empty()} + int{!flags.text.empty()} + int{!flags.images.empty()} + int{!flags.archive.empty()};
  if (given > 1) return refuse("--tokens, --text, --image and --input cannot be combined: give one of them");
  if (flags.text.empty() && !flags.tokenizer.empty()) return refuse("--tokenizer needs --text");
  return {};
}

Result<ModelInput> text_input(const InputFlags& flags, RunningModel& running) {
  if (!flags.tokens.empty()) {
    BALLAST_TRY(std::vector<TokenId> ids, parse_token_list(flags.tokens));
    return ModelInput(TokenInput{std::move(ids)});
  }
  if (flags.text.empty()) return refuse("a text model needs --tokens 1,2,3 or --text TEXT");
  BALLAST_TRY(const Tokenizer tokenizer,
              tokenizer_for(flags.tokenizer, running.source(), TokenizerAdvice::kTokenizerOrTokens));
  std::string text = flags.text;
  if (is_stream(text)) BALLAST_CHECK(assign(text, read_prompt_input()));
  BALLAST_TRY(std::vector<TokenId> ids, tokenizer.encode(text));
  return ModelInput(TokenInput{std::move(ids)});
}

// A tensor of a file: images for models that take nothing else, anything for others.
Result<ModelInput> archive_input(const InputFlags& flags, bool takes_values, Workspace& workspace) {
  BALLAST_TRY(const Archive archive, open_archive(flags.archive));
  const auto index = archive.find(flags.archive_key);
  if (!index) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: there is no tensor \"{}\"; choose one with --input-key",
                                                        flags.archive, flags.archive_key));
  }
  const TensorInfo& info = archive.tensors()[*index];
  if (info.shape.rank() > Dims::kMaxRank || (info.shape.rank() != 4 && !takes_values)) {
    return refuse(fmt::format("{}: tensor \"{}\" has shape {}; images are [n, 3, height, width]", flags.archive,
                              flags.archive_key, info.shape.to_string()));
  }
  BALLAST_TRY(const Payload payload, archive.payload(*index));
  const Dims dims(info.shape.dims());
  std::vector<float> values(dims.count());
  if (auto cast = cast_elements(info.dtype, payload.bytes(), DType::kF32, std::as_writable_bytes(std::span(values)));
      !cast)
    return std::move(cast).error().with_context(flags.archive);
  BALLAST_TRY(Tensor image, workspace.from(values, dims));
  if (takes_values) return ModelInput(ValuesInput{std::move(image)});
  return ModelInput(ImageInput{std::move(image)});
}

Result<ModelInput> image_input(const InputFlags& flags, RunningModel& running) {
  BALLAST_TRY(const ImageModel images, ImageModel::of(running.shared_model(), {.size = flags.image_size}));
  if (!flags.image.empty()) {
    BALLAST_TRY(const Picture picture, read_picture(flags.image));
    BALLAST_TRY(ImageInput image, images.prepare(picture));
    return ModelInput(std::move(image));
  }
  const uint64_t size = images.size();
  if (size > kMostNoise) return refuse(fmt::format("images of {0} x {0} are too large; give --image-size", size));
  const Dims dims{flags.batch, images.channels(), size, size};
  BALLAST_TRY(Tensor noise, running.model().workspace().from(seeded_normals(flags.seed, dims.count()), dims));
  return ModelInput(ImageInput{std::move(noise)});
}

}  // namespace

void add_input_flags(Command& command, InputFlags& flags) {
  command.texts("--tokens", "IDS", flags.tokens, "Feed a text model token ids: 1,2,3");
  const Flag text = command.text("--text", "TEXT", flags.text, "Feed a text model this text; - reads standard input");
  command.text("--tokenizer", "FILE", flags.tokenizer, "Use this tokenizer (default: the model's own)");
  const Flag images = command.texts("--image", "FILE", flags.images, "Feed an image model a PNG or JPEG file");
  const Flag input =
      command.text("--input", "FILE", flags.archive,
                   "Feed a tensor from a file: [n, channels, height, width]; any shape for a .netcl model");
  command.text("--input-key", "NAME", flags.archive_key, "Name of that tensor (default: input)").needs(input);
  const Flag seed =
      command.count("--seed", "N", flags.seed, "Seed of the noise that an image model gets without input (0)");
  const Flag batch = command.count("--batch", "N", flags.batch, "Number of noise images (1)", 1, kMostNoise);
  const Flag size = command.count("--image-size", "N", flags.image_size,
                                  "Resize images to N x N (default: the model's size)", 1, kMostNoise);
  // What is given has its own number and size; noise is for models that got nothing else.
  // (--tokens takes them and leaves them out of account, as in gpt.rs.)
  for (Flag given : {text, input}) given.excludes(seed).excludes(batch).excludes(size);
  Flag(images).excludes(seed).excludes(batch);
}

Result<std::vector<std::string>> image_files(const std::vector<std::string>& images) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : images) {
    std::error_code failure;
    if (!fs::is_directory(path, failure)) {
      files.push_back(path);
      continue;
    }
    BALLAST_TRY(const std::vector<std::string> names, names_in_folder(path));
    const size_t before = files.size();
    for (const std::string& name : names) {
      std::string extension = fs::path(name).extension().string();
      for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (extension != ".png" && extension != ".jpg" && extension != ".jpeg") continue;
      files.push_back((fs::path(path) / name).string());
    }
    if (files.size() == before)
      return make_error(ErrorCode::kNotFound, fmt::format("{}: the folder has no PNG or JPEG files", path));
  }
  return files;
}

Result<ModelInput> make_input(const InputFlags& flags, RunningModel& running) {
  BALLAST_CHECK(check_exclusive(flags));
  LoadedModel& model = running.model();
  const bool wants_text = !flags.tokens.empty() || !flags.text.empty();
  const bool takes_values = model.takes_values();
  const bool reads = model.as_causal_lm() != nullptr || model.as_text_embedder() != nullptr;
  if (wants_text && !reads && !takes_values) return model.cannot("text");
  if (wants_text && takes_values) return text_input(flags, running);
  const bool has_images = model.as_image_classifier() != nullptr;
  if (!flags.image.empty() && !has_images) return model.cannot("images");
  if (!flags.archive.empty()) {
    if (!has_images && !takes_values) return model.cannot("images");
    return archive_input(flags, takes_values, model.workspace());
  }
  if (takes_values && !has_images) {
    return refuse("the model needs a tensor: give a file with --input and the tensor's name with --input-key");
  }
  if (has_images) return image_input(flags, running);
  return text_input(flags, running);
}

}  // namespace ballast::cli
