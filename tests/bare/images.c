// Opens a Burnpack, a GPTRSCHK and a safetensors file in read-only memory and lists their tensors, each with a checksum
// of its payload. tests/bare/run_tests compares that with what the full library reads.
#include "ballast_core.h"
#include "semihosting.h"

extern const unsigned char flash_0[], flash_0_end[], flash_1[], flash_1_end[], flash_2[], flash_2_end[];
static _Alignas(16) unsigned char block[64 * 1024];

// FNV-1a, cut to 31 bits.
static long checksum(const unsigned char* bytes, size_t size) {
  uint32_t sum = 2166136261U;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 16777619U;
  return (long)(sum & 0x7FFFFFFF);
}

static int list(const unsigned char* begin, const unsigned char* end) {
  const ballast_core_format* const formats[] = {&ballast_core_burnpack, &ballast_core_gptrs, &ballast_core_safetensors};
  const ballast_core_image image = {.bytes = begin, .size = (uint64_t)(end - begin), .name = "flash"};
  ballast_core* archive;
  if (ballast_core_open(&archive, block, sizeof block, formats, 3, &image) != BALLAST_CORE_OK) {
    print(ballast_core_message()), print("\n");
    return 1;
  }
  print("format "), print(ballast_core_format_name(ballast_core_format_of(archive))), print("\n");
  for (size_t i = 0; i < ballast_core_count(archive); ++i) {
    ballast_core_tensor tensor;
    size_t found;
    if (ballast_core_tensor_at(archive, i, &tensor) != BALLAST_CORE_OK ||
        ballast_core_find(archive, tensor.name.data, &found) != BALLAST_CORE_OK || found != i) {
      print(ballast_core_message()), print("\n");
      return 1;
    }
    const unsigned char* bytes = tensor.data;
    const int in_place = tensor.size == 0 || (bytes >= begin && bytes + tensor.size <= end);
    print("tensor "), print(tensor.name.data), print(" "), print(tensor.dtype);
    for (size_t j = 0; j < tensor.rank; ++j) print(j == 0 ? " " : "x"), print_number((long)tensor.shape[j]);
    print(in_place ? " in place " : " elsewhere "), print_number(in_place ? checksum(bytes, (size_t)tensor.size) : 0);
    print("\n");
  }
  print("peak "), print_number((long)ballast_core_peak(archive)), print("\n");
  return 0;
}

int main(void) { return list(flash_0, flash_0_end) || list(flash_1, flash_1_end) || list(flash_2, flash_2_end); }
