// Importance matrices as llama.cpp's GGUF files: NAME.in_sum2 [matrices, inputs] and NAME.counts [matrices, 1], f32.
#pragma once

#include "ballast/archive/write.h"
#include "ballast/edit/importance.h"

namespace ballast {

struct ImportanceFileInfo {
  std::vector<std::string> datasets;  // what was read
  uint64_t chunk_tokens = 0;          // tokens of a window
  uint64_t chunks = 0;
};

Status write_importance(const std::string& path, const ImportanceMatrix& matrix, const ImportanceFileInfo& info,
                        const WriteSettings& settings = {});
// kInvalidArgument for files that are no importance matrix, and for sums that are negative or not finite.
Result<ImportanceMatrix> read_importance(const std::string& path);

}  // namespace ballast
