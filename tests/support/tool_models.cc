#include "tests/support/tool_models.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "ballast/base/json.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

constexpr size_t kModelTokens = 128;

constexpr std::pair<std::string_view, bool> kAddedTokens[] = {
    {"<unk>", true},    {"<s>", true},       {"</s>", true},         {"[TOOL_CALLS]", true}, {"[ARGS]", true},
    {"<think>", false}, {"</think>", false}, {"<tool_call>", false}, {"</tool_call>", false}};

// As byte-level tokenizers spell them: what is no printable character has another name.
std::vector<std::string> characters() {
  std::vector<std::string> all = {"\xC4\xA0", "\xC4\x8A"};  // the space and the end of a line
  for (char c = '!'; c <= '~'; ++c) all.emplace_back(1, c);
  // So that whatever the model draws is a token.
  for (char c = 'A'; std::size(kAddedTokens) + all.size() < kModelTokens; ++c) all.push_back(std::string("z") + c);
  return all;
}

std::string tool_tokenizer() {
  JsonWriter json;
  json.begin_object().key("version").string("1.0").key("added_tokens").begin_array();
  uint64_t id = 0;
  for (const auto& [text, is_special] : kAddedTokens) {
    json.begin_object().key("id").number(id++).key("content").string(text).key("single_word").boolean(false);
    json.key("lstrip").boolean(false).key("rstrip").boolean(false).key("normalized").boolean(false);
    json.key("special").boolean(is_special).end_object();
  }
  json.end_array().key("normalizer").null();
  constexpr std::string_view kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  json.key("pre_tokenizer").raw(kByteLevel).key("post_processor").null().key("decoder").raw(kByteLevel);
  json.key("model").begin_object().key("type").string("BPE").key("vocab").begin_object();
  id = 0;
  for (const auto& [text, is_special] : kAddedTokens) json.key(text).number(id++);
  for (const std::string& text : characters()) json.key(text).number(id++);
  json.end_object().key("merges").begin_array().end_array().end_object();
  return json.end_object().take();
}

}  // namespace

std::string write_tool_model(const TempFolder& folder, std::string_view name, std::string_view chat_template) {
  const std::filesystem::path to = folder.path(name);
  std::filesystem::create_directories(to);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(test_file_path(std::string("hf/qwen3/") + file), to / file);
  }
  folder.write(std::string(name) + "/tokenizer.json", tool_tokenizer());
  folder.write(std::string(name) + "/chat_template.jinja", chat_template);
  return to.string();
}

std::string tool_template(std::string_view marks, std::string_view end) {
  return fmt::format(
      "{{# tools {} #}}{{% for t in tools or [] %}}{{{{ t.function.name }}}},{{% endfor %}}"
      "{{% for m in messages %}}{{{{ m.content }}}}"
      "{{% for c in m.tool_calls or [] %}}{{{{ c.id }}}}:{{{{ c.function.arguments.a }}}}{{% endfor %}}{{% endfor "
      "%}}{}",
      marks, end);
}

}  // namespace ballast::testing
