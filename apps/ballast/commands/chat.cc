#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "apps/ballast/commands/chat_session.h"
#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/constraint_flags.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/flags/sampling_flags.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/io/file.h"
#include "ballast/models/model.h"

namespace ballast::cli {

namespace {

struct ChatFlags {
  ModelFlags model;
  std::vector<std::string> prompt;  // words of one message; empty: a conversation
  std::string tokenizer;
  std::string template_path;
  std::string system;
  std::vector<std::string> stop;
  SamplingFlags sampling;
  ConstraintFlags constraint;
  uint64_t max_tokens = 512;
  bool json = false;
};

Result<std::optional<GivenChatTemplate>> given_template(const ChatFlags& flags) {
  if (flags.template_path.empty()) return std::optional<GivenChatTemplate>();
  BALLAST_TRY(const auto source, open_file(flags.template_path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::optional(GivenChatTemplate{std::string(as_text(bytes)), flags.template_path});
}

Result<TextModel> open_text(const ChatFlags& flags, const RunningModel& running) {
  BALLAST_TRY(auto given, given_template(flags));
  return TextModel::of(running.shared_model(), running.source(),
                       {.tokenizer = flags.tokenizer, .chat_template = std::move(given)});
}

Result<Conversation> make_conversation(const ChatFlags& flags, const std::optional<Constraint>& constraint,
                                       const TextModel& text) {
  if (const auto tokenizer = text.tokenizer(); !tokenizer)
    return with_tokenizer_advice(tokenizer.error(), TokenizerAdvice::kTokenizer);
  ConversationOptions options = text.chat_options();
  options.generate.sampling = settle_sampling(options.generate.sampling, flags.sampling);
  options.generate.max_tokens = flags.max_tokens;
  options.generate.cancelled = interrupted;
  if (constraint) BALLAST_CHECK(assign(options.generate.constraint, text.constrain(*constraint)));
  options.stop_texts.insert(options.stop_texts.end(), flags.stop.begin(), flags.stop.end());
  auto conversation = text.start_chat(std::move(options));
  if (!conversation && conversation.error().code == ErrorCode::kNotFound) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}; give one with --template FILE, or continue a text with `ballast generate`",
                                  conversation.error().message));
  }
  if (conversation) BALLAST_CHECK(conversation->set_system(flags.system));
  return conversation;
}

// What is said once: the words of the command line, or all of standard input.
Result<std::string> single_message(const ChatFlags& flags) {
  std::string message = fmt::format("{}", fmt::join(flags.prompt, " "));
  if (!is_stream(message)) return message;
  BALLAST_TRY(std::string text, read_text_input());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

int run_session(const ChatFlags& flags, ChatSession& session, Console& console) {
  if (flags.prompt.empty()) return session.run();
  const auto message = single_message(flags);
  return message ? session.run_once(*message) : console.fail(message.error(), flags.json);
}

int chat(const ChatFlags& flags, Console& console) {
  if (flags.json && flags.prompt.empty() && ::isatty(STDIN_FILENO) == 1) {
    return console.fail(make_error(ErrorCode::kInvalidArgument, "--json needs a PROMPT, or messages from a pipe"),
                        flags.json);
  }
  const auto constraint = read_constraint(flags.constraint);
  if (!constraint) return console.fail(constraint.error(), flags.json);
  auto running = RunningModel::load(flags.model);
  if (!running) return console.fail(running.error(), flags.json);
  const auto text = open_text(flags, **running);
  if (!text) return console.fail(text.error(), flags.json);
  auto conversation = make_conversation(flags, *constraint, *text);
  if (!conversation) return console.fail(conversation.error(), flags.json);
  if (flags.sampling.random_seed) console.remark(fmt::format("seed {}\n", flags.sampling.values.seed));
  ChatSession session(console, *conversation, text->writer().context_length(), *constraint, flags.json);
  const int code = run_session(flags, session, console);
  if (const Status status = (*running)->finish(console); !status) return console.fail(status.error(), flags.json);
  return console.finish(code);
}

constexpr const char* kChatFooter =
    "With PROMPT, prints the answer and exits; - reads the prompt from standard input. Without PROMPT, starts a\n"
    "conversation. Lines that start with / are commands; /help lists them. For a message of several lines, press\n"
    "Alt-Enter, end each line with a backslash, or put \"\"\" around the block. Ctrl-C stops an answer and keeps the\n"
    "conversation; /quit or Ctrl-D ends it. When input is piped, each line is a message; with --json, each answer is\n"
    "an object on its own line.\n"
    "\n"
    "The chat template and the sampling defaults come from MODEL: chat_template.jinja, tokenizer_config.json and\n"
    "generation_config.json in its folder, or the metadata of a GGUF file.\n"
    "\n"
    "Examples:\n"
    "  ballast chat smollm2\n"
    "  ballast chat model.gguf 'Name three rivers.' --max-tokens 60\n"
    "  ballast chat model.gguf 'Name three rivers.' --json --max-tokens 60\n"
    "  ballast chat model.gguf --system 'Answer in one sentence.' --temperature 0.3\n"
    "  printf 'Hello!\\nAnd in German?\\n' | ballast chat model.gguf --greedy --max-tokens 60\n"
    "  ballast chat model.gptrs --template chat.jinja --stop 'user:'\n";

}  // namespace

RunCommand add_chat(CLI::App& program, Console& console) {
  auto shared = std::make_shared<Command>(program, "chat", "Talk to a text model");
  Command& command = *shared;
  auto flags = std::make_shared<ChatFlags>();
  command.optional_path("MODEL", flags->model.path, "A chat model: file or folder");
  command.optional_texts("PROMPT", flags->prompt, "Answer this prompt and exit; - reads standard input");
  command.text("--system", "TEXT", flags->system, "Set the system message");
  command.text("--template", "FILE", flags->template_path, "Use this chat template (Jinja) instead of the model's own");
  command.text("--tokenizer", "FILE", flags->tokenizer, "Use this tokenizer (default: the model's own)");
  add_sampling_flags(command, flags->sampling, flags->max_tokens);
  command.texts("--stop", "TEXT", flags->stop, "End an answer where this appears; may be repeated");
  add_constraint_flags(command, flags->constraint);
  add_model_flags(command, flags->model);
  command.json(flags->json);
  command.footer(kChatFooter);
  return [flags, shared, &console] {
    flags->sampling.given = shared->given();
    return chat(*flags, console);
  };
}

}  // namespace ballast::cli
