// A text that is being written, token by token, by the engine that all texts of a model share.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python/module/open_model.h"

namespace ballast::python {

// What the caller of generate() or chat() may say; what it leaves out is as the model's files have it.
struct Wishes {
  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> max_total;  // of the prompt and what is written
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint64_t> top_k;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_tokens;  // besides those that end a text
  bool ignore_end = false;           // those that end a text do not
  bool log_probabilities = false;
  std::optional<double> timeout_seconds;
  std::optional<Constraint> constraint;
};

struct Written {
  TokenId id = 0;
  std::string text;  // whole characters that can be shown now that the token is there
  double log_probability = 0;
};

// One thread at a time writes down what came; any may ask.
class Generation {
 public:
  // With everything that the request needs settled.
  Generation(ModelHandle model, SharedEngine& engine, RequestId id, TextStream stream, const Tokenizer* skips_special,
             size_t prompt_tokens);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // The next token, or nullopt at the end. Waits without the GIL; Ctrl-C ends the text.
  std::optional<Written> next();
  // The same, passing over tokens that add no text yet.
  std::optional<std::string> next_text();
  void cancel();

  // What was given out so far, in its order, whichever threads took it.
  std::vector<TokenId> tokens() const;
  std::string text() const;
  std::string finish_reason() const;  // empty while it goes on
  // The token that ended the text, which is no part of it.
  std::optional<TokenId> stop_token() const;
  size_t prompt_tokens() const { return prompt_tokens_; }

 private:
  // Without the GIL. nullopt: nothing yet.
  Result<std::optional<Written>> poll();
  Result<std::optional<Written>> take(const EngineEvent& event);
  void end(std::string_view reason);
  void check_place() const;

  ModelHandle model_;
  SharedEngine& engine_;
  const RequestId id_;
  TextStream stream_;
  const Tokenizer* skips_special_;  // null: special tokens are shown like any other
  const size_t prompt_tokens_;
  mutable std::mutex mutex_;  // of all below; never held while waiting for the GIL
  std::vector<TokenId> tokens_;
  std::string text_;
  std::string finish_reason_;
  std::optional<TokenId> stop_token_;
};

// Raises what is wrong with the request.
std::unique_ptr<Generation> start_generation(const ModelHandle& model, std::vector<TokenId> prompt,
                                             const Wishes& wishes, const ChatFormat* chat);

}  // namespace ballast::python
