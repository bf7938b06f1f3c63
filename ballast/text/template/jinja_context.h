// The variables of a chat template.
#pragma once

#include <string_view>

#include "ballast/text/chat_template.h"
#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

// A mapping. Texts of messages (but for their roles), tools and documents are marked; tools and documents are none
// where they are absent; messages that hold their reasoning under one of its names get it under all that templates
// read.
Result<Value> make_context(Meter& meter, std::string_view json);
// The same of a conversation. Only messages that have more than a role and a content are JSON.
Result<Value> make_context(Meter& meter, const ChatContext& chat);

}  // namespace ballast::jinja
