// The built-in model kinds: one row each, in the file of its name; gpt and ministral are decoders (decoder.cc).
#pragma once

#include "ballast/models/model.h"

namespace ballast {

extern const ModelKind kGptKind;
extern const ModelKind kMinistralKind;
extern const ModelKind kResnet34Kind;
extern const ModelKind kMobilenetV2Kind;
extern const ModelKind kSequentialKind;
extern const ModelKind kDecoderKind;
extern const ModelKind kBertKind;

}  // namespace ballast
