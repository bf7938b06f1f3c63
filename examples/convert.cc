#include <ballast/archive/convert.h>
#include <ballast/archive/open.h>

#include <cstdio>

// convert FROM TO: opens any weight file, lists it, and writes it in the format of TO's extension.
int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: convert FROM TO\n"), 2;
  const auto archive = ballast::open_archive(arguments[1]);  // reads the header only
  if (!archive) return std::fprintf(stderr, "%s\n", archive.error().message.c_str()), 1;
  for (const ballast::TensorInfo& tensor : archive->tensors()) {
    std::printf("%s %s %s\n", tensor.name.c_str(), tensor.type_name().c_str(), tensor.shape.to_string().c_str());
  }
  const auto* format = ballast::format_for_extension(arguments[2]);
  if (format == nullptr) return std::fprintf(stderr, "no format has this extension\n"), 2;
  ballast::ConvertOptions options;
  options.write.commit.overwrite = true;
  const auto report = ballast::convert_archive(*archive, arguments[2], *format, options);
  if (!report) return std::fprintf(stderr, "%s\n", report.error().message.c_str()), 1;
  std::printf("%zu tensors, nothing lost\n", report->tensors);
}
