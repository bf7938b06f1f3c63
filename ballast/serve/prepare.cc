#include "ballast/serve/prepare.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/counter_random.h"
#include "ballast/serve/find_form.h"
#include "ballast/serve/prompt_scores.h"
#include "ballast/serve/read_messages.h"
#include "ballast/serve/token_rules.h"
#include "ballast/text/text_ends.h"

namespace ballast::serve {

namespace {

constexpr std::string_view kThinkMark = "<think>";

// For templates that print the date.
ClockTime utc_now() {
  using namespace std::chrono;
  const auto now = floor<seconds>(system_clock::now());
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(time.hours().count()),
          static_cast<int>(time.minutes().count()),
          static_cast<int>(time.seconds().count())};
}

bool knows_thinking(const OpenModel& model) {
  return model.chat && model.chat->template_text().find("</think>") != std::string::npos;
}

std::optional<Refusal> encode_chat(const OpenModel& model, const TextAsk& ask, AskedPrompts& prompts) {
  if (!model.chat) {
    return Refusal{.message =
                       "the model has no chat template, so it was not made for conversations: use "
                       "/v1/completions, which continues a text",
                   .param = "model",
                   .code = "no_chat_template"};
  }
  const ChatFormat& chat = *model.chat;
  const bool knows_developer = chat.template_text().find("developer") != std::string::npos;
  const std::string context = template_context(ask, knows_developer, chat.bos_token(), chat.eos_token());
  const ClockTime now = utc_now();
  auto tokens = chat.encode(context, now);
  if (!tokens && tokens.error().code == ErrorCode::kOutOfMemory) return refusal_of(tokens.error());
  if (!tokens) {
    return Refusal{
        .message = fmt::format("the model's chat template does not take these messages: {}", tokens.error().message),
        .param = "messages"};
  }
  prompts.tokens.push_back(std::move(*tokens));
  if (!knows_thinking(model)) return std::nullopt;
  if (const auto text = chat.render(context, now)) {
    const size_t end = text->find_last_not_of(" \n\r\t");
    prompts.begins_thinking =
        end != std::string::npos && std::string_view(*text).substr(0, end + 1).ends_with(kThinkMark);
  }
  return std::nullopt;
}

std::optional<Refusal> encode_prompt(const OpenModel& model, const PromptAsk& prompt, AskedPrompts& prompts) {
  if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt); given != nullptr && !given->empty()) {
    prompts.tokens.push_back(*given);
    return std::nullopt;
  }
  const auto* text = std::get_if<std::string>(&prompt);
  auto tokens = model.tokenizer->encode(text != nullptr ? *text : "", {.special_tokens = false});
  if (!tokens) return refusal_of(tokens.error());
  if (tokens->empty()) {
    const auto first = first_token(*model.tokenizer);
    if (!first) {
      return Refusal{.message = "the prompt is empty, and the model has no token that begins a text",
                     .param = "prompt"};
    }
    tokens->push_back(*first);
  }
  prompts.tokens.push_back(std::move(*tokens));
  return std::nullopt;
}

std::optional<Refusal> check_lengths(const OpenModel& model, const AskedPrompts& prompts, const TextAsk& ask) {
  const TextModel& text = *model.text;
  const uint64_t most = model.most_tokens;
  for (const auto& tokens : prompts.tokens) {
    const bool has_unknown = std::ranges::any_of(tokens, [&](TokenId id) { return id >= text.vocab_size(); });
    if (has_unknown) {
      return Refusal{.message = fmt::format("the prompt has token ids beyond the model's vocabulary, which has {}",
                                            text.vocab_size()),
                     .param = "prompt"};
    }
    if (tokens.size() <= most) continue;
    return Refusal{
        .message = fmt::format(
            "the prompt has {} tokens, but {} {}: shorten it; nothing is cut off silently", tokens.size(),
            most < text.context_length() ? "the server's KV cache has room for" : "the model's context has", most),
        .param = ask.is_chat ? "messages" : "prompt",
        .code = "context_length_exceeded"};
  }
  return std::nullopt;
}

std::optional<Refusal> check_bytes(const OpenModel& model, const TextAsk& ask) {
  uint64_t most = 0, turns = 0;
  for (const PromptAsk& prompt : ask.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) most = std::max<uint64_t>(most, text->size());
  }
  for (const ChatTurn& turn : ask.turns) turns += turn.content.size() + turn.reasoning.size() + turn.tool_calls.size();
  for (const ToolAsk& tool : ask.tools.offered) turns += tool.description.size() + tool.parameters.size();
  return check_text_bytes("the prompt", std::max(most, turns), model.most_tokens, ask.is_chat ? "messages" : "prompt");
}

