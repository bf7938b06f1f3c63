#include "apps/ballast/models/image_file.h"

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs it

#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostPixels = 64'000'000;

Error bad_picture(const std::string& path, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: the image is damaged: {}", path, what));
}

Status check_size(const std::string& path, uint64_t width, uint64_t height) {
  if (width != 0 && height != 0 && width <= kMostPixels / height) return {};
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: the image is {} x {}; at most {} pixels are supported",
                                                         path, width, height, kMostPixels));
}

Result<Picture> read_png(const std::string& path, ByteSpan bytes) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    return bad_picture(path, image.message);
  if (auto status = check_size(path, image.width, image.height); !status) {
    png_image_free(&image);
    return std::move(status).error();
  }
  image.format = PNG_FORMAT_RGB;
  Picture picture{image.width, image.height, {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  const png_color black = {0, 0, 0};
  if (png_image_finish_read(&image, &black, picture.pixels.data(), 0, nullptr) == 0)
    return bad_picture(path, image.message);
  return picture;
}

// libjpeg leaves by longjmp, past no object that would need destroying: those live in the caller.
struct JpegReader {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = {};

  static void on_error(j_common_ptr common) {
    auto* reader = static_cast<JpegReader*>(common->client_data);
    common->err->format_message(common, reader->message);
    std::longjmp(reader->escape, 1);
  }
  static void on_message(j_common_ptr) {}

  bool begin(ByteSpan bytes) {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.output_message = on_message;
    info.client_data = this;
    if (setjmp(escape) != 0) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    return true;
  }

  bool read(uint8_t* pixels) {
    if (setjmp(escape) != 0) return false;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels + size_t{info.output_scanline} * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }

  ~JpegReader() { jpeg_destroy_decompress(&info); }
};

Result<Picture> read_jpeg(const std::string& path, ByteSpan bytes) {
  JpegReader reader;
  if (!reader.begin(bytes)) return bad_picture(path, reader.message);
  BALLAST_CHECK(check_size(path, reader.info.image_width, reader.info.image_height));
  Picture picture{reader.info.image_width, reader.info.image_height, {}};
  picture.pixels.resize(picture.width * picture.height * 3);
  if (!reader.read(picture.pixels.data())) return bad_picture(path, reader.message);
  return picture;
}

}  // namespace

Result<Picture> read_picture(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\x89PNG")) return read_png(path, bytes);
  if (text.starts_with("\xFF\xD8\xFF")) return read_jpeg(path, bytes);
  // No unknown format: `doctor`, which such errors name, knows weight files only.
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: neither a PNG nor a JPEG image", path));
}

}  // namespace ballast::cli
