#include "ballast/runtime/image_model.h"

#include "bindings/c/text_object.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_image_model> {
  using Object = ImageModel;
  static constexpr HandleKind kKind = HandleKind::kImageModel;
  static constexpr const char* kName = "image model";
};

namespace {

Result<Picture> given_picture(const uint8_t* rgb, size_t size, uint64_t width, uint64_t height) {
  const bool fits = width != 0 && height != 0 && width <= size / 3 / height && size == width * height * 3;
  if (!fits) {
    return make_error(ErrorCode::kInvalidArgument, "a picture of " + std::to_string(width) + " x " +
                                                       std::to_string(height) + " pixels with 3 bytes each is not " +
                                                       std::to_string(size) + " bytes");
  }
  BALLAST_CHECK(need(rgb, "the pointer to the pixels"));
  return Picture{width, height, std::vector<uint8_t>(rgb, rgb + size)};
}

// Names live with the model, so that they outlive the call.
ballast_text name_of(const ImageModel& model, uint32_t index) {
  const auto names = model.class_names();
  return index < names.size() ? to_text(names[index]) : ballast_text{"", 0};
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_image_model_open(const char* path, const ballast_model_options* options,
                                        ballast_image_model** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const ballast_model_options given, given_options(options));
    ImageModelOptions open;
    BALLAST_TRY(open.load, load_options(given));
    open.size = given.image_size;
    BALLAST_TRY(ImageModel model, ImageModel::open(std::string(path), open));
    log_load(model.model());
    *out = hand_out<ballast_image_model>(std::make_shared<ImageModel>(std::move(model)));
    return {};
  });
}
ballast_error* ballast_image_model_classify(const ballast_image_model* model, const uint8_t* rgb, size_t size,
                                            uint64_t width, uint64_t height, ballast_image_class* out, size_t capacity,
                                            size_t* count) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(model));
    if (capacity != 0) BALLAST_CHECK(need(out, "the pointer to the classes"));
    BALLAST_CHECK(need(count, "the pointer to the number of classes"));
    BALLAST_TRY(const Picture picture, given_picture(rgb, size, width, height));
    BALLAST_TRY(const std::vector<ImageClass> classes, object->classify(picture, capacity));
    for (size_t i = 0; i < classes.size(); ++i) {
      const ballast_image_class found = {0, classes[i].index, name_of(*object, classes[i].index), classes[i].logit,
                                         classes[i].probability};
      // The caller's elements are as large as it says.
      auto* place = reinterpret_cast<unsigned char*>(out) + i * out->struct_size;
      BALLAST_CHECK(give(found, reinterpret_cast<ballast_image_class*>(place)));
    }
    *count = classes.size();
    return {};
  });
}
void ballast_image_model_close(ballast_image_model* model) { drop(model); }

}  // extern "C"
