#include "ballast/serve/read_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/engine/sampler.h"
#include "ballast/serve/read_form.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 1024;
constexpr size_t kMostBiases = 1024;
constexpr size_t kMostStopTokens = 64;
constexpr uint64_t kMostLikeliest = 20;

std::optional<TokenId> token_named(std::string_view text) {
  TokenId id = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(id) : std::nullopt;
}

// {"50256": -100}
void read_bias(Fields& fields, SamplingAsk& sampling) {
  const auto raw = fields.raw("logit_bias");
  if (!raw) return;
  JsonReader json(*raw, "");
  if (!json.enter_object()) {
    fields.refuse("logit_bias", "must be an object of token ids and numbers from -100 to 100");
    return;
  }
  std::string key;
  for (;;) {
    const auto more = json.next_key(key);
    if (!more || !*more) return;
    const auto id = token_named(key);
    const auto value = json.read_double();
    if (!id || !value || !(*value >= -100 && *value <= 100)) {
      fields.refuse("logit_bias", "must be an object of token ids and numbers from -100 to 100");
      return;
    }
    if (sampling.bias.size() == kMostBiases) {
      fields.refuse("logit_bias", fmt::format("has more than {} tokens", kMostBiases));
      return;
    }
    sampling.bias.emplace_back(*id, static_cast<float>(*value));
  }
}

void read_stop_tokens(Fields& fields, TextAsk& ask) {
  for (const std::string_view element : fields.elements("stop_token_ids", kMostStopTokens)) {
    if (const auto id = token_named(element)) ask.stop_tokens.push_back(*id);
    else fields.refuse("stop_token_ids", "must be a list of token ids");
  }
}

constexpr std::string_view kUseTopP = "not supported: use \"top_p\" or \"min_p\"";
constexpr std::string_view kUsePenalty = "not supported: use \"repetition_penalty\"";
constexpr std::string_view kNoBeams = "one text is followed, not several: leave it out";
constexpr std::string_view kNoGuidance = "guidance is not supported: leave it out";
constexpr std::string_view kNoAdapters = "not supported: serve the merged model under a name of its own";
constexpr UnsupportedField kUnsupportedFields[] = {
    {"functions", {"[]"}, "it is out of date: use \"tools\""},
    {"function_call", {"\"none\"", "\"auto\""}, "it is out of date: use \"tool_choice\""},
    {"best_of", {"1"}, "only 1 is supported: use \"n\" and choose"},
    {"suffix", {"\"\""}, "filling in is not supported: leave it out"},
    {"audio", {}, "models here write text only"},
    {"modalities", {"[\"text\"]", "[]"}, "models here write text only"},
    {"web_search_options", {}, "this server searches nothing"},
    {"typical_p", {"1", "1.0"}, kUseTopP},
    {"tfs_z", {"1", "1.0"}, kUseTopP},
    {"mirostat", {"0"}, kUseTopP},
    {"dry_multiplier", {"0", "0.0"}, kUsePenalty},
    {"xtc_probability", {"0", "0.0"}, "not supported: use \"min_p\""},
    {"dynatemp_range", {"0", "0.0"}, "not supported: use \"temperature\""},
    {"top_n_sigma", {"-1", "-1.0", "0", "0.0"}, kUseTopP},
    {"n_predict", {"-1"}, "use \"max_tokens\""},
    {"skip_special_tokens", {"true"}, "only true is supported"},
    {"include_stop_str_in_output", {"false"}, "only false is supported"},
    {"return_tokens_as_token_ids", {"false"}, "only false is supported"},
    {"prompt_embeds", {}, "not supported: send texts or token ids"},
    {"samplers", {}, "the order of samplers is fixed: leave it out"},
    {"bad_words", {"[]"}, "not supported: use \"logit_bias\""},
    {"allowed_token_ids", {}, "not supported: use \"logit_bias\""},
    {"prompt_logprobs", {"false"}, "not supported: use \"echo\" with \"logprobs\" of /v1/completions"},
    {"use_beam_search", {"false"}, kNoBeams},
    {"continue_final_message", {"false"}, "not supported: leave it out"},
    {"add_generation_prompt", {"true"}, "only true is supported"},
    {"truncate_prompt_tokens", {}, "prompts are not shortened silently: send a shorter one"},
    {"documents", {"[]"}, "not supported: put their text into a message"},
    {"chat_template", {}, "templates are the model's own: requests cannot bring one"},
    {"lora", {"[]"}, kNoAdapters},
    {"lora_adapter", {"\"\""}, kNoAdapters},
    {"lora_path", {"\"\"", "[]"}, kNoAdapters},
    {"lora_request", {}, kNoAdapters},
    {"length_penalty", {"1", "1.0"}, kNoBeams},
    {"early_stopping", {"false"}, kNoBeams},
    {"num_beams", {"1"}, kNoBeams},
    {"penalty_alpha", {"0", "0.0"}, kNoBeams},
    {"guidance_scale", {"1", "1.0"}, kNoGuidance},
    {"negative_prompt", {"\"\""}, kNoGuidance},
    {"no_repeat_ngram_size", {"0"}, kUsePenalty},
    {"encoder_repetition_penalty", {"1", "1.0"}, kUsePenalty},
    {"top_a", {"0", "0.0"}, kUseTopP},
    {"tfs", {"1", "1.0"}, kUseTopP},
    {"typical", {"1", "1.0"}, kUseTopP},
    {"epsilon_cutoff", {"0", "0.0"}, kUseTopP},
    {"eta_cutoff", {"0", "0.0"}, kUseTopP},
    {"mirostat_mode", {"0"}, kUseTopP},
    {"min_keep", {"0", "1"}, kUseTopP},
    {"adaptive_target", {"-1", "-1.0"}, kUseTopP},
    {"smoothing_factor", {"0", "0.0"}, "not supported: use \"temperature\""},
    {"dynamic_temperature", {"false"}, "not supported: use \"temperature\""},
    {"do_sample", {"true"}, "set \"temperature\" to 0 instead"},
    {"ban_eos_token", {"false"}, "use \"ignore_eos\""},
    {"custom_token_bans", {"\"\""}, "not supported: use \"logit_bias\""},
    {"logits_processors", {"[]"}, "requests cannot bring programs"},
    {"custom_logit_processor", {"\"\""}, "requests cannot bring programs"},
    {"custom_params", {"{}"}, "requests cannot bring programs"},
    {"vllm_xargs", {"{}"}, "not supported: leave it out"},
    {"max_new_tokens", {}, "use \"max_tokens\""},
    {"min_new_tokens", {"0"}, "use \"min_tokens\""},
    {"t_max_predict_ms", {"0", "-1"}, "not supported: use \"max_tokens\""},
    {"thinking_token_budget", {"-1"}, "not supported: use \"max_tokens\""},
    {"thinking_budget_tokens", {"-1"}, "not supported: use \"max_tokens\""},
    {"reasoning_budget_tokens", {"-1"}, "not supported: use \"max_tokens\""},
    {"n_indent", {"0"}, "not supported: leave it out"},
    {"n_probs", {"0"}, "use \"logprobs\""},
    {"post_sampling_probs", {"false"}, "use \"logprobs\""},
    {"return_token_ids", {"false"}, "only false is supported"},
    {"return_hidden_states", {"false"}, "only false is supported"},
    {"stop_regex", {"\"\"", "[]"}, "not supported: use \"stop\""},
    {"no_stop_trim", {"false"}, "only false is supported"},
    {"include_reasoning", {"true"}, "only true is supported"},
    {"separate_reasoning", {"true"}, "only true is supported"},
    {"reasoning_format", {"\"auto\"", "\"deepseek\""}, "reasoning is separated from the answer: leave it out"},
};

