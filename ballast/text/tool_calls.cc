#include "ballast/text/tool_calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ballast/base/json.h"

namespace ballast {

namespace {

constexpr std::string_view kTagBegin = "<tool_call>";
constexpr std::string_view kTagEnd = "</tool_call>";
constexpr std::string_view kMistral = "[TOOL_CALLS]";
constexpr std::string_view kMistralCallId = "[CALL_ID]";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kSpace = " \n\r\t";

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Without the white space behind it.
size_t end_of_text(std::string_view text) { return text.find_last_not_of(kSpace) + 1; }

// Where the end of `text` begins that may go on to be white space and `mark`: both belong to a call.
size_t held_from(std::string_view text, std::string_view mark) {
  size_t end = text.size();
  for (size_t length = std::min(mark.size() - 1, text.size()); length > 0; --length) {
    if (!text.ends_with(mark.substr(0, length))) continue;
    end = text.size() - length;
    break;
  }
  return end_of_text(text.substr(0, end));
}

// The end of a call that is not inside one of its strings.
size_t tag_end_outside_strings(std::string_view text, size_t begin) {
  bool is_string = false;
  for (size_t at = begin; at < text.size(); ++at) {
    if (is_string && text[at] == '\\') ++at;
    else if (text[at] == '"') is_string = !is_string;
    else if (!is_string && text.substr(at).starts_with(kTagEnd)) return at;
  }
  return std::string_view::npos;
}

// The text of an object, given as one or, as OpenAI's clients write it, as a string that holds one.
std::optional<std::string> object_text(JsonReader& json) {
  const auto type = json.peek();
  if (!type) return std::nullopt;
  if (*type == JsonType::kObject) {
    const auto raw = json.read_raw();
    return raw ? std::optional<std::string>(*raw) : std::nullopt;
  }
  if (*type != JsonType::kString) return std::nullopt;
  auto text = json.read_string();
  if (!text) return std::nullopt;
  JsonReader inner(*text, "");
  if (const auto kind = inner.peek(); !kind || *kind != JsonType::kObject) return std::nullopt;
  if (!inner.skip_value() || !inner.finish()) return std::nullopt;
  return std::move(*text);
}

bool is_object(std::string_view text) {
  JsonReader json(text, "");
  const auto type = json.peek();
  return type && *type == JsonType::kObject && json.skip_value() && json.finish();
}

}  // namespace

std::optional<ToolCallStyle> tool_call_style(std::string_view template_text) {
  if (!contains(template_text, "tools")) return std::nullopt;
  // Some families write parameters as tags of their own inside.
  if (contains(template_text, kTagBegin)) {
    return contains(template_text, "<function=") || contains(template_text, "<arg_key>") ||
                   contains(template_text, "<invoke")
               ? std::nullopt
               : std::optional(ToolCallStyle::kTagged);
  }
  if (contains(template_text, kMistral)) {
    return contains(template_text, kNamedCallArguments) ? ToolCallStyle::kMistralNamed : ToolCallStyle::kMistralList;
  }
  // Llama calls whoever answers a call ipython.
  if (contains(template_text, "\"parameters\": ") && contains(template_text, "ipython")) {
    return ToolCallStyle::kBareObject;
  }
  return std::nullopt;
}

std::string_view tool_call_mark(ToolCallStyle style) {
  switch (style) {
    case ToolCallStyle::kTagged: return kTagBegin;
    case ToolCallStyle::kMistralList:
    case ToolCallStyle::kMistralNamed: return kMistral;
    case ToolCallStyle::kBareObject: return kPythonTag;
  }
  return {};
}

bool is_tool_call_mark(ToolCallStyle style, std::string_view text) {
  switch (style) {
    case ToolCallStyle::kTagged: return text == kTagBegin || text == kTagEnd;
    case ToolCallStyle::kMistralList: return text == kMistral;
    case ToolCallStyle::kMistralNamed: return text == kMistral || text == kMistralCallId || text == kNamedCallArguments;
    case ToolCallStyle::kBareObject: return text == kPythonTag;
  }
  return false;
}

ToolText ToolCallReader::next(std::string_view text) {
  pending_ += text;
  ToolText out;
  switch (style_) {
    case ToolCallStyle::kTagged: advance_tagged(out, false); break;
    case ToolCallStyle::kMistralList:
    case ToolCallStyle::kMistralNamed: advance_to_mark(out, false); break;
    case ToolCallStyle::kBareObject: advance_bare(out); break;
  }
  return out;
}

ToolText ToolCallReader::finish() {
  ToolText out;
  if (style_ == ToolCallStyle::kTagged) {
    advance_tagged(out, true);
  } else {
    if (style_ != ToolCallStyle::kBareObject) advance_to_mark(out, true);
    finish_held(out);
  }
  return out;
}

void ToolCallReader::advance_tagged(ToolText& out, bool is_last) {
  for (;;) {
    if (is_inside_) {
      if (!take_tagged_call(out, is_last)) return;
    } else {
      advance_to_mark(out, is_last);
      if (!is_inside_) return;
    }
  }
}

// Shows what stands before the mark, and leaves the rest pending: white space before a call belongs to it.
void ToolCallReader::advance_to_mark(ToolText& out, bool is_last) {
  if (is_inside_) return;
  const std::string_view mark = tool_call_mark(style_);
  const size_t found = pending_.find(mark);
  is_inside_ = found != std::string::npos;
  const size_t shown = is_inside_ ? end_of_text(pending_.substr(0, found))
                       : is_last  ? pending_.size()
                                  : held_from(pending_, mark);
  out.content += pending_.substr(0, shown);
  pending_.erase(0, shown);
}

// False: its end has not come yet. At the end of the text it need not come.
bool ToolCallReader::take_tagged_call(ToolText& out, bool is_last) {
  const size_t begin = pending_.find(kTagBegin) + kTagBegin.size();
  size_t end = pending_.find(kTagEnd, begin);
  if (end == std::string::npos && !is_last) return false;
  const auto calls_to = [&](size_t to) {
    return calls_in(std::string_view(pending_).substr(begin, std::min(to, pending_.size()) - begin));
  };
  auto calls = calls_to(end);
  if (!calls && end != std::string::npos) {
    // An argument may be a text that has the mark in it.
    const size_t outside = tag_end_outside_strings(pending_, begin);
    if (outside == std::string::npos && !is_last) return false;
    if (outside != end) calls = calls_to(outside);
    if (calls) end = outside;
  }
  const size_t behind = end == std::string::npos ? pending_.size() : end + kTagEnd.size();
  if (calls) std::ranges::move(*calls, std::back_inserter(out.calls));
  else out.content += pending_.substr(0, behind);
  pending_.erase(0, behind);
  is_inside_ = false;
  return true;
}

void ToolCallReader::advance_bare(ToolText& out) {
  if (!is_text_ && !is_inside_) {
    const std::string_view begin = trimmed(pending_);
    if (begin.empty() || (begin.size() < kPythonTag.size() && kPythonTag.starts_with(begin))) return;
    is_inside_ = begin.starts_with('{') || begin.starts_with(kPythonTag);
    is_text_ = !is_inside_;
  }
  if (is_text_) out.content += std::exchange(pending_, {});
}

// All that is left is calls, or no call at all.
void ToolCallReader::finish_held(ToolText& out) {
  std::string_view text = trimmed(pending_);
  const std::string_view mark = tool_call_mark(style_);
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  auto calls = !is_inside_                              ? std::nullopt
               : style_ == ToolCallStyle::kMistralNamed ? named_calls_in(text)
                                                        : calls_in(text);
  if (calls) out.calls = std::move(*calls);
  else out.content += pending_;
  pending_.clear();
}

// An object, or a list of them. With something else among them, none is a call.
std::optional<std::vector<ToolCall>> ToolCallReader::calls_in(std::string_view text) const {
  text = trimmed(text);
  std::vector<ToolCall> calls;
  if (!text.starts_with('[')) {
    auto call = call_in(text);
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
    return calls;
  }
  JsonReader json(text, "");
  if (!json.enter_array()) return std::nullopt;
  for (;;) {
    const auto more = json.next_element();
    if (!more) return std::nullopt;
    if (!*more) break;
    const auto raw = json.read_raw();
    auto call = raw ? call_in(*raw) : std::nullopt;
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
  }
  return json.finish() && !calls.empty() ? std::optional(std::move(calls)) : std::nullopt;
}

// f[ARGS]{} and, behind it, perhaps the mark and another one.
std::optional<std::vector<ToolCall>> ToolCallReader::named_calls_in(std::string_view text) const {
  std::vector<ToolCall> calls;
  for (;;) {
    const size_t arguments = text.find(kNamedCallArguments);
    if (arguments == std::string_view::npos) return std::nullopt;
    const size_t begin = arguments + kNamedCallArguments.size();
    const std::string_view name = trimmed(text.substr(0, std::min(arguments, text.find(kMistralCallId))));
    // An argument may be a text that has the mark in it.
    size_t next = text.find(kMistral, begin);
    std::string_view object = trimmed(text.substr(begin, next - begin));
    while (!is_object(object) && next != std::string_view::npos) {
      next = text.find(kMistral, next + kMistral.size());
      object = trimmed(text.substr(begin, next - begin));
    }
    if (!is_offered(name) || !is_object(object)) return std::nullopt;
    calls.push_back({std::string(name), std::string(object)});
    if (next == std::string_view::npos) return calls;
    text.remove_prefix(next + kMistral.size());
  }
}

// {"name": "f", "arguments": {}}, where the arguments may be called parameters and may be missing.
std::optional<ToolCall> ToolCallReader::call_in(std::string_view object) const {
  JsonReader json(object, "");
  if (!json.enter_object()) return std::nullopt;
  ToolCall call{.name = "", .arguments = "{}"};
  std::string key;
  for (;;) {
    const auto more = json.next_key(key);
    if (!more) return std::nullopt;
    if (!*more) break;
    if (key == "name") {
      auto name = json.read_string();
      if (!name) return std::nullopt;
      call.name = std::move(*name);
    } else if (key == "arguments" || key == "parameters") {
      auto text = object_text(json);
      if (!text) return std::nullopt;
      call.arguments = std::move(*text);
    } else if (!json.skip_value()) {
      return std::nullopt;
    }
  }
  return json.finish() && is_offered(call.name) ? std::optional(std::move(call)) : std::nullopt;
}

bool ToolCallReader::is_offered(std::string_view name) const {
  return std::ranges::find(offered_, name) != offered_.end();
}

}  // namespace ballast