SamplerOptions sampling_for(const TextModel& text, const TextAsk& ask) {
  SamplerOptions options = ask.is_chat ? text.chat_options().generate.sampling : text.generate_options().sampling;
  const SamplingAsk& asked = ask.sampling;
  options.temperature = asked.temperature.value_or(options.temperature);
  // 0 leaves the likeliest token, as every value that is small enough.
  options.top_p = std::max(asked.top_p.value_or(options.top_p), 1e-9);
  options.top_k = asked.top_k.value_or(options.top_k);
  options.min_p = asked.min_p.value_or(options.min_p);
  options.repetition_penalty = asked.repetition_penalty.value_or(options.repetition_penalty);
  options.repetition_window = asked.repetition_window.value_or(options.repetition_window);
  options.log_probabilities = false;  // they are computed from the logits, which the model alone has made
  return options;
}

std::vector<TokenId> ends_for(const OpenModel& model, const TextAsk& ask) {
  const auto of_text = model.text->stop_tokens();
  std::vector<TokenId> ends(of_text.begin(), of_text.end());
  if (ask.is_chat) ends.insert(ends.end(), model.chat->turn_ends().begin(), model.chat->turn_ends().end());
  return ends;
}

// There is room for so many more, and the last one need not be computed with.
uint64_t tokens_for(const ServiceOptions& options, const TextAsk& ask, uint64_t room, uint64_t prompt) {
  uint64_t most = room - prompt + 1;
  if (options.most_tokens != 0) most = std::min(most, options.most_tokens);
  return std::min(ask.max_tokens.value_or(most), most);
}

// Of each prompt.
std::vector<uint64_t> all_tokens_for(const ServiceOptions& options, const TextAsk& ask, uint64_t room,
                                     const AskedPrompts& prompts) {
  std::vector<uint64_t> most;
  for (const auto& tokens : prompts.tokens) most.push_back(tokens_for(options, ask, room, tokens.size()));
  return most;
}

std::optional<Refusal> add_echo(const OpenModel& model, const TextAsk& ask, const AskedPrompts& prompts,
                                const TextAnswer& answer, std::optional<TextAnswer::Clock::time_point> deadline,
                                AnswerPlan& plan) {
  const auto is_wanted = [&] { return !answer.has_left() && (!deadline || TextAnswer::Clock::now() < *deadline); };
  for (const auto& tokens : prompts.tokens) {
    auto text = model.tokenizer->decode(tokens, {.skip_special_tokens = true});
    if (!text) return refusal_of(text.error());
    AnswerPiece piece{.content = to_utf8(*text)};
    if (ask.log_probabilities) {
      auto scores = score_prompt(*model.text, *model.tokenizer, tokens, *ask.log_probabilities, is_wanted);
      if (!scores && scores.error().code == ErrorCode::kCancelled) return late_refusal();
      if (!scores) return refusal_of(scores.error());
      piece.tokens = std::move(*scores);
    }
    plan.echo.push_back(std::move(piece));
  }
  return std::nullopt;
}

AnswerPlan plan_for(const OpenModel& model, const TextAsk& ask, const AskedPrompts& prompts) {
  AnswerPlan plan{.text = &*model.text,
                  .tokenizer = model.tokenizer,
                  .choices = ask.choices,
                  .stop = ask.stop,
                  .knows_thinking = ask.is_chat && knows_thinking(model),
                  .begins_thinking = prompts.begins_thinking,
                  .log_probabilities = ask.log_probabilities,
                  .load = model.load};
  for (const auto& tokens : prompts.tokens) plan.prompt_tokens.push_back(tokens.size());
  if (ask.is_chat && !ask.ignore_end) plan.turn_ends = model.chat->stop_texts();
  for (const ToolAsk& tool : ask.tools.offered) plan.tools.push_back(tool.name);
  plan.may_call_several = ask.tools.may_call_several;
  return plan;
}

// Compiles the form of the answer, which may be empty, and tells the plan what follows from it.
std::optional<Refusal> plan_form(OpenModel& model, const TextAsk& ask, const AskedPrompts& prompts, AnswerForm& form,
                                 AnswerPlan& plan) {
  if (auto refusal = find_call_style(model, ask, plan.call_style)) return refusal;
  if (auto refusal = find_form(model, ask, plan.call_style, prompts.begins_thinking, form)) return refusal;
  // Such an answer ends by itself, and its texts may spell whatever ends a turn.
  if (!form.branches.empty()) plan.turn_ends.clear();
  return std::nullopt;
}

TextAsk as_plain(const TextAsk& ask) {
  TextAsk plain = ask;
  plain.is_chat = plain.may_be_plain = false;
  plain.prompts.emplace_back(plain.turns.back().content);
  plain.turns.clear();
  return plain;
}

std::vector<TokenId> stops_for(const TextAsk& ask, const std::vector<TokenId>& ends) {
  std::vector<TokenId> stops = ask.stop_tokens;
  if (!ask.ignore_end) stops.insert(stops.end(), ends.begin(), ends.end());
  return stops;
}

}  // namespace

