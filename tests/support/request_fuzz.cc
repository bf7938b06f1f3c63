#include "tests/support/request_fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/json_object.h"
#include "ballast/base/utf8.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

namespace {

constexpr size_t kLongestFuzzBody = 20'000;

// Values where a member expects others.
constexpr std::string_view kFuzzValues[] = {"null",
                                            "true",
                                            "false",
                                            "0",
                                            "-0",
                                            "-1",
                                            "1",
                                            "2",
                                            "0.5",
                                            "1e308",
                                            "-1e308",
                                            "1e999",
                                            "1e-999",
                                            "9007199254740993",
                                            "18446744073709551615",
                                            "18446744073709551616",
                                            "-9223372036854775809",
                                            "4294967296",
                                            "65536",
                                            R"("")",
                                            R"("a")",
                                            R"("\u0000")",
                                            R"("\ud83d\ude00")",
                                            R"("\ud800")",
                                            R"("../../etc/passwd")",
                                            R"("<|endoftext|>")",
                                            R"("<tool_call>{\"name\":\"f\"}</tool_call>")",
                                            R"("{{ 7*7 }}")",
                                            R"("(a*)*b")",
                                            R"("root ::= root | \"\"")",
                                            "[]",
                                            "[null]",
                                            "[[]]",
                                            "[{}]",
                                            "{}",
                                            R"({"":0})",
                                            R"({"$ref":"#"})",
                                            R"({"type":"object"})",
                                            R"({"type":"string","pattern":"("})",
                                            R"({"anyOf":[{"$ref":"#"},{}]})",
                                            R"([{"role":"user","content":"a"}])",
                                            R"([{"type":"text","text":"a"}])"};

// Names of members, and what some of them hold.
constexpr std::string_view kFuzzWords[] = {"\"model\":",
                                           "\"messages\":",
                                           "\"prompt\":",
                                           "\"input\":",
                                           "\"n\":8,",
                                           "\"stream\":true,",
                                           "\"stop\":",
                                           "\"logprobs\":",
                                           "\"top_logprobs\":",
                                           "\"echo\":true,",
                                           "\"tools\":",
                                           "\"tool_choice\":\"required\",",
                                           "\"tool_calls\":",
                                           "\"format\":",
                                           "\"response_format\":",
                                           "\"grammar\":",
                                           "\"json_schema\":",
                                           "\"structured_outputs\":",
                                           "\"$ref\":",
                                           "\"$defs\":",
                                           "\"pattern\":",
                                           "\"enum\":",
                                           "\"minItems\":",
                                           "\"additionalProperties\":",
                                           "\"logit_bias\":",
                                           "\"chat_template_kwargs\":",
                                           "\"options\":",
                                           "\"system\":",
                                           "\"thinking\":",
                                           "\"min_tokens\":",
                                           "\"ignore_eos\":true,",
                                           "\"stop_token_ids\":",
                                           "\"encoding_format\":\"base64\",",
                                           "\"dimensions\":",
                                           "\\u0000",
                                           "\\ud800",
                                           "\xff",
                                           "\xc0\x80",
                                           "\xe2\x80\xa8",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           ",",
                                           ":",
                                           "\"",
                                           "\\",
                                           "1e",
                                           "-",
                                           "// ",
                                           "[[[[[[[[[[[[[[[[",
                                           "{\"a\":{\"a\":{\"a\":"};

// Where the value begins that a byte of a body belongs to, as far as that can be told without reading it all.
struct ValueSpan {
  size_t begin = 0, size = 0;
};

bool begins_value(char c) { return std::string_view("\"[{-0123456789tfn").find(c) != std::string_view::npos; }

ValueSpan value_near(std::string_view body, size_t at) {
  for (size_t tried = 0; tried < 64 && at + tried < body.size(); ++tried) {
    const size_t begin = at + tried;
    if (!begins_value(body[begin])) continue;
    JsonReader json(body.substr(begin), "");
    if (const auto raw = json.read_raw()) return {begin, raw->size()};
  }
  return {std::min(at, body.size()), 0};
}

// The members that the recordings do not use.
std::vector<FuzzRequest> extra_seeds() {
  return {
      {"POST", "/v1/chat/completions",
       R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}],"max_tokens":2,"temperature":0.5,"top_p":0.9,"top_k":3,"min_p":0.1,"repeat_penalty":1.1,"repeat_last_n":5,"presence_penalty":0.1,"frequency_penalty":0.1,"seed":1,"logit_bias":{"1":2},"stop":["a","b"],"stop_token_ids":[3],"n":2,"min_tokens":1,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2,"chat_template_kwargs":{"a":true},"reasoning_effort":"low","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}}}],"tool_choice":"auto","parallel_tool_calls":false})"},
      {"POST", "/v1/chat/completions",
       R"({"model":"thinker","messages":[{"role":"user","content":"a"}],"max_tokens":2,"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":1},"b":{"enum":["x","y"]},"c":{"type":["string","null"],"pattern":"^[ab]+$"},"d":{"anyOf":[{"type":"number"},{"const":true}]}},"required":["a","b"],"additionalProperties":false}}}})"},
      {"POST", "/v1/chat/completions",
       R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}},{"type":"function","function":{"name":"g"}}],"tool_choice":"required"})"},
      {"POST", "/v1/completions",
       R"({"model":"tiny","prompt":["a",[1,2,3]],"max_tokens":2,"logprobs":2,"echo":true,"grammar":"root ::= \"a\" | [b-d]{1,3} root?"})"},
      {"POST", "/v1/completions",
       R"({"prompt":"a","max_tokens":2,"stream":true,"structured_outputs":{"regex":"(a|b)*c"}})"},
      {"POST", "/v1/embeddings",
       R"({"model":"embed","input":["ship","boat"],"encoding_format":"base64","dimensions":48})"},
      {"POST", "/api/embed", R"({"model":"embed","input":["ship"],"truncate":true})"},
      {"POST", "/tokenize",
       R"({"content":"a<|endoftext|>","add_special":true,"parse_special":true,"with_pieces":true})"},
      {"POST", "/detokenize", R"({"tokens":[1,2,3]})"},
      {"GET", "/v1/models/org%2Ftiny:1", ""},
      {"GET", "/props", ""},
  };
}

