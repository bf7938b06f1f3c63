#include "ballast/runtime/text_model.h"

#include <mutex>

#include "ballast/io/guard.h"
#include "ballast/models/model.h"
#include "ballast/text/find_chat_template.h"
#include "ballast/text/generation_defaults.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/text_ends.h"

namespace ballast {

namespace {

constexpr uint64_t kUsualAnswer = 512;  // tokens

// What the template calls bos_token or eos_token.
std::string chat_mark(const Tokenizer& tokenizer, const std::string& text, std::optional<TokenId> id) {
  return !text.empty() || !id ? text : std::string(tokenizer.bytes_of(*id).value_or(""));
}

// The template of the model's files, with the text of another where one was given.
Result<FoundChatTemplate> template_for(const ModelSource& source, const std::optional<GivenChatTemplate>& given) {
  BALLAST_TRY(const auto own, find_chat_template(source));
  FoundChatTemplate found = own.value_or(FoundChatTemplate());
  if (given) {
    found.text = given->text;
    found.where = given->where;
  }
  if (!found.text.empty()) return found;
  return make_error(ErrorCode::kNotFound,
                    source.name() + ": it has no chat template, so it was not made for conversations");
}

}  // namespace

struct TextModel::State {
  State(std::shared_ptr<LoadedModel> loaded, Result<Tokenizer> words, Result<FoundChatTemplate> form)
      : model(std::move(loaded)), tokenizer(std::move(words)), chat_template(std::move(form)) {}

