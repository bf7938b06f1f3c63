#include "ballast/models/kinds.h"

#include <array>

namespace ballast {

std::span<const ModelKind> all_model_kinds() {
  static const std::array kKinds = {kGptKind,        kMinistralKind, kResnet34Kind, kMobilenetV2Kind,
                                    kSequentialKind, kDecoderKind,   kBertKind};
  return kKinds;
}

}  // namespace ballast
