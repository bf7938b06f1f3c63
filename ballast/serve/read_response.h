// What a request to OpenAI's responses consists of, as far as chat completions have another shape for it.
#pragma once

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// "instructions" and "input": a text, or messages, calls of tools and their results in any order.
void read_response_input(Fields& fields, std::vector<ChatTurn>& turns);
// "text": {"format": {"type", "schema"}}
void read_response_form(Fields& fields, std::optional<FormAsk>& form);
// "tools", "tool_choice" and "parallel_tool_calls".
void read_response_tools(Fields& fields, ToolsAsk& tools);
void read_response_echo(Fields& fields, ResponseEcho& echo);

}  // namespace ballast::serve
