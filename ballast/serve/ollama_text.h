// Ollama's interface for texts: /api/chat and /api/generate.
#pragma once

#include <memory>

#include "ballast/serve/fields.h"
#include "ballast/serve/openai_text.h"
#include "ballast/serve/text_ask.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

void read_ollama_chat(Fields& fields, TextAsk& ask);
void read_ollama_generate(Fields& fields, TextAsk& ask);

enum class OllamaForm : unsigned char { kChat, kGenerate };
std::unique_ptr<TextWriter> make_ollama_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, OllamaForm form,
                                               std::string model);

// Of a request that only loads the model.
std::string ollama_load_answer(const std::string& model, OllamaForm form);

// A JSON text as a line of a stream: Ollama's client ends a line at more characters than JSON escapes.
std::string to_ollama_line(std::string json);

}  // namespace ballast::serve
