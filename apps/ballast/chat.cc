#include <fmt/format.h>

#include <memory>

#include "apps/ballast/chat_session.h"
#include "apps/ballast/commands.h"
#include "apps/ballast/interrupt.h"
#include "apps/ballast/model_flags.h"
#include "apps/ballast/sampling_flags.h"
#include "apps/ballast/text.h"
#include "ballast/archive/open.h"
#include "ballast/io/file.h"
#include "ballast/text/find_chat_template.h"

namespace ballast::cli {

namespace {

struct ChatFlags {
  ModelFlags model;
  std::string tokenizer;
  std::string template_path;
  std::string system;
  std::vector<std::string> stop;
  bool greedy = false;
  GenerateOptions options;

  // The likeliest answer: people ask in order to know, and small models stray soon when they draw. Always the likeliest
  // token goes in circles, so what stands already counts a little less.
  ChatFlags() {
    options.max_tokens = 512;
    options.sampling.temperature = 0;
    options.sampling.top_p = 0.9;
    options.sampling.repetition_penalty = 1.1;
  }
};

Result<FoundChatTemplate> chat_template_for(const ChatFlags& flags, const std::string& model_path) {
  FoundChatTemplate found;
  BALLAST_TRY(const auto beside, find_chat_template(model_path));
  if (beside) found = *beside;
  if (const auto archive = open_archive(model_path); archive && !beside) {
    if (auto inside = find_chat_template(archive->description())) found = std::move(*inside);
  }
  if (!flags.template_path.empty()) {
    BALLAST_TRY(const auto source, open_file(flags.template_path, FileAccess::kPositional));
    BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
    found.text = std::string(as_text(bytes));
    found.where = flags.template_path;
  }
  if (!found.text.empty()) return found;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: it has no chat template, so it was not made for conversations; give one with "
                                "--template FILE, or let it write with `ballast generate`",
                                model_path));
}

Result<Conversation> make_conversation(const ChatFlags& flags, RunningModel& running, const Tokenizer& tokenizer) {
  BALLAST_TRY(const FoundChatTemplate found, chat_template_for(flags, running.path()));
  auto parsed = ChatTemplate::parse(found.text);
  if (!parsed) return std::move(parsed).error().with_context(found.where);
  ConversationOptions options;
  options.generate = flags.options;
  settle_sampling(options.generate, flags.greedy);
  options.generate.sampling.log_probabilities = false;
  options.generate.cancelled = interrupted;
  options.generate.stop_tokens = stop_tokens_of(running.model(), &tokenizer);
  options.stop_texts = ends_of_turns_in(found.text);
  options.stop_texts.insert(options.stop_texts.end(), flags.stop.begin(), flags.stop.end());
  const auto text_of = [&](const std::string& text, std::optional<TokenId> id) {
    return !text.empty() || !id ? text : std::string(tokenizer.bytes_of(*id).value_or(""));
  };
  options.bos_token = text_of(found.bos_token, found.bos_id);
  options.eos_token = text_of(found.eos_token, found.eos_id);
  Conversation conversation(*running.model().as_causal_lm(), running.model().context(), tokenizer, std::move(*parsed),
                            std::move(options));
  conversation.set_system(flags.system);
  return conversation;
}

int chat(const ChatFlags& flags, Console& console) {
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error());
  if ((*running)->model().as_causal_lm() == nullptr) {
    return console.fail(wrong_capability((*running)->model(), "a conversation"));
  }
  const auto tokenizer = find_tokenizer(flags.tokenizer, (*running)->path());
  if (!tokenizer) return console.fail(tokenizer.error());
  auto conversation = make_conversation(flags, **running, *tokenizer);
  if (!conversation) return console.fail(conversation.error());
  ChatSession session(console, *conversation, (*running)->model().as_causal_lm()->context_length());
  const int code = session.run();
  if (const Status status = (*running)->finish(console); !status) return console.fail(status.error());
  return code;
}

constexpr const char* kChatFooter =
    "What you type is said to the model; a line that begins with / is a command, /help lists them. Ctrl-C stops an "
    "answer\n"
    "and keeps the conversation; at the prompt, pressed twice, it leaves. Lines from a pipe are turns, one each.\n"
    "\n"
    "The chat template comes from MODEL: GGUF metadata, chat_template.jinja or tokenizer_config.json beside it.\n"
    "\n"
    "Examples:\n"
    "  ballast chat smollm2\n"
    "  ballast chat model.gguf --system 'Answer in one sentence.' --temperature 0.3\n"
    "  printf 'Hello!\\nAnd in German?\\n' | ballast chat model.gguf --greedy --max-tokens 60\n"
    "  ballast chat model.gptrs --template chat.jinja --stop 'user:'\n";

}  // namespace

RunCommand add_chat(CLI::App& program, Console& console) {
  Command command(program, "chat", "Talk with a text model");
  auto flags = std::make_shared<ChatFlags>();
  command.optional_path("MODEL", flags->model.path, "A text model that was made for conversations");
  command.text("--system", "TEXT", flags->system, "What the model is told before the conversation");
  command.text("--template", "FILE", flags->template_path, "A chat template (Jinja) instead of the model's own");
  command.text("--tokenizer", "FILE", flags->tokenizer, "tokenizer.json or vocab.json, unless it stands beside MODEL");
  add_sampling_flags(command, flags->options, flags->greedy);
  command.texts("--stop", "TEXT", flags->stop, "End an answer where this appears; may be repeated");
  add_model_flags(command, flags->model);
  command.footer(kChatFooter);
  return [flags, &console] { return chat(*flags, console); };
}

}  // namespace ballast::cli
