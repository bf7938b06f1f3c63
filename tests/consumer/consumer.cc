#include <ballast/archive/open.h>
#include <ballast/base/version.h>

#include <cstdio>

int main(int argc, char** argv) {
  auto archive = ballast::open_archive(argc > 1 ? argv[1] : "");
  if (!archive) return std::fprintf(stderr, "%s\n", archive.error().message.c_str()), 1;
  std::printf("ballast %s", std::string(ballast::version()).c_str());
  for (const auto& tensor : archive->tensors()) std::printf(" %s", tensor.name.c_str());
}
