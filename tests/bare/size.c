// Opens an image that does not exist: only how large the program is counts.
#include "ballast_core.h"
#include "semihosting.h"

static _Alignas(16) unsigned char block[1024];
static const ballast_core_format* const formats[] = {
#if defined SIZE_BURNPACK
    &ballast_core_burnpack,
#elif defined SIZE_SAFETENSORS
    &ballast_core_safetensors,
#elif defined SIZE_GPTRS
    &ballast_core_gptrs,
#else
    &ballast_core_burnpack,      &ballast_core_safetensors, &ballast_core_gptrs,
    &ballast_core_gptrs_tensors, &ballast_core_gguf,        &ballast_core_torch,
    &ballast_core_netcl,         &ballast_core_npz,         &ballast_core_npy,
#endif
};

int main(void) {
  ballast_core* archive;
  ballast_core_tensor tensor;
  ballast_core_text text;
  size_t index;
  const ballast_core_image image = {.bytes = block, .size = sizeof block};
  if (ballast_core_open(&archive, block, sizeof block, formats, sizeof formats / sizeof *formats, &image) !=
          BALLAST_CORE_OK ||
      ballast_core_find(archive, "name", &index) != BALLAST_CORE_OK ||
      ballast_core_tensor_at(archive, index, &tensor) != BALLAST_CORE_OK ||
      ballast_core_metadata(archive, "key", &text) != BALLAST_CORE_OK ||
      ballast_core_read(archive, index, block, sizeof block) != BALLAST_CORE_OK) {
    print(ballast_core_message());
  }
  return 0;
}
