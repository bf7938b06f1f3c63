#include "ballast_core.h"
#include "flash.h"  // models/digits/digits.bpk, and a picture
#include "semihosting.h"

static _Alignas(16) unsigned char block[24 * 1024];  // all the memory that Ballast uses

int main(void) {
  const ballast_core_format* const formats[] = {&ballast_core_burnpack};
  const ballast_core_image image = {.bytes = flash_0, .size = (uint64_t)(flash_0_end - flash_0)};
  const uint64_t shape[] = {1, 8, 8};
  float scores[10];
  ballast_core* archive;
  ballast_core_model* model;
  if (ballast_core_open(&archive, block, sizeof block, formats, 1, &image) != BALLAST_CORE_OK ||
      ballast_core_model_open(&model, archive, shape, 3) != BALLAST_CORE_OK ||
      ballast_core_model_run(model, picture, 64, scores, 10) != BALLAST_CORE_OK)
    return print(ballast_core_message()), 1;
  print("this is a "), print_number((long)ballast_core_argmax(scores, 10)), print("\n");
  return 0;
}
