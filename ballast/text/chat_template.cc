#include "ballast/text/chat_template.h"

#include "ballast/io/guard.h"
#include "ballast/text/template/jinja_context.h"
#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_parser.h"

namespace ballast {

namespace {

// `variables`: JSON, or a ChatContext.
template <typename Variables>
Result<jinja::Text> render_text(const jinja::Block& block, const Variables& variables, const RenderLimits& limits,
                                const ClockTime& now) {
  jinja::Meter meter(limits.steps, limits.value_bytes);
  BALLAST_TRY(jinja::Value context, jinja::make_context(meter, variables));
  return jinja::Renderer(meter, limits, now).run(block, std::move(context));
}

std::vector<RenderedPart> to_parts(const jinja::Text& text) {
  std::vector<RenderedPart> parts;
  size_t at = 0;
  const auto add = [&](size_t end, bool from_message) {
    if (end > at) parts.push_back({text.bytes().substr(at, end - at), from_message});
    at = end;
  };
  for (const auto& run : text.message_runs()) {
    add(run.begin, false);
    add(run.end, true);
  }
  add(text.size(), false);
  return parts;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  return guarded([&]() -> Result<ChatTemplate> {
    BALLAST_TRY(jinja::Block block, jinja::parse_template(text));
    return ChatTemplate(std::make_shared<const jinja::Block>(std::move(block)));
  });
}

Result<std::string> ChatTemplate::render(std::string_view context_json, const RenderLimits& limits,
                                         const ClockTime& now) const {
  return guarded([&]() -> Result<std::string> {
    BALLAST_TRY(const jinja::Text text, render_text(*block_, context_json, limits, now));
    return text.bytes();
  });
}

Result<std::vector<RenderedPart>> ChatTemplate::render_parts(std::string_view context_json, const RenderLimits& limits,
                                                             const ClockTime& now) const {
  return guarded([&]() -> Result<std::vector<RenderedPart>> {
    BALLAST_TRY(const jinja::Text text, render_text(*block_, context_json, limits, now));
    return to_parts(text);
  });
}

Result<std::vector<RenderedPart>> ChatTemplate::render_parts(const ChatContext& context, const RenderLimits& limits,
                                                             const ClockTime& now) const {
  return guarded([&]() -> Result<std::vector<RenderedPart>> {
    BALLAST_TRY(const jinja::Text text, render_text(*block_, context, limits, now));
    return to_parts(text);
  });
}

}  // namespace ballast
