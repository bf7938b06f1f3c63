// Classifies pictures by three forms of one model, all in read-only memory: f32 in Burnpack and safetensors, int8
// (q8_0) in GGUF. Prints digits, and the scores of the first pictures as bits.
#include <string.h>

#include "ballast_core.h"
#include "semihosting.h"

enum { kPixels = 64, kDigits = 10, kShown = 20 };
extern const unsigned char flash_0[], flash_0_end[], flash_1[], flash_1_end[], flash_2[], flash_2_end[], flash_3[],
    flash_3_end[];
static _Alignas(16) unsigned char block[64 * 1024];

static void print_bits(float value) {
  uint32_t bits;
  char text[10];
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[bits >> (28 - 4 * i) & 15];
  text[8] = ' ';
  text[9] = '\0';
  print(text);
}

static int fail(void) {
  print(ballast_core_message()), print("\n");
  return 1;
}

static int classify(const unsigned char* begin, const unsigned char* end) {
  const ballast_core_format* const formats[] = {&ballast_core_burnpack, &ballast_core_safetensors, &ballast_core_gguf};
  const ballast_core_image image = {.bytes = begin, .size = (uint64_t)(end - begin), .name = "flash"};
  const uint64_t shape[] = {1, 8, 8};
  ballast_core* archive;
  ballast_core_model* model;
  if (ballast_core_open(&archive, block, sizeof block, formats, 3, &image) != BALLAST_CORE_OK) return fail();
  if (ballast_core_model_open(&model, archive, shape, 3) != BALLAST_CORE_OK) return fail();
  const long count = (long)(flash_0_end - flash_0) / kPixels;
  static char digits[1024];
  print("scores");
  for (long i = 0; i < count; ++i) {
    float input[kPixels], scores[kDigits];
    for (int j = 0; j < kPixels; ++j) input[j] = (float)flash_0[i * kPixels + j] / 16;
    if (ballast_core_model_run(model, input, kPixels, scores, kDigits) != BALLAST_CORE_OK) return fail();
    digits[i] = (char)('0' + ballast_core_argmax(scores, kDigits));
    for (int j = 0; j < kDigits && i < kShown; ++j) print(j == 0 ? " " : ""), print_bits(scores[j]);
  }
  digits[count] = '\0';
  print("\ndigits "), print(digits), print("\npeak "), print_number((long)ballast_core_peak(archive)), print("\n");
  return 0;
}

int main(void) {
  return classify(flash_1, flash_1_end) || classify(flash_2, flash_2_end) || classify(flash_3, flash_3_end);
}
