// POST /v1/completions
#include <algorithm>
#include <iterator>

#include "ballast/serve/openai_text.h"

namespace ballast::serve {

namespace {

constexpr uint64_t kMostCompletionLogProbabilities = 20;
constexpr uint64_t kUsualCompletionTokens = 16;
constexpr size_t kMostPrompts = 128;
constexpr size_t kMostPromptTokens = 10'000'000;

constexpr std::string_view kPromptForms =
    "must be a text, a list of texts, a list of token ids, or a list of such lists";

bool is_list_of_numbers(std::string_view raw) {
  JsonReader json(raw, "");
  if (!json.enter_array()) return false;
  const auto more = json.next_element();
  if (!more || !*more) return false;
  const auto type = json.peek();
  return type && *type == JsonType::kNumber;
}

void add_prompt_tokens(Fields& fields, std::string_view raw, TextAsk& ask) {
  auto tokens = token_list(raw);
  if (!tokens || tokens->empty()) fields.refuse("prompt", kPromptForms);
  else if (tokens->size() > kMostPromptTokens) fields.refuse("prompt", "has too many token ids");
  else ask.prompts.emplace_back(std::move(*tokens));
}

// A text, a list of texts, the tokens of one, or a list of such lists.
void read_prompts(Fields& fields, TextAsk& ask) {
  const auto raw = fields.raw("prompt");
  if (!raw) {
    fields.refuse("prompt", "is missing");
    return;
  }
  if (!is_json_array(*raw)) {
    ask.prompts.emplace_back(fields.text("prompt").value_or(""));
    return;
  }
  if (is_list_of_numbers(*raw)) {
    add_prompt_tokens(fields, *raw, ask);
    return;
  }
  const auto elements = fields.elements("prompt", kMostPrompts);
  if (elements.empty()) fields.refuse("prompt", "is an empty list");
  for (const std::string_view element : elements) {
    if (auto text = JsonReader(element, "").read_string()) ask.prompts.emplace_back(std::move(*text));
    else if (is_json_array(element)) add_prompt_tokens(fields, element, ask);
    else fields.refuse("prompt", kPromptForms);
  }
}

// Lists of equal length: tokens, their log-probabilities, the likeliest at each place, where each begins.
class CompletionScores {
 public:
  void add(JsonWriter& json, const std::vector<ChosenToken>& tokens) {
    json.key("logprobs").begin_object().key("tokens").begin_array();
    for (const ChosenToken& token : tokens) json.string(to_utf8(token.bytes));
    json.end_array().key("token_logprobs").begin_array();
    for (const ChosenToken& token : tokens) {
      if (token.has_value) append_log_probability(json, token.log_probability);
      else json.null();
    }
    json.end_array().key("top_logprobs").begin_array();
    for (const ChosenToken& token : tokens) append_likeliest(json, token);
    json.end_array().key("text_offset").begin_array();
    for (const ChosenToken& token : tokens) {
      json.number(offset_);
      offset_ += characters(token.bytes);
    }
    json.end_array().end_object();
  }

