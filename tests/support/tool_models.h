// Small models that can be offered tools.
#pragma once

#include <string>
#include <string_view>

#include "tests/support/temp_folder.h"

namespace ballast::testing {

// A recorded model of 128 tokens, whose weights are random, with a tokenizer of single characters and a chat template:
// a folder of this name. Special tokens are </s>, which ends a text, [TOOL_CALLS] and [ARGS]; <tool_call>,
// </tool_call>, <think> and </think> are tokens too, but no special ones. The context has 128 tokens.
std::string write_tool_model(const TempFolder& folder, std::string_view name, std::string_view chat_template);

// Templates that say little. `marks` is what a template of the family has, which tells how the family writes calls;
// `end` is what the prompt ends with.
std::string tool_template(std::string_view marks, std::string_view end = "A");
inline constexpr std::string_view kTaggedMarks = "<tool_call>";
inline constexpr std::string_view kMistralListMarks = "[TOOL_CALLS]";
inline constexpr std::string_view kMistralNamedMarks = "[TOOL_CALLS] [ARGS]";
inline constexpr std::string_view kBareObjectMarks = R"("parameters": ipython)";

}  // namespace ballast::testing
