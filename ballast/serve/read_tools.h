// The tools that a request offers, and whether they must be called.
#pragma once

#include <string_view>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// "tools" of OpenAI and Ollama: [{"type": "function", "function": {"name", "description", "parameters"}}].
void read_tools(Fields& fields, ToolsAsk& tools);
// "tool_choice" and "parallel_tool_calls" of OpenAI.
void read_tool_choice(Fields& fields, ToolsAsk& tools);

// One tool, whose schema has the name that the interface gives it.
void add_tool(Fields& tool, std::string_view schema_key, ToolsAsk& tools);
// A choice of that tool alone; refuses, for `key`, a name that nobody offered.
void choose_tool(Fields& fields, std::string_view key, std::string name, ToolsAsk& tools);

// As chat templates take them.
std::string tools_for_template(const ToolsAsk& tools);

}  // namespace ballast::serve
