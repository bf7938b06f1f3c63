#include "ballast/serve/read_form.h"

#include <fmt/format.h>

namespace ballast::serve {

namespace {

constexpr size_t kMostFormChoices = 1024;

void set_form(Fields& fields, std::string_view key, FormAsk::Kind kind, std::string text,
              std::optional<FormAsk>& form) {
  if (form) {
    fields.refuse(key,
                  fmt::format("and \"{}\" both say what form the answer must have: send one of them", form->param));
  } else if (text.size() > kMostFormBytes) {
    fields.refuse(key, fmt::format("has {} bytes: at most {} are allowed", text.size(), kMostFormBytes));
  } else {
    form = FormAsk{.kind = kind, .text = std::move(text), .param = fields.path(key)};
  }
}

void read_text_form(Fields& fields, std::string_view key, FormAsk::Kind kind, std::optional<FormAsk>& form) {
  auto text = fields.text(key);
  if (text && !text->empty()) set_form(fields, key, kind, std::move(*text), form);
}

// As a literal of a grammar.
std::string quoted_literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += fmt::format("\\{}", c);
    else if (byte < 0x20) quoted += fmt::format("\\x{:02x}", byte);
    else quoted += c;
  }
  return quoted + "\"";
}

// One of several texts.
void read_choice_form(Fields& fields, std::string_view key, std::optional<FormAsk>& form) {
  if (!fields.has(key)) return;
  std::string grammar;
  for (const std::string& text : fields.texts(key, kMostFormChoices)) {
    if (text.empty()) fields.refuse(key, "has an empty text among its elements");
    grammar += (grammar.empty() ? "root ::= " : " | ") + quoted_literal(text);
  }
  if (grammar.empty()) fields.refuse(key, "must be a list of texts, of which the answer is one");
  set_form(fields, key, FormAsk::Kind::kGrammar, std::move(grammar), form);
}

void read_response_format(Fields& fields, std::optional<FormAsk>& form) {
  auto format = fields.object("response_format");
  if (!format) return;
  const std::string type = format->text("type").value_or("");
  if (type == "json_object") {
    // With a schema for llama-server's clients.
    if (format->has("schema")) read_schema_form(*format, "schema", form);
    else set_form(*format, "type", FormAsk::Kind::kJsonObject, "", form);
  } else if (type == "json_schema") {
    auto named = format->object("json_schema");
    if (!named) format->refuse("json_schema", "is missing: it holds the schema that the answer must follow");
    else if (!named->has("schema")) named->refuse("schema", "is missing: the answer must follow it");
    else read_schema_form(*named, "schema", form);
  } else if (type != "text") {
    format->refuse("type", fmt::format("is \"{}\": it must be text, json_object or json_schema", type));
  }
}

void read_structured_outputs(Fields& fields, std::optional<FormAsk>& form) {
  auto outputs = fields.object("structured_outputs");
  if (!outputs) return;
  read_schema_form(*outputs, "json", form);
  read_text_form(*outputs, "regex", FormAsk::Kind::kRegex, form);
  read_choice_form(*outputs, "choice", form);
  read_text_form(*outputs, "grammar", FormAsk::Kind::kGrammar, form);
  if (outputs->truth("json_object").value_or(false)) {
    set_form(*outputs, "json_object", FormAsk::Kind::kJsonObject, "", form);
  }
  for (const std::string_view key : {"structural_tag", "whitespace_pattern"}) {
    if (outputs->has(key)) outputs->refuse(key, "is not supported: leave it out", "unsupported_parameter");
  }
}

}  // namespace

void read_schema_form(Fields& fields, std::string_view key, std::optional<FormAsk>& form) {
  const auto raw = fields.raw(key);
  if (!raw) return;
  std::string schema = is_json_string(*raw) ? fields.text(key).value_or("") : std::string(*raw);
  const size_t begin = schema.find_first_not_of(" \n\r\t");
  if (begin == std::string::npos || schema[begin] != '{') {
    fields.refuse(key, "must be a JSON Schema, which is an object");
    return;
  }
  set_form(fields, key, FormAsk::Kind::kSchema, std::move(schema), form);
}

void read_flat_format(Fields& format, std::optional<FormAsk>& form) {
  const std::string type = format.text("type").value_or("text");
  if (type == "json_object") {
    set_form(format, "type", FormAsk::Kind::kJsonObject, "", form);
  } else if (type == "json_schema") {
    if (!format.has("schema")) format.refuse("schema", "is missing: the answer must follow it");
    read_schema_form(format, "schema", form);
  } else if (type != "text") {
    format.refuse("type", fmt::format("is \"{}\": it must be text, json_object or json_schema", type));
  }
}

void read_form(Fields& fields, std::optional<FormAsk>& form) {
  read_response_format(fields, form);
  read_text_form(fields, "regex", FormAsk::Kind::kRegex, form);
  read_text_form(fields, "ebnf", FormAsk::Kind::kGrammar, form);
  read_text_form(fields, "grammar", FormAsk::Kind::kGrammar, form);
  read_schema_form(fields, "json_schema", form);
  read_schema_form(fields, "guided_json", form);
  read_text_form(fields, "guided_regex", FormAsk::Kind::kRegex, form);
  read_choice_form(fields, "guided_choice", form);
  read_text_form(fields, "guided_grammar", FormAsk::Kind::kGrammar, form);
  read_structured_outputs(fields, form);
}

}  // namespace ballast::serve
