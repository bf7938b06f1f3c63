// How a call of a tool is enforced: what the answer begins with in the way of the model's family, and a schema that
// what follows must satisfy, so that it is a call.
#pragma once

#include <string>
#include <vector>

#include "ballast/serve/text_ask.h"
#include "ballast/text/chat_template.h"
#include "ballast/text/tool_calls.h"

namespace ballast::serve {

struct ForcedCall {
  std::vector<RenderedPart> lead_in;
  FormAsk form;
};

// One of these is what the answer has to be.
Result<std::vector<ForcedCall>> forced_calls(ToolCallStyle style, const ToolsAsk& tools);

// The schema of a tool's arguments at another place of a document: `base` is the JSON pointer to it. References within
// it follow it there.
Result<std::string> arguments_schema(const ToolAsk& tool, std::string_view base);

}  // namespace ballast::serve
