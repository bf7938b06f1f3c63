// The messages of a conversation as clients send them, and as chat templates take them.
#pragma once

#include <string>
#include <vector>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

inline constexpr size_t kMostMessages = 10000;

// "messages" of OpenAI and Ollama: content is a text, null, or a list of parts.
std::vector<ChatTurn> read_messages(Fields& fields, std::string_view key);
// A text, or the texts of a list of parts. What is no text (a picture, a recording) is refused.
std::string read_content(Fields& fields, std::string_view key);
// The "arguments" of a call as JSON: a text that holds an object for OpenAI's clients, and an object for templates and
// Ollama's clients.
std::string arguments_for_template(Fields& function);
// "chat_template_kwargs" and "reasoning_effort": values for the template. They are data, so they cannot be texts that
// might spell a special token.
void read_template_values(Fields& fields, TextAsk& ask);
void read_reasoning_effort(Fields& fields, std::string_view key, TextAsk& ask);

// {"messages": [...], "add_generation_prompt": true, ...}: what ChatFormat takes. `knows_developer`: the template does;
// otherwise such a message is the system's.
std::string template_context(const TextAsk& ask, bool knows_developer, std::string_view bos, std::string_view eos);

}  // namespace ballast::serve
