// What was typed in earlier conversations, for the up arrow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::cli {

// A file that only its owner can read, one entry a line. Keeping a history is a courtesy: where it cannot be read or
// written, there is none.
class ChatHistory {
 public:
  // $XDG_STATE_HOME/ballast/history, or ~/.local/state/ballast/history; without either variable nothing is kept.
  static ChatHistory of_user();
  explicit ChatHistory(std::string path) : path_(std::move(path)) {}

  // The newest last. Cuts a file that has grown too long.
  std::vector<std::string> load() const;
  void add(std::string_view entry) const;

 private:
  std::string path_;  // empty: nowhere
};

}  // namespace ballast::cli
