// The conversation and the tools of a request to Anthropic's interface.
#pragma once

#include <vector>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// "messages": what a tool was asked and what it answered are parts of them, and turns of their own for a template.
void read_anthropic_conversation(Fields& fields, std::vector<ChatTurn>& turns);
// "tools" and "tool_choice".
void read_anthropic_tools(Fields& fields, ToolsAsk& tools);

}  // namespace ballast::serve
