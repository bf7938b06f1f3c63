// What a request to Anthropic's interface says, and how.
#pragma once

#include <optional>
#include <vector>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// "messages": what a tool was asked and what it answered are parts of them, and turns of their own for a template.
void read_anthropic_conversation(Fields& fields, std::vector<ChatTurn>& turns);
// "tools" and "tool_choice".
void read_anthropic_tools(Fields& fields, ToolsAsk& tools);
// "output_config": the schema of the answer, and how much effort it is worth. Older clients send "output_format".
void read_anthropic_output(Fields& fields, TextAsk& ask);
// "thinking"; "adaptive" leaves it to the model's template.
void read_anthropic_thinking(Fields& fields, TextAsk& ask);

}  // namespace ballast::serve
