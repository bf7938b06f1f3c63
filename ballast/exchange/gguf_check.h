// Whether what was put into a GGUF file's keys is what the source says.
#pragma once

#include "ballast/exchange/gguf_settings.h"
#include "ballast/models/config/bert_config.h"
#include "ballast/models/decoder_description.h"

namespace ballast {

// Reads the keys back. kUnsupported, naming what would become something else, where the architecture cannot say it.
Status check_gguf_says_the_same(const DecoderDescription& source, const GgufModel& model);
Status check_gguf_says_the_same(const BertDescription& source, const GgufModel& model);

}  // namespace ballast
