#include "apps/ballast/commands/chat_session.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "apps/ballast/commands/chat_message.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/markdown_stream.h"
#include "ballast/base/human_size.h"
#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

constexpr const char* kPrompt = "> ";

ClockTime local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return {.year = local.tm_year + 1900,
          .month = local.tm_mon + 1,
          .day = local.tm_mday,
          .hour = local.tm_hour,
          .minute = local.tm_min,
          .second = std::min(local.tm_sec, 59)};
}

Result<std::vector<ChatMessage>> read_conversation(const std::string& path) {
  constexpr uint64_t kLargest = uint64_t{64} << 20U;
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() > kLargest) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: too large for a conversation", path));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return parse_messages(as_text(bytes), path);
}

// What a file is called, as a shell would take it.
std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

// A name that is mistyped must not cost a model: only conversations are written over.
Status check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || read_conversation(path)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: this file exists and is not a saved conversation; choose another name", path));
}

Status write_conversation(const std::string& path, const std::string& text) {
  BALLAST_CHECK(check_replaceable(path));
  AtomicFiles files({.overwrite = true, .sync = true, .file_system = nullptr});
  BALLAST_TRY(ByteSink* const sink, files.add(path, text.size()));
  BALLAST_CHECK(sink->write_text(text));
  return files.commit();
}

}  // namespace

struct ChatSession::CommandRow {
  std::string_view name;
  std::string_view argument;  // what help calls it; "": takes none
  std::string_view what;
  Next (ChatSession::*run)(const std::string& argument);
};

const ChatSession::CommandRow ChatSession::kRows[] = {
    {"/help", "", "list these commands", &ChatSession::help},
    {"/reset", "", "forget the conversation, except for the system message", &ChatSession::reset},
    {"/save", "FILE", "write the conversation as JSON", &ChatSession::save},
    {"/load", "FILE", "continue a saved conversation", &ChatSession::load},
    {"/stats", "", "show tokens, times and memory", &ChatSession::stats},
    {"/system", "TEXT", "set the system message; without TEXT, remove it", &ChatSession::system},
    {"/quit", "", "leave (also /exit or Ctrl-D)", &ChatSession::exit},
    {"/exit", "", "leave", &ChatSession::exit},
};

void ChatSession::show(std::string_view text) {
  console_.out() += text;
  console_.flush();
}

// ---------------------------------------------------------------- lines

int ChatSession::run_once(const std::string& message) {
  once_ = true;
  say(json_text(message));
  return exit_code_;
}

int ChatSession::run() {
  if (editor_.interactive()) {
    console_.remark("type /help for commands, /quit to leave\n");
    editor_.set_history(history_.load());
  }
  bool interrupted_before = false;
  std::string line;
  while (!console_.reader_gone()) {
    const LineEvent event = editor_.read(kPrompt, line);
    if (event == LineEvent::kEndOfInput || (event == LineEvent::kInterrupted && interrupted_before)) break;
    interrupted_before = event == LineEvent::kInterrupted;
    if (interrupted_before) {
      console_.remark("press Ctrl-C again, or Ctrl-D, to leave\n");
      continue;
    }
    if (editor_.interactive()) history_.add(line);
    if (take_line(line) == Next::kLeave) break;
  }
  return exit_code_;
}

ChatSession::Next ChatSession::take_line(const std::string& line) {
  if (line.starts_with('/')) return command(line);
  const std::string message = message_of(line);
  return message.empty() ? Next::kGoOn : say(json_text(message));
}

ChatSession::Next ChatSession::command(const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string name = line.substr(0, end);
  const size_t begin = line.find_first_not_of(" \t\n", end);
  const size_t last = line.find_last_not_of(" \t\n");
  const std::string argument = begin == std::string::npos ? "" : line.substr(begin, last + 1 - begin);
  const auto* row = std::ranges::find(kRows, name, &CommandRow::name);
  if (row != std::end(kRows)) return (this->*row->run)(argument);
  return fail(make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("unknown command {}; /help lists them. To send it to the model, start the line with a space",
                  printable(name))));
}

ChatSession::Next ChatSession::fail(const Error& error) {
  const int code = console_.fail(error, json_);
  if (editor_.interactive() && !once_) return Next::kGoOn;
  exit_code_ = code;
  return Next::kLeave;
}

// ---------------------------------------------------------------- a turn

ChatSession::Next ChatSession::say(const std::string& text) {
  const CancelScope cancel;
  const QuietTerminal quiet(editor_.interactive());
  const bool is_seen = console_.output().interactive;  // where no person looks, the text goes out as it is
  MarkdownStream markdown(console_.output());
  const double start = seconds_now();
  double first = 0;
  const auto reply = conversation_.say(text, local_time_now(), [&](std::string_view piece) {
    if (first == 0) first = seconds_now();
    if (!json_) show(is_seen ? markdown.next(piece) : std::string(piece));
    return !interrupted() && !console_.reader_gone();
  });
  if (!json_) show((is_seen ? markdown.finish() : "") + "\n");
  const int signal = take_interrupt();
  const bool is_unread = !reply && reply.error().code == ErrorCode::kCancelled;
  if (!reply && !is_unread) return fail(reply.error());
  if (is_unread) console_.remark("stopped before the model had read the message; the message is dropped\n");
  else tell_answer(*reply, {start, first == 0 ? seconds_now() : first, seconds_now()});
  if (reply && json_) show(reply_json(text, *reply));
  if (signal == 0 || (signal == SIGINT && !once_)) return Next::kGoOn;
  exit_code_ = kExitInterrupted;
  return Next::kLeave;
}

