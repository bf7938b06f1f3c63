// The conversation and the tools of a request to Anthropic's interface.
#pragma once

#include <optional>
#include <vector>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// "messages": what a tool was asked and what it answered are parts of them, and turns of their own for a template.
void read_anthropic_conversation(Fields& fields, std::vector<ChatTurn>& turns);
// "output_config": {"format": {"type", "schema"}}, and "output_format", as it was called before.
void read_anthropic_form(Fields& fields, std::optional<FormAsk>& form);
// "tools" and "tool_choice".
void read_anthropic_tools(Fields& fields, ToolsAsk& tools);

}  // namespace ballast::serve
