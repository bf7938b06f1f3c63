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

// A stream of one of them: objects of one kind as events, one choice in each, up to "[DONE]".
class OpenAiStreamWriter : public TextWriter {
 public:
  void finish(const AnswerUsage& usage) override;
  void fail(const Refusal& refusal) override;

 protected:
  // `object`: what each of them is called; a literal.
  OpenAiStreamWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, OpenAiHead head, std::string_view object);

  // What stands before and behind the fields of a choice.
  JsonWriter begin_chunk(size_t choice) const;
  static std::string finish_chunk(JsonWriter json);

  PieceStream stream_;

 private:
  OpenAiHead head_;
  std::string_view object_;
  bool has_usage_;
};

}  // namespace ballast::serve
