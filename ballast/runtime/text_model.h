// A text model with everything that belongs to it, opened once: the way in for programs that write text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/runtime/load_model.h"
#include "ballast/text/constraint.h"
#include "ballast/text/conversation.h"
#include "ballast/text/perplexity.h"
#include "ballast/text/text_stream.h"

namespace ballast {

// A chat template in place of the model's own.
struct GivenChatTemplate {
  std::string text;
  std::string where;  // what errors call it
};

struct TextModelOptions {
  LoadOptions load{};
  std::string tokenizer{};  // another one than the model's own: what load_tokenizer takes
  std::optional<GivenChatTemplate> chat_template{};
};

// The model, its tokenizer, its chat template, the tokens that begin and end a text, and the sampling that its files
// ask for. Any number of threads may use it: what computes waits for its turn. It must outlive the generators, engines,
// streams and conversations that it makes; moving it is no matter.
class TextModel {
 public:
  // What load_model opens, as long as it writes text. A model without a tokenizer or chat template opens: whoever needs
  // them is told then. A tokenizer that was given must be there.
  static Result<TextModel> open(const ModelSource& source, const TextModelOptions& options = {});
  static Result<TextModel> open(const std::string& path, const TextModelOptions& options = {});
  // The same of a model that was loaded from `source`; options.load does not count.
  static Result<TextModel> of(std::shared_ptr<LoadedModel> model, const ModelSource& source,
                              const TextModelOptions& options = {});
  ~TextModel();
  TextModel(TextModel&&) noexcept;
  TextModel& operator=(TextModel&&) noexcept;

  LoadedModel& model() const;
  const CausalLm& writer() const;
  uint64_t context_length() const;
  uint64_t vocab_size() const;
  // kNotFound where the model has none; what is wrong with it where it cannot be read.
  Result<const Tokenizer*> tokenizer() const;

  // A prompt's tokens, with those around it that the model expects. An empty prompt is the beginning of a text.
  Result<std::vector<TokenId>> encode(std::string_view prompt) const;
  Result<std::string> decode(std::span<const TokenId> ids) const;
  // What ends a text.
  std::span<const TokenId> stop_tokens() const;

  // What start() does unless it is told otherwise: the sampling of the model's files, and what ends a text.
  const GenerateOptions& generate_options() const;
  Result<Generator> start(std::string_view prompt) const;
  Result<Generator> start(std::string_view prompt, const GenerateOptions& options) const;
  Result<Generator> start(std::vector<TokenId> prompt, const GenerateOptions& options) const;

  // What GenerateOptions::constraint takes, also that of a conversation: with it every text follows the constraint.
  // Needs the model's tokenizer, and what ends a text. Asked again for the same constraint, it goes on with what that
  // has learnt about the vocabulary.
  Result<TokenConstraint> constrain(const Constraint& constraint) const;

  // Many texts at once: an engine on this model. It has no thread of its own, whoever owns it calls step().
  Result<std::unique_ptr<Engine>> start_engine(const EngineOptions& options = {}) const;
  // What it takes: the request that gets the tokens that start() gives with the same options. Of these, the type of the
  // cache, cancelling and listening are the engine's owner's business.
  Result<Request> make_request(std::string_view prompt) const;
  Result<Request> make_request(std::string_view prompt, const GenerateOptions& options) const;
  Result<Request> make_request(std::vector<TokenId> prompt, const GenerateOptions& options) const;
  // The text of tokens that arrive one after the other, up to one of `stops`; their numbers where the model has no
  // tokenizer.
  TextStream make_stream(std::vector<std::string> stops = {}) const;

  // What start_chat() does unless it is told otherwise: besides, the marks that end a turn, and the template's names
  // for the beginning and the end of a text.
  const ConversationOptions& chat_options() const;
  // kNotFound where the model has no chat template.
  Result<Conversation> start_chat() const;
  Result<Conversation> start_chat(ConversationOptions options) const;

  Result<Perplexity> perplexity(std::span<const TokenId> tokens, const PerplexityOptions& options = {}) const;

 private:
  struct State;
  explicit TextModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ballast
