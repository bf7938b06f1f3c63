// What form an answer must have: that which the request asks for, or that of the call which it demands.
#pragma once

#include <optional>

#include "ballast/serve/form_rule.h"
#include "ballast/serve/model_host.h"
#include "ballast/serve/text_ask.h"
#include "ballast/text/tool_calls.h"

namespace ballast::serve {

// How the model writes calls; nullopt where the request offers no tools. Refuses tools that the model cannot call.
std::optional<Refusal> find_call_style(const OpenModel& model, const TextAsk& ask, std::optional<ToolCallStyle>& style);

// Compiles what is new. `begins_thinking`: the prompt ends inside the reasoning.
std::optional<Refusal> find_form(OpenModel& model, const TextAsk& ask, std::optional<ToolCallStyle> style,
                                 bool begins_thinking, AnswerForm& form);

}  // namespace ballast::serve
