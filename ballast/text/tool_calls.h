// The calls of tools in what a model writes: every family has its own way to write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

enum class ToolCallStyle : uint8_t {
  kTagged,        // <tool_call>{"name": "f", "arguments": {}}</tool_call>, any number of them (Qwen, Hermes)
  kMistralList,   // [TOOL_CALLS][{"name": "f", "arguments": {}}, ...]
  kMistralNamed,  // [TOOL_CALLS]f[ARGS]{}, any number of them; [CALL_ID] and an id may follow the name
  kBareObject,    // an answer that is {"name": "f", "parameters": {}} and nothing else (Llama 3)
};

// How a model writes calls, by its chat template. nullopt: the template takes no tools, or writes calls in a way that
// is not known here.
std::optional<ToolCallStyle> tool_call_style(std::string_view template_text);
// What begins a call.
std::string_view tool_call_mark(ToolCallStyle style);
// Whether a text is one of the marks that calls are written with. Some tokenizers have special tokens of these names,
// whose text must reach the reader all the same.
bool is_tool_call_mark(ToolCallStyle style, std::string_view text);
// What stands between the name and the arguments of kMistralNamed.
inline constexpr std::string_view kNamedCallArguments = "[ARGS]";

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

struct ToolText {
  std::string content{};  // what is no part of a call
  std::vector<ToolCall> calls{};
};

// Tells calls from text while both arrive. Calls come whole. What looks like a call and is none, because its JSON is
// broken or nobody offered a tool of that name, is content.
class ToolCallReader {
 public:
  ToolCallReader(ToolCallStyle style, std::vector<std::string> offered) : style_(style), offered_(std::move(offered)) {}

  ToolText next(std::string_view text);
  // What was held back, when no more text comes.
  ToolText finish();

 private:
  void advance_tagged(ToolText& out, bool is_last);
  void advance_to_mark(ToolText& out, bool is_last);
  void advance_bare(ToolText& out);
  bool take_tagged_call(ToolText& out, bool is_last);
  void finish_held(ToolText& out);
  std::optional<std::vector<ToolCall>> calls_in(std::string_view text) const;
  std::optional<std::vector<ToolCall>> named_calls_in(std::string_view text) const;
  std::optional<ToolCall> call_in(std::string_view object) const;
  bool is_offered(std::string_view name) const;

  ToolCallStyle style_;
  std::vector<std::string> offered_;
  std::string pending_;
  bool is_inside_ = false;  // of a call, or of what may be one
  bool is_text_ = false;    // kBareObject: the answer has begun with something else
};

}  // namespace ballast
