// Chat templates: how a model wants a conversation written down.
//
// A template is a program in the language Jinja, from a file that anybody may have made. What is here is the part of
// the language that chat templates use, rendered as transformers renders it, byte for byte, in bounded time and memory.
// It can reach nothing but the values it is given.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

struct RenderLimits {
  uint64_t steps = 10'000'000;
  uint64_t output_bytes = uint64_t{16} << 20U;
  uint64_t value_bytes = uint64_t{256} << 20U;  // of all variables together
  uint32_t depth = 1000;                        // of expressions, blocks and macros within each other
};

// A moment as a clock on the wall shows it, for templates that print the date. The library looks at no clock.
struct ClockTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;    // 1 to 31
  int hour = 0;
  int minute = 0;
  int second = 0;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", or what else the template knows
  std::string content;
  // The message as a JSON object, where it has more than these two (tool calls, parts); empty: it has not.
  std::string json = {};

  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

// What a template is given of a conversation; there are no tools and no documents.
struct ChatContext {
  std::vector<const ChatMessage*> messages{};
  bool add_generation_prompt = true;
  std::string_view bos_token{};
  std::string_view eos_token{};
};

struct RenderedPart {
  std::string text;
  // It came from the messages (but for their roles), the tools or the documents, through whatever the template did with
  // it. A text that looks like a special token is none here.
  bool from_message = false;

  friend bool operator==(const RenderedPart&, const RenderedPart&) = default;
};

namespace jinja {
struct Statement;
}  // namespace jinja

// Immutable; any number of threads may render it.
class ChatTemplate {
 public:
  // kCorrupt for what is no template, with the line; kUnsupported for tags that chat templates do not have.
  static Result<ChatTemplate> parse(std::string_view text);

  // `context_json`: an object with messages, tools, documents, add_generation_prompt, bos_token, eos_token and whatever
  // else the template may ask for; the order of keys is kept. tools and documents are null where absent. The text that
  // a template raises is the whole error; others name the line.
  Result<std::string> render(std::string_view context_json, const RenderLimits& limits = {},
                             const ClockTime& now = {}) const;
  // The same in parts, none of them empty, that differ from their neighbours in `from_message`.
  Result<std::vector<RenderedPart>> render_parts(std::string_view context_json, const RenderLimits& limits = {},
                                                 const ClockTime& now = {}) const;
  // The same of a conversation, whose texts must be UTF-8.
  Result<std::vector<RenderedPart>> render_parts(const ChatContext& context, const RenderLimits& limits = {},
                                                 const ClockTime& now = {}) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const std::vector<jinja::Statement>> block) : block_(std::move(block)) {}

  std::shared_ptr<const std::vector<jinja::Statement>> block_;
};

}  // namespace ballast
