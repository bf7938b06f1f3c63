// The conversation at the terminal: what is typed, what is shown, what the commands do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/ballast/commands/chat_history.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/line_editor.h"
#include "ballast/text/constraint.h"
#include "ballast/text/conversation.h"

namespace ballast::cli {

class ChatSession {
 public:
  // `context_length`: of the model, for /stats. `constraint`: what answers follow. `json`: each answer is an object in
  // a line of its own. The references must outlive the session.
  ChatSession(Console& console, Conversation& conversation, uint64_t context_length,
              std::optional<Constraint> constraint, bool json)
      : console_(console),
        conversation_(conversation),
        context_length_(context_length),
        constraint_(std::move(constraint)),
        json_(json) {}

  // Until the user leaves or the input ends; the exit code of the command.
  int run();
  // One message and its answer.
  int run_once(const std::string& message);

 private:
  enum class Next : unsigned char { kGoOn, kLeave };
  struct CommandRow;
  struct TurnTimes {
    double start, first, end;  // when it was asked, when the first piece of the answer came, and the last
  };

  Next take_line(const std::string& line);
  Next command(const std::string& line);
  Next say(const std::string& text);
  void tell_answer(const Reply& reply, const TurnTimes& times);
  // What failed, to the user; from a pipe it also ends the program.
  Next fail(const Error& error);
  void show(std::string_view text);
  std::string reply_json(const std::string& message, const Reply& reply) const;

  Next help(const std::string& argument);
  Next reset(const std::string& argument);
  Next save(const std::string& argument);
  Next load(const std::string& argument);
  Next stats(const std::string& argument);
  Next system(const std::string& argument);
  Next exit(const std::string& argument);

  static const CommandRow kRows[];

  Console& console_;
  Conversation& conversation_;
  uint64_t context_length_;
  std::optional<Constraint> constraint_;
  bool json_;
  bool once_ = false;
  LineEditor editor_;
  ChatHistory history_ = ChatHistory::of_user();
  Reply last_;
  double prompt_seconds_ = 0;  // of the last answer: until its first token, and behind it
  double answer_seconds_ = 0;
  size_t told_left_out_ = 0;
  int exit_code_ = kExitYes;
};

}  // namespace ballast::cli