std::string fault_of_json(std::string_view text) {
  JsonReader json(text, "");
  if (const auto read = json.skip_value(); !read) return read.error().message;
  if (const auto end = json.finish(); !end) return end.error().message;
  return "";
}

}  // namespace

std::vector<FuzzRequest> fuzz_seeds() {
  std::vector<FuzzRequest> seeds = extra_seeds();
  const std::string list = read_text_file(test_file_path("openai/requests.json"));
  const auto recorded = json_elements(list, "requests.json");
  if (!recorded) return seeds;
  for (const std::string_view request : *recorded) {
    const std::string body = json_at(request, "body");
    seeds.push_back(
        {json_string(json_at(request, "method")), json_string(json_at(request, "path")), body == "null" ? "" : body});
  }
  return seeds;
}

std::string RequestMutator::some_value() {
  if (below(2) == 0) return std::string(kFuzzValues[below(std::size(kFuzzValues))]);
  const std::string& other = seeds_[below(seeds_.size())].body;
  const ValueSpan span = value_near(other, below(other.size()));
  return other.substr(span.begin, span.size);
}

void RequestMutator::change_bytes(std::string& body) {
  const size_t at = below(body.size() + 1);
  const size_t length = std::min<size_t>(1 + below(16), body.size() - at);
  switch (below(5)) {
    case 0: body.replace(at, length, std::string(length, static_cast<char>(below(256)))); break;
    case 1: body.erase(at, length); break;
    case 2: body.insert(at, body.substr(at, length * (1 + below(8)))); break;
    case 3: body.insert(at, kFuzzWords[below(std::size(kFuzzWords))]); break;
    default:
      if (at < body.size()) body[at] = static_cast<char>(static_cast<unsigned char>(body[at]) ^ (1U << below(8)));
  }
}

void RequestMutator::change_value(std::string& body) {
  const ValueSpan span = value_near(body, below(body.size() + 1));
  const std::string old = body.substr(span.begin, span.size);
  switch (below(4)) {
    case 0: body.replace(span.begin, span.size, "[" + old + "]"); break;
    case 1: body.replace(span.begin, span.size, fmt::format("[{0},{0},{1}]", old, some_value())); break;
    default: body.replace(span.begin, span.size, some_value());
  }
}

FuzzRequest RequestMutator::next() {
  FuzzRequest request = seeds_[below(seeds_.size())];
  for (uint64_t changes = 1 + below(4); changes > 0; --changes) {
    const uint64_t kind = below(20);
    if (kind == 0) request.path = seeds_[below(seeds_.size())].path;
    else if (kind == 1) change_bytes(request.path);
    else if (kind == 2) request.body.resize(below(request.body.size() + 1));
    else if (kind < 12) change_value(request.body);
    else change_bytes(request.body);
  }
  if (request.body.size() > kLongestFuzzBody) request.body.resize(kLongestFuzzBody);
  return request;
}

std::string fuzz_text(const FuzzRequest& request) {
  return fmt::format("{} {}\n{}", request.method, request.path, request.body);
}

FuzzRequest fuzz_request(std::string_view text) {
  const size_t line = std::min(text.find('\n'), text.size());
  const size_t space = std::min(text.find(' '), line);
  return {std::string(text.substr(0, space)),
          std::string(text.substr(std::min(space + 1, line), line - std::min(space + 1, line))),
          std::string(text.substr(std::min(line + 1, text.size())))};
}

std::string fault_of(const serve::HttpAnswer& answer) {
  constexpr std::array kStatuses = {200, 400, 404, 405, 413};
  if (std::ranges::find(kStatuses, answer.status) == kStatuses.end()) {
    return fmt::format("status {}: {}", answer.status, answer.body);
  }
  if (!is_valid_utf8(answer.body)) return "the answer is no UTF-8: " + answer.body;
  if (answer.content_type.starts_with("text/plain")) return "";  // metrics
  if (answer.content_type.starts_with("application/json")) {
    const std::string fault = fault_of_json(answer.body);
    return fault.empty() ? "" : fmt::format("{}: {}", fault, answer.body);
  }
  for (const std::string& event : events_of(answer.body)) {
    if (const std::string fault = fault_of_json(event); !fault.empty()) return fmt::format("{}: {}", fault, event);
  }
  return "";
}

}  // namespace ballast::testing
