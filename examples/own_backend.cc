// own_backend MODEL.gptrs: runs a model on a backend that Ballast does not have, brought by a program that uses it as a
// library (emulated_backend.cc), and compares it with Ballast's own.
#include <ballast/device/host_values.h>
#include <ballast/runtime/load_model.h>

#include <cstdio>

#include "examples/emulated_backend.h"

using namespace ballast;

Result<std::vector<float>> logits_of(const std::string& path, const LoadOptions& options) {
  BALLAST_TRY(const auto model, load_model(path, options));
  BALLAST_TRY(const Tensor logits, model->forward(TokenInput{{1, 2, 3}}));
  std::printf("%-10s tensors on the device \"%s\"\n", std::string(model->backend().name).c_str(),
              std::string(logits.device()->name()).c_str());
  return floats_of(logits);
}

Status run(const std::string& path) {
  LoadOptions options;
  options.own_backend = &emulated::backend();
  BALLAST_TRY(const auto own, logits_of(path, options));
  options = {};
  options.backend = "reference";
  BALLAST_TRY(const auto expected, logits_of(path, options));
  std::printf("%zu logits, %s\n", own.size(), own == expected ? "the same bits" : "which differ");
  std::printf("%d bytes are left on the device\n", static_cast<int>(emulated::bytes_out()));
  return {};
}

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: own_backend MODEL.gptrs\n"), 2;
  const auto status = run(arguments[1]);
  return status ? 0 : (std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1);
}
