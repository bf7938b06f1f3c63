// The variables of a chat template, from JSON.
#pragma once

#include <string_view>

#include "ballast/text/jinja_value.h"

namespace ballast::jinja {

// A mapping. Texts of messages (but for their roles), tools and documents are marked; tools and documents are none
// where they are absent; messages that hold their reasoning under one of its names get it under all that templates
// read.
Result<Value> read_context(Meter& meter, std::string_view json);

}  // namespace ballast::jinja