  std::shared_ptr<LoadedModel> model;
  // Why there is none is told to whoever needs it.
  Result<Tokenizer> tokenizer;
  Result<FoundChatTemplate> chat_template;
  GenerateOptions generate;
  ConversationOptions chat;
  std::mutex trees_mutex;
  std::shared_ptr<const TokenTrees> trees;  // made when a constraint asks for them
  TokenConstraints constraints;             // made with them
};

TextModel::TextModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
TextModel::~TextModel() = default;
TextModel::TextModel(TextModel&&) noexcept = default;
TextModel& TextModel::operator=(TextModel&&) noexcept = default;

Result<TextModel> TextModel::open(const std::string& path, const TextModelOptions& options) {
  return guarded([&] { return open(ModelSource(path), options); });
}

Result<TextModel> TextModel::open(const ModelSource& source, const TextModelOptions& options) {
  return guarded([&]() -> Result<TextModel> {
    BALLAST_TRY(std::shared_ptr<LoadedModel> model, load_model(source, options.load));
    return of(std::move(model), source, options);
  });
}

Result<TextModel> TextModel::of(std::shared_ptr<LoadedModel> model, const ModelSource& source,
                                const TextModelOptions& options) {
  return guarded([&]() -> Result<TextModel> {
    if (model->as_causal_lm() == nullptr) return model->cannot("text generation");
    BALLAST_TRY(const SamplerOptions sampling, find_sampling_defaults(source));
    const bool is_given = !options.tokenizer.empty();
    auto tokenizer = is_given ? load_tokenizer(options.tokenizer) : find_tokenizer(source);
    if (!tokenizer && (is_given || tokenizer.error().code == ErrorCode::kOutOfMemory)) return tokenizer.error();
    auto chat_template = template_for(source, options.chat_template);
    if (!chat_template && chat_template.error().code == ErrorCode::kOutOfMemory) return chat_template.error();
    auto state = std::make_unique<State>(std::move(model), std::move(tokenizer), std::move(chat_template));
    const Tokenizer* words = state->tokenizer ? &*state->tokenizer : nullptr;
    state->generate.sampling = sampling;
    state->generate.stop_tokens = all_stop_tokens(state->model->stop_tokens(), words);
    state->chat.generate = state->generate;
    state->chat.generate.max_tokens = kUsualAnswer;
    state->chat.generate.sampling.log_probabilities = false;
    if (words != nullptr && state->chat_template) {
      const FoundChatTemplate& found = *state->chat_template;
      state->chat.stop_texts = turn_ends_in(found.text);
      state->chat.bos_token = chat_mark(*words, found.bos_token, found.bos_id);
      state->chat.eos_token = chat_mark(*words, found.eos_token, found.eos_id);
    }
    return TextModel(std::move(state));
  });
}

LoadedModel& TextModel::model() const { return *state_->model; }
const CausalLm& TextModel::writer() const { return *state_->model->as_causal_lm(); }
uint64_t TextModel::context_length() const { return writer().context_length(); }
uint64_t TextModel::vocab_size() const { return writer().vocab_size(); }
std::span<const TokenId> TextModel::stop_tokens() const { return state_->generate.stop_tokens; }
const GenerateOptions& TextModel::generate_options() const { return state_->generate; }
const ConversationOptions& TextModel::chat_options() const { return state_->chat; }

Result<const Tokenizer*> TextModel::tokenizer() const {
  return guarded([&]() -> Result<const Tokenizer*> {
    if (!state_->tokenizer) return state_->tokenizer.error();
    return &*std::as_const(state_->tokenizer);
  });
}

Result<std::vector<TokenId>> TextModel::encode(std::string_view prompt) const {
  return guarded([&]() -> Result<std::vector<TokenId>> {
    BALLAST_TRY(const Tokenizer* words, tokenizer());
    BALLAST_TRY(std::vector<TokenId> ids, words->encode(prompt));
    if (!ids.empty()) return ids;
    // Nothing said: the model begins a text of its own.
    if (const auto first = first_token(*words)) return std::vector<TokenId>{*first};
    return make_error(ErrorCode::kInvalidArgument,
                      "the prompt is empty, and the tokenizer has no begin-of-text token to start from");
  });
}

Result<std::string> TextModel::decode(std::span<const TokenId> ids) const {
  return guarded([&]() -> Result<std::string> {
    BALLAST_TRY(const Tokenizer* words, tokenizer());
    return words->decode(ids, {.skip_special_tokens = true});
  });
}

Result<Generator> TextModel::start(std::string_view prompt) const { return start(prompt, generate_options()); }

Result<Generator> TextModel::start(std::string_view prompt, const GenerateOptions& options) const {
  return guarded([&]() -> Result<Generator> {
    BALLAST_TRY(std::vector<TokenId> ids, encode(prompt));
    return start(std::move(ids), options);
  });
}

Result<Generator> TextModel::start(std::vector<TokenId> prompt, const GenerateOptions& options) const {
  return Generator::start(writer(), model().context(), std::move(prompt), options, &model().running());
}

Result<TokenConstraint> TextModel::constrain(const Constraint& constraint) const {
  return guarded([&]() -> Result<TokenConstraint> {
    BALLAST_TRY(const Tokenizer* words, tokenizer());
    const std::lock_guard lock(state_->trees_mutex);
    if (!state_->trees) BALLAST_CHECK(assign(state_->trees, make_token_trees(*words)));
    return state_->constraints.find(constraint, state_->trees);
  });
}

Result<std::unique_ptr<Engine>> TextModel::start_engine(const EngineOptions& options) const {
  return Engine::make(writer(), model().context(), options, &model().running());
}

Result<Request> TextModel::make_request(std::string_view prompt) const {
  return make_request(prompt, generate_options());
}

Result<Request> TextModel::make_request(std::string_view prompt, const GenerateOptions& options) const {
  BALLAST_TRY(std::vector<TokenId> ids, encode(prompt));
  return make_request(std::move(ids), options);
}

Result<Request> TextModel::make_request(std::vector<TokenId> prompt, const GenerateOptions& options) const {
  return guarded([&]() -> Result<Request> {
    BALLAST_CHECK(check_cache_capacity(options, prompt.size(), writer().context_length()));
    return to_request(std::move(prompt), options);
  });
}

TextStream TextModel::make_stream(std::vector<std::string> stops) const {
  return TextStream(state_->tokenizer ? &*state_->tokenizer : nullptr, std::move(stops));
}

Result<Conversation> TextModel::start_chat() const {
  return guarded([&] { return start_chat(chat_options()); });
}

Result<Conversation> TextModel::start_chat(ConversationOptions options) const {
  return guarded([&]() -> Result<Conversation> {
    BALLAST_TRY(const Tokenizer* words, tokenizer());
    if (!state_->chat_template) return state_->chat_template.error();
    auto parsed = ChatTemplate::parse(state_->chat_template->text);
    if (!parsed) return std::move(parsed).error().with_context(state_->chat_template->where);
    return Conversation(writer(), model().context(), *words, std::move(*parsed), std::move(options),
                        &model().running());
  });
}

Result<Perplexity> TextModel::perplexity(std::span<const TokenId> tokens, const PerplexityOptions& options) const {
  const std::lock_guard turn(model().running());
  return measure_perplexity(writer(), model().context(), tokens, options);
}

}  // namespace ballast
