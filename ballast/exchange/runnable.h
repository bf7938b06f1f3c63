// Models that run in a container other than their own, because the file says what they are.
#pragma once

#include "ballast/exchange/exchange.h"

namespace ballast {

// ModelConfig::schema of gpt.rs's configs.
inline constexpr std::string_view kGptrsSchema = "gptrs";

// kUnsupported: a model of this form does not run in that format; says where it does.
Error cannot_run(ModelForm form, const FormatDriver& format);

// Takes the config back out of the metadata where `format` has a field for it, and leaves everything else alone.
PlanEdit unwrap_config(const FormatDriver& format);

}  // namespace ballast
