// The grammar of templates.
#pragma once

#include <string_view>

#include "ballast/base/result.h"
#include "ballast/text/template/jinja_syntax.h"

namespace ballast::jinja {

// kCorrupt, with the line, for what is no template, and kUnsupported for tags that chat templates do not have.
Result<Block> parse_template(std::string_view source);

}  // namespace ballast::jinja
