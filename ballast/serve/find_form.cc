#include "ballast/serve/find_form.h"

#include <fmt/format.h>

#include "ballast/serve/forced_call.h"
#include "ballast/text/encode_parts.h"

namespace ballast::serve {

namespace {

// Whatever is wrong with a form, the client wrote it.
Refusal form_refusal(const Error& error, const std::string& param) {
  Refusal refusal = refusal_of(error);
  if (error.code == ErrorCode::kOutOfMemory) return refusal;
  refusal = {};
  refusal.message = fmt::format("\"{}\" cannot be enforced: {}", param, error.message);
  refusal.param = param;
  refusal.code = "invalid_form";
  return refusal;
}

// Places in the schema of all calls say nothing to a client, so each tool's own schema is tried.
Refusal call_refusal(const Error& error, const ToolsAsk& tools) {
  for (size_t i = 0; i < tools.offered.size(); ++i) {
    const ToolAsk& tool = tools.offered[i];
    if (!tools.named.empty() && tool.name != tools.named) continue;
    auto schema = arguments_schema(tool, "");
    if (!schema) return form_refusal(schema.error(), fmt::format("tools[{}]", i));
    const auto compiled = compile_form({.kind = FormAsk::Kind::kSchema, .text = std::move(*schema)});
    if (!compiled) return form_refusal(compiled.error(), fmt::format("tools[{}]", i));
  }
  return form_refusal(error, "tools");
}

// Models leave empty lines between their reasoning and the rest.
std::vector<RenderedPart> behind_reasoning(std::vector<RenderedPart> lead_in) {
  if (!lead_in.empty()) lead_in.insert(lead_in.begin(), RenderedPart{"\n\n"});
  return lead_in;
}

Status add_call_branches(OpenModel& model, const ToolsAsk& tools, ToolCallStyle style, AnswerForm& form) {
  BALLAST_TRY(std::vector<ForcedCall> calls, forced_calls(style, tools));
  for (ForcedCall& call : calls) {
    if (form.begins_thinking) call.lead_in = behind_reasoning(std::move(call.lead_in));
    BALLAST_TRY(std::vector<TokenId> lead_in, encode_parts(*model.tokenizer, call.lead_in));
    BALLAST_TRY(TokenConstraint constraint, model.forms.find(*model.text, call.form));
    form.branches.push_back({std::move(lead_in), std::move(constraint)});
  }
  return {};
}

}  // namespace

std::optional<Refusal> find_call_style(const OpenModel& model, const TextAsk& ask,
                                       std::optional<ToolCallStyle>& style) {
  if (ask.tools.offered.empty()) return std::nullopt;
  style = tool_call_style(model.chat->template_text());
  if (!style) {
    return Refusal{
        .message =
            "\"tools\" cannot be offered to this model: its chat template takes no tools, or writes calls in "
            "a way that this server does not know; use another model, or leave them out",
        .param = "tools",
        .code = "model_cannot_call"};
  }
  if (ask.form && !ask.tools.must_call) {
    return Refusal{
        .message = fmt::format("\"{}\" and \"tools\" exclude each other while the model may choose between an "
                               "answer and a call: set \"tool_choice\" to \"none\" or \"required\"",
                               ask.form->param),
        .param = ask.form->param,
        .code = "unsupported_parameter"};
  }
  return std::nullopt;
}

std::optional<Refusal> find_form(OpenModel& model, const TextAsk& ask, std::optional<ToolCallStyle> style,
                                 bool begins_thinking, AnswerForm& form) {
  const bool is_call = style && ask.tools.must_call;
  if (!is_call && !ask.form) return std::nullopt;
  const std::string_view asking = is_call ? "tool_choice" : std::string_view(ask.form->param);
  if (ask.ignore_end) {
    return Refusal{
        .message = fmt::format("\"ignore_eos\" and \"{}\" exclude each other: an answer that has a form ends "
                               "when it is complete",
                               asking),
        .param = "ignore_eos"};
  }
  form.begins_thinking = begins_thinking;
  if (begins_thinking) form.beyond_mark = tokens_beyond_mark(*model.tokenizer);
  if (is_call) {
    const Status added = add_call_branches(model, ask.tools, *style, form);
    return added ? std::nullopt : std::optional(call_refusal(added.error(), ask.tools));
  }
  auto constraint = model.forms.find(*model.text, *ask.form);
  if (!constraint) return form_refusal(constraint.error(), ask.form->param);
  form.branches.push_back({{}, std::move(*constraint)});
  return std::nullopt;
}

}  // namespace ballast::serve