std::optional<Refusal> fit_log_probabilities(const TextAsk& ask, const AskedPrompts& prompts,
                                             std::vector<uint64_t>& most_tokens) {
  if (!ask.log_probabilities) return std::nullopt;
  const uint64_t room = kMostLogProbabilities / ((*ask.log_probabilities + 1) * ask.choices);
  uint64_t tokens = 0;
  for (const auto& prompt : prompts.tokens) tokens += ask.echo ? prompt.size() : 0;
  const uint64_t left = room - std::min(room, tokens);
  for (uint64_t& most : most_tokens) {
    if (ask.stream) break;  // they leave with their text
    if (!ask.max_tokens) most = std::min(most, left / most_tokens.size());
    tokens += most;
  }
  if (tokens <= room) return std::nullopt;
  return Refusal{
      .message = fmt::format("\"logprobs\" of {} tokens, each with {} more and for {} choices, are more than "
                             "the {} that one answer may have: ask for fewer tokens or choices, or for a "
                             "stream",
                             tokens, *ask.log_probabilities, ask.choices, kMostLogProbabilities),
      .param = "logprobs",
      .code = "too_many_logprobs"};
}

std::optional<Refusal> check_text_bytes(std::string_view what, uint64_t bytes, uint64_t most_tokens,
                                        std::string_view param) {
  constexpr uint64_t kSmallText = uint64_t{1} << 20U, kMostBytesPerToken = 128;
  if (bytes <= kSmallText || bytes / kMostBytesPerToken <= most_tokens) return std::nullopt;
  return Refusal{.message = fmt::format("{} has {} bytes, far more than {} tokens can say, which is what there is room "
                                        "for: shorten it; nothing is cut off silently",
                                        what, bytes, most_tokens),
                 .param = std::string(param),
                 .code = "context_length_exceeded"};
}

std::optional<Refusal> encode_ask(const OpenModel& model, const TextAsk& ask, AskedPrompts& prompts) {
  if (!model.text) {
    return Refusal{.message = "the model turns texts into vectors and writes none: use /v1/embeddings",
                   .param = "model",
                   .code = "model_cannot_write"};
  }
  if (auto refusal = check_bytes(model, ask)) return refusal;
  if (ask.is_chat) return encode_chat(model, ask, prompts);
  for (const PromptAsk& prompt : ask.prompts) {
    if (auto refusal = encode_prompt(model, prompt, prompts)) return refusal;
  }
  return std::nullopt;
}

std::optional<Refusal> prepare_text(OpenModel& model, const ServiceOptions& options, const TextAsk& ask, uint64_t seed,
                                    const std::shared_ptr<TextAnswer>& answer) {
  if (ask.may_be_plain && !model.chat) return prepare_text(model, options, as_plain(ask), seed, answer);
  AskedPrompts prompts;
  if (auto refusal = encode_ask(model, ask, prompts)) return refusal;
  if (auto refusal = check_lengths(model, prompts, ask)) return refusal;
  AnswerPlan plan = plan_for(model, ask, prompts);
  plan.call_ids = seed;
  std::optional<TextAnswer::Clock::time_point> deadline;
  if (options.deadline) deadline = answer->arrival() + *options.deadline;
  const auto form = std::make_shared<AnswerForm>();
  if (auto refusal = plan_form(model, ask, prompts, *form, plan)) return refusal;
  std::vector<uint64_t> most_tokens = all_tokens_for(options, ask, model.most_tokens, prompts);
  if (auto refusal = fit_log_probabilities(ask, prompts, most_tokens)) return refusal;
  if (ask.echo) {
    if (auto refusal = add_echo(model, ask, prompts, *answer, deadline, plan)) return refusal;
  }
  const std::vector<TokenId> ends = ends_for(model, ask);
  const std::vector<TokenId> stops = stops_for(ask, ends);
  std::vector<TokenId> not_before_minimum = ends;
  not_before_minimum.insert(not_before_minimum.end(), ask.stop_tokens.begin(), ask.stop_tokens.end());
  const uint64_t first_seed = ask.sampling.seed.value_or(seed);
  std::vector<EngineInbox::Job> jobs;
  for (size_t prompt = 0; prompt < prompts.tokens.size(); ++prompt) {
    const auto& tokens = prompts.tokens[prompt];
    for (uint64_t choice = 0; choice < ask.choices; ++choice) {
      TokenRule formed;
      if (!form->branches.empty()) formed = make_form_rule(form, *model.tokenizer, tokens.size(), stops);
      Request request{.prompt = tokens,
                      .max_tokens = most_tokens[prompt],
                      .sampling = sampling_for(*model.text, ask),
                      .stop_tokens = stops,
                      .constraint = make_token_rule(ask, tokens.size(), not_before_minimum, std::move(formed)),
                      .keep_logits = ask.log_probabilities.has_value()};
      // Every choice of a request has a seed of its own, and the first one that of the request.
      const size_t index = jobs.size();
      request.sampling.seed = index == 0 ? first_seed : counter_random(first_seed, index);
      request.deadline = deadline;
      jobs.push_back({std::move(request), answer, index});
    }
  }
  answer->start(std::move(plan));
  answer->inbox().submit(std::move(jobs));
  return std::nullopt;
}

}  // namespace ballast::serve
