#include "apps/ballast/commands/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/base/json.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostPromptBytes = uint64_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank_prompt(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

bool names_a_prompt(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos || line[begin] != '{') return false;
  return line.find("\"prompt\"") != std::string_view::npos || line.find("\"tokens\"") != std::string_view::npos;
}

Result<std::vector<TokenId>> read_token_ids(JsonReader& json) {
  BALLAST_TRY(const std::vector<uint64_t> numbers, json.read_u64_array());
  std::vector<TokenId> ids;
  for (const uint64_t number : numbers) {
    if (number > std::numeric_limits<TokenId>::max()) return json.error_here(fmt::format("{} is no token", number));
    ids.push_back(static_cast<TokenId>(number));
  }
  if (ids.empty()) return json.error_here("\"tokens\" is empty: a prompt has at least one");
  return ids;
}

Result<std::string> read_prompt_id(JsonReader& json) {
  BALLAST_TRY(const JsonType type, json.peek());
  if (type != JsonType::kString && type != JsonType::kNumber)
    return json.error_here("\"id\" must be a string or a number");
  BALLAST_TRY(const std::string_view raw, json.read_raw());
  return std::string(raw);
}

Status read_prompt_member(JsonReader& json, std::string_view key, FilePrompt& prompt) {
  if (key == "prompt") return assign(prompt.text, json.read_string());
  if (key == "tokens") return assign(prompt.tokens, read_token_ids(json));
  if (key == "id") return assign(prompt.id, read_prompt_id(json));
  if (key == "max_tokens") return assign(prompt.max_tokens, json.read_u64());
  if (key == "seed") return assign(prompt.seed, json.read_u64());
  return json.error_here(
      fmt::format("there is no key \"{}\"; there are: prompt, tokens, id, max_tokens, seed", printable(key)));
}

Status read_prompt_object(JsonReader& json, FilePrompt& prompt) {
  std::vector<std::string> keys;
  const auto has = [&](std::string_view key) { return std::ranges::find(keys, key) != keys.end(); };
  BALLAST_CHECK(json.enter_object());
  for (std::string key;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (has(key)) return json.error_here(fmt::format("\"{}\" is given twice", printable(key)));
    BALLAST_CHECK(read_prompt_member(json, key, prompt));
    keys.push_back(key);
  }
  if (has("prompt") == has("tokens")) return json.error_here("an object needs \"prompt\" or \"tokens\", and not both");
  return json.finish();
}

Result<FilePrompt> parse_prompt_object(std::string_view line, uint64_t number, const std::string& name) {
  FilePrompt prompt;
  prompt.line = number;
  JsonReader json(line, fmt::format("{}: line {}", name, number));
  Status read = read_prompt_object(json, prompt);
  if (read) return prompt;
  Error error = std::move(read).error();
  error.code = ErrorCode::kInvalidArgument;  // what somebody wrote is not damage
  return error;
}

Error blank_line(uint64_t number, const std::string& name) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: line {} is blank; delete it, or write JSON lines: {{\"prompt\": \"\"}} is an "
                                "empty prompt",
                                name, number));
}

}  // namespace

Result<std::vector<FilePrompt>> parse_prompts(std::string_view contents, const std::string& name) {
  if (contents.starts_with(kByteOrderMark)) contents.remove_prefix(kByteOrderMark.size());
  const std::vector<std::string_view> lines = lines_of(contents);
  const bool is_json = !lines.empty() && names_a_prompt(lines.front());
  std::vector<FilePrompt> prompts;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_blank_prompt(line) && is_json) continue;
    if (is_blank_prompt(line)) return blank_line(i + 1, name);
    if (is_json) {
      BALLAST_TRY(prompts.emplace_back(), parse_prompt_object(line, i + 1, name));
    } else {
      FilePrompt& prompt = prompts.emplace_back();
      prompt.line = i + 1;
      prompt.text = line;
    }
  }
  if (!prompts.empty()) return prompts;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: no prompts; write one per line", name));
}

Result<std::vector<FilePrompt>> read_prompt_file(const std::string& path) {
  BALLAST_TRY(const std::string contents, read_text_input(path, kMostPromptBytes));
  return parse_prompts(contents, is_stream(path) ? "standard input" : path);
}

}  // namespace ballast::cli