std::string ChatSession::reply_json(const std::string& message, const Reply& reply) const {
  const auto end_name = [&] {
    switch (reply.end) {
      case ReplyEnd::kTurn: return "turn";
      case ReplyEnd::kMaxTokens: return "max_tokens";
      case ReplyEnd::kContextFull: return "context_full";
      case ReplyEnd::kStopped: return "interrupted";
    }
    return "turn";
  };
  JsonWriter json;
  json.begin_object();
  add_text(json, "prompt", message);
  add_text(json, "text", reply.text);
  add_text(json, "end", end_name());
  if (constraint_) json.key("complete").boolean(constraint_->accepts(reply.text));
  add_number(json, "prompt_tokens", reply.prompt_tokens);
  add_number(json, "reused_tokens", reply.reused_tokens);
  add_number(json, "written_tokens", reply.written_tokens);
  add_number(json, "left_out_messages", conversation_.left_out());
  json.key("timings").begin_object();
  json.key("prefill_ms").real(prompt_seconds_ * 1e3).key("decode_ms").real(answer_seconds_ * 1e3);
  json.end_object().end_object();
  return json.take() + '\n';
}

void ChatSession::tell_answer(const Reply& reply, const TurnTimes& times) {
  prompt_seconds_ = times.first - times.start;
  answer_seconds_ = times.end - times.first;
  last_ = reply;
  if (conversation_.left_out() > told_left_out_) {
    told_left_out_ = conversation_.left_out();
    console_.remark(
        fmt::format("the model's context of {} tokens is full: it no longer sees the first {} of the conversation "
                    "(/reset starts a new one)\n",
                    context_length_, counted(told_left_out_, "message")));
  }
  if (constraint_ && !constraint_->accepts(reply.text)) console_.remark("the answer is incomplete\n");
  if (reply.end == ReplyEnd::kMaxTokens) {
    console_.remark(
        fmt::format("stopped after {}; --max-tokens allows more\n", counted(reply.written_tokens, "token")));
  } else if (reply.end == ReplyEnd::kContextFull) {
    console_.remark(fmt::format("stopped: the model's context of {} tokens is full\n", context_length_));
  } else if (reply.end == ReplyEnd::kStopped) {
    console_.remark("stopped\n");
  }
}

// ---------------------------------------------------------------- commands

ChatSession::Next ChatSession::help(const std::string& /*argument*/) {
  std::string text;
  for (const CommandRow& row : kRows)
    text += fmt::format("{:<14} {}\n", fmt::format("{} {}", row.name, row.argument), row.what);
  show(text + "Anything else is sent to the model. To send a line that begins with /, put a space before it.\n");
  return Next::kGoOn;
}

ChatSession::Next ChatSession::reset(const std::string& /*argument*/) {
  conversation_.reset();
  told_left_out_ = 0;
  console_.remark("started a new conversation\n");
  return Next::kGoOn;
}

ChatSession::Next ChatSession::save(const std::string& argument) {
  if (argument.empty()) return fail(make_error(ErrorCode::kInvalidArgument, "/save FILE: no file name given"));
  const auto messages = conversation_.messages();
  const Status saved = write_conversation(with_home(argument), messages_to_json(messages));
  if (!saved) return fail(saved.error());
  console_.remark(fmt::format("saved {} to {}\n", counted(messages.size(), "message"), printable(argument)));
  return Next::kGoOn;
}

ChatSession::Next ChatSession::load(const std::string& argument) {
  if (argument.empty()) return fail(make_error(ErrorCode::kInvalidArgument, "/load FILE: no file name given"));
  auto messages = read_conversation(with_home(argument));
  if (!messages) return fail(messages.error());
  console_.remark(fmt::format("{} from {}\n", counted(messages->size(), "message"), printable(argument)));
  conversation_.set_messages(std::move(*messages));
  told_left_out_ = 0;
  return Next::kGoOn;
}

ChatSession::Next ChatSession::stats(const std::string& /*argument*/) {
  const auto rate = [](uint64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  const uint64_t fresh = last_.prompt_tokens - last_.reused_tokens;
  show(fmt::format(
      "messages  {}, {} out of context\n"
      "context   {} of {} tokens, {} of KV cache\n"
      "prompt    {} tokens, {} of them reused; {:.0f} tokens/s\n"
      "answer    {}, {:.1f} tokens/s\n",
      conversation_.messages().size(), conversation_.left_out(), conversation_.tokens(), context_length_,
      human_size(conversation_.cache_bytes()), last_.prompt_tokens, last_.reused_tokens, rate(fresh, prompt_seconds_),
      counted(last_.written_tokens, "token"), rate(last_.written_tokens, answer_seconds_)));
  return Next::kGoOn;
}

ChatSession::Next ChatSession::system(const std::string& argument) {
  if (const Status set = conversation_.set_system(json_text(argument)); !set) {
    console_.complain(set.error().message);
    return Next::kGoOn;
  }
  console_.remark(argument.empty() ? "no system message\n" : "the system message applies from the next message on\n");
  return Next::kGoOn;
}

ChatSession::Next ChatSession::exit(const std::string& /*argument*/) { return Next::kLeave; }

}  // namespace ballast::cli