// A short value without spaces, to compare it; a long one is none of those that we compare with.
std::string compact_value(std::string_view raw) {
  std::string compact(raw.substr(0, 32));
  std::erase_if(compact, [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; });
  return compact;
}

}  // namespace

void refuse_unsupported(Fields& fields, const UnsupportedField& field) {
  const auto raw = fields.raw(field.name);
  if (!raw || std::ranges::find(field.harmless, compact_value(*raw)) != field.harmless.end()) return;
  fields.refuse(field.name, fmt::format("would change the answer: {}", field.instead), "unsupported_parameter");
}

void read_sampling(Fields& fields, SamplingAsk& sampling) {
  sampling.temperature = fields.number("temperature", 0, 10);
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  // -1 is what some programs call all.
  if (const auto top_k = fields.whole("top_k", -1, INT32_MAX)) {
    sampling.top_k = static_cast<uint64_t>(std::max<int64_t>(*top_k, 0));
  }
  const std::string_view repetition = fields.has("repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
  sampling.repetition_penalty = fields.number(repetition, 0.01, 100);
  if (const auto window = fields.whole("repeat_last_n", -1, INT32_MAX)) {
    sampling.repetition_window = *window < 0 ? kWholeContext : static_cast<uint64_t>(*window);
  }
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  if (const auto seed = fields.whole("seed", INT64_MIN, INT64_MAX)) sampling.seed = static_cast<uint64_t>(*seed);
  read_bias(fields, sampling);
}

void read_stops(Fields& fields, std::string_view key, std::vector<std::string>& stops) {
  stops = fields.texts(key, kMostStops);
  for (const std::string& stop : stops) {
    if (stop.size() <= kMostStopBytes) continue;
    fields.refuse(key, fmt::format("has a text of {} bytes: at most {} are allowed", stop.size(), kMostStopBytes));
  }
}

void read_openai_common(Fields& fields, const AskLimits& limits, TextAsk& ask) {
  ask.model = fields.text("model").value_or("");
  refuse_unsupported(fields);
  read_form(fields, ask.form);
  read_sampling(fields, ask.sampling);
  read_stops(fields, "stop", ask.stop);
  read_stop_tokens(fields, ask);
  ask.choices = fields.count("n", 1, limits.most_choices).value_or(1);
  ask.min_tokens = fields.count("min_tokens", 0, INT32_MAX).value_or(0);
  ask.ignore_end = fields.truth("ignore_eos").value_or(false);
  ask.stream = fields.truth("stream").value_or(false);
  if (auto options = fields.object("stream_options")) {
    ask.usage_in_stream = options->truth("include_usage").value_or(false);
  }
}

void read_log_probabilities(Fields& fields, TextAsk& ask) {
  const auto likeliest = fields.count("top_logprobs", 0, kMostLikeliest);
  if (fields.truth("logprobs").value_or(false)) ask.log_probabilities = likeliest.value_or(0);
  else if (likeliest.value_or(0) != 0) fields.refuse("top_logprobs", "needs \"logprobs\": true");
}

void refuse_unsupported(Fields& fields) {
  for (const UnsupportedField& field : kUnsupportedFields) refuse_unsupported(fields, field);
}

}  // namespace ballast::serve
