// Opens a file with one reader. What the linker keeps of this program shows what naming a format brings with it.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "ballast/formats/drivers.h"

int main(int count, char** arguments) {
  using namespace ballast;
  if (count != 2) return 2;
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const FormatReader* const readers[] = {&kBurnpackReader};
  const auto archive = open_archive({.source = MemorySource::borrowing(as_bytes(text)), .file_name = ""}, readers);
  if (!archive) return std::puts(archive.error().message.c_str()), 1;
  std::printf("%zu tensors\n", archive->tensors().size());
  return archive->tensors().empty() ? 1 : 0;
}
