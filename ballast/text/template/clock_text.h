// A moment as text, by a pattern as strftime has it.
#pragma once

#include <string>
#include <string_view>

#include "ballast/text/chat_template.h"

namespace ballast {

// English names, whatever the locale. kInvalidArgument for a moment that no calendar has; kUnsupported for a conversion
// that is none of a A b B c d D e F H I j m M p S T u w x X y Y %, each with an optional - for "without leading zeros".
Result<std::string> format_clock_time(std::string_view pattern, const ClockTime& time);

}  // namespace ballast
