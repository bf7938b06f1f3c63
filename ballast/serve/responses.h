// OpenAI's newer interface for texts: responses.
#pragma once

#include <memory>

#include "ballast/serve/fields.h"
#include "ballast/serve/openai_text.h"
#include "ballast/serve/read_sampling.h"
#include "ballast/serve/text_ask.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

void read_response(Fields& fields, const AskLimits& limits, TextAsk& ask);
std::unique_ptr<TextWriter> make_response_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask,
                                                 AnswerLabel label);

}  // namespace ballast::serve
