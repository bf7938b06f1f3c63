// OpenAI's interfaces for texts: chat completions and completions.
#pragma once

#include <memory>

#include "ballast/serve/fields.h"
#include "ballast/serve/read_sampling.h"
#include "ballast/serve/text_ask.h"
#include "ballast/serve/writer.h"

namespace ballast::serve {

// What an answer says of itself.
struct AnswerLabel {
  std::string model;    // as the client called it
  std::string version;  // of the program
};

void read_chat_completion(Fields& fields, const AskLimits& limits, TextAsk& ask);
std::unique_ptr<TextWriter> make_chat_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, AnswerLabel label);

void read_completion(Fields& fields, const AskLimits& limits, TextAsk& ask);
std::unique_ptr<TextWriter> make_completion_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask,
                                                   AnswerLabel label);

// The beginning that all of their answers share, inside the object: id, object, created, model, system_fingerprint.
class OpenAiHead {
 public:
  OpenAiHead(std::string_view id_prefix, const AnswerLabel& label);
  void append_to(JsonWriter& json, std::string_view object) const;

 private:
  std::string id_, model_, fingerprint_;
  uint64_t created_;
};

}  // namespace ballast::serve
