#include "ballast_core.h"
#include "semihosting.h"

extern const unsigned char flash_0[], flash_0_end[];  // models/digits/digits.bpk, put there by CMakeLists.txt
static _Alignas(16) unsigned char block[24 * 1024];   // all the memory that Ballast uses
// clang-format off
static const unsigned char picture[64] = {  // from 0, white, to 16, black
    0, 1,  9, 15, 13,  4,  0, 0,
    0, 5, 12,  4, 10,  6,  0, 0,
    0, 0,  0,  3, 15,  2,  0, 0,
    0, 0,  0, 15, 13,  1,  0, 0,
    0, 0,  0,  2,  9, 14,  2, 0,
    0, 0,  0,  0,  0, 11,  8, 0,
    0, 0, 10,  6,  4, 11,  7, 0,
    0, 0,  8, 15, 16,  9,  1, 0};
// clang-format on

int main(void) {
  const ballast_core_format* const formats[] = {&ballast_core_burnpack};
  const ballast_core_image flash = {.bytes = flash_0, .size = (uint64_t)(flash_0_end - flash_0)};
  const uint64_t shape[] = {1, 8, 8};
  float input[64], scores[10];
  for (int i = 0; i < 64; ++i) input[i] = (float)picture[i] / 16;
  ballast_core* archive;
  ballast_core_model* model;
  if (ballast_core_open(&archive, block, sizeof block, formats, 1, &flash) != BALLAST_CORE_OK ||
      ballast_core_model_open(&model, archive, shape, 3) != BALLAST_CORE_OK ||
      ballast_core_model_run(model, input, 64, scores, 10) != BALLAST_CORE_OK) {
    print(ballast_core_message());
    return 1;
  }
  int best = 0;
  for (int digit = 1; digit < 10; ++digit) best = scores[digit] > scores[best] ? digit : best;
  print("this is a "), print_number(best);
  print(", and the block needs "), print_number((long)ballast_core_peak(archive)), print(" bytes\n");
  return 0;
}