 private:
  static void append_likeliest(JsonWriter& json, const ChosenToken& token) {
    if (!token.has_value) {
      json.null();
      return;
    }
    json.begin_object();
    for (const LikelyToken& other : token.likeliest) {
      json.key(to_utf8(other.bytes));
      append_log_probability(json, other.log_probability);
    }
    json.end_object();
  }
  // Clients count characters; a character of several tokens counts where it begins.
  static uint64_t characters(std::string_view bytes) {
    return static_cast<uint64_t>(
        std::ranges::count_if(bytes, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
  }
  uint64_t offset_ = 0;
};

class CompletionWriter : public TextWriter {
 public:
  CompletionWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : sink_(std::move(sink)),
        head_("cmpl-", label),
        has_log_probabilities_(ask.log_probabilities.has_value()),
        choices_(ask.choices * ask.prompts.size()) {}

  void piece(size_t index, AnswerPiece piece) override {
    choices_[index].text += piece.content;
    std::ranges::move(piece.tokens, std::back_inserter(choices_[index].tokens));
  }
  void end(size_t index, const ChoiceEnd& end) override { choices_[index].is_cut = end.is_cut; }

  void finish(const AnswerUsage& usage) override {
    JsonWriter json;
    json.begin_object();
    head_.append_to(json, "text_completion");
    json.key("choices").begin_array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      json.begin_object().key("index").number(i).key("text").string(choices_[i].text);
      if (has_log_probabilities_) CompletionScores().add(json, choices_[i].tokens);
      else json.key("logprobs").null();
      json.key("finish_reason").string(choices_[i].is_cut ? "length" : "stop").end_object();
    }
    json.end_array().key("usage");
    append_usage(json, usage);
    sink_->send(json_answer(json.end_object().take()));
  }

  void fail(const Refusal& refusal) override { sink_->send(to_answer(refusal, Dialect::kOpenAi)); }

 private:
  struct Choice {
    std::string text{};
    std::vector<ChosenToken> tokens{};
    bool is_cut = false;
  };
  std::shared_ptr<AnswerSink> sink_;
  OpenAiHead head_;
  bool has_log_probabilities_;
  std::vector<Choice> choices_;
};

class CompletionStreamWriter : public OpenAiStreamWriter {
 public:
  CompletionStreamWriter(std::shared_ptr<AnswerSink> sink, const TextAsk& ask, const AnswerLabel& label)
      : OpenAiStreamWriter(std::move(sink), ask, OpenAiHead("cmpl-", label), "text_completion"),
        has_log_probabilities_(ask.log_probabilities.has_value()),
        scores_(ask.choices * ask.prompts.size()) {}

  void piece(size_t index, AnswerPiece piece) override {
    write(index, piece.content, has_log_probabilities_ ? &piece.tokens : nullptr, "");
  }
  void end(size_t index, const ChoiceEnd& end) override { write(index, "", nullptr, end.is_cut ? "length" : "stop"); }

 private:
  void write(size_t index, std::string_view text, const std::vector<ChosenToken>* tokens, std::string_view reason) {
    JsonWriter json = begin_chunk(index);
    json.key("text").string(text);
    if (tokens != nullptr) scores_[index].add(json, *tokens);
    else json.key("logprobs").null();
    json.key("finish_reason");
    if (reason.empty()) json.null();
    else json.string(reason);
    stream_.write(finish_chunk(std::move(json)));
  }

  bool has_log_probabilities_;
  std::vector<CompletionScores> scores_;
};

}  // namespace

void read_completion(Fields& fields, const AskLimits& limits, TextAsk& ask) {
  read_openai_common(fields, limits, ask);
  read_prompts(fields, ask);
  if (!fields.elements("tools", SIZE_MAX).empty()) {
    fields.refuse("tools", "belongs to conversations: use /v1/chat/completions", "unsupported_parameter");
  }
  ask.echo = fields.truth("echo").value_or(false);
  refuse_unsupported(fields, {"add_special_tokens", {"true"}, "only true is supported here"});
  ask.max_tokens = fields.count("max_completion_tokens", 0, INT32_MAX);
  if (!ask.max_tokens) ask.max_tokens = fields.count("max_tokens", 0, INT32_MAX).value_or(kUsualCompletionTokens);
  // A number here, and true or false for some clients.
  const auto raw = fields.raw("logprobs");
  if (raw && (*raw == "true" || *raw == "false")) {
    if (*raw == "true") ask.log_probabilities = 1;
  } else {
    ask.log_probabilities = fields.count("logprobs", 0, kMostCompletionLogProbabilities);
  }
}

std::unique_ptr<TextWriter> make_completion_writer(std::shared_ptr<AnswerSink> sink, const TextAsk& ask,
                                                   AnswerLabel label) {
  if (ask.stream) return std::make_unique<CompletionStreamWriter>(std::move(sink), ask, label);
  return std::make_unique<CompletionWriter>(std::move(sink), ask, label);
}

}  // namespace ballast::serve
