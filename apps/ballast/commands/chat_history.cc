#include "apps/ballast/commands/chat_history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"
#include "ballast/io/file.h"
#include "ballast/io/file_system.h"

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 1000;
constexpr size_t kLongestEntry = 16 << 10;
constexpr uint64_t kLargestFile = 8 << 20;
constexpr mode_t kPrivateFile = 0600, kPrivateFolder = 0700;

// Line breaks and backslashes, so that an entry is one line.
std::string to_line(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') line += "\\\\";
    else if (c == '\n') line += "\\n";
    else line += c;
  }
  return line + '\n';
}

std::string from_line(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escaped = line[i] == '\\' && i + 1 < line.size();
    if (escaped) ++i;
    entry += escaped && line[i] == 'n' ? '\n' : line[i];
  }
  return entry;
}

void write_private(const std::string& path, int flags, std::string_view text) {
  const OwnedFd file(os_file_system(),
                     ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, kPrivateFile));
  if (!file.is_open() || ::fchmod(file.get(), kPrivateFile) != 0) return;
  [[maybe_unused]] const ssize_t ignored = ::write(file.get(), text.data(), text.size());
}

}  // namespace

ChatHistory ChatHistory::of_user() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return ChatHistory((fs::path(state) / "ballast/history").string());
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return ChatHistory((fs::path(home) / ".local/state/ballast/history").string());
  return ChatHistory("");
}

std::vector<std::string> ChatHistory::load() const {
  std::vector<std::string> entries;
  if (path_.empty()) return entries;
  const auto source = open_file(path_, FileAccess::kPositional);
  if (!source || (*source)->size() > kLargestFile) return entries;
  const auto bytes = read_bytes(**source, 0, (*source)->size());
  if (!bytes) return entries;
  for (const std::string_view line : lines_of(as_text(*bytes))) {
    if (is_valid_utf8(line) && !line.empty()) entries.push_back(from_line(line));
  }
  if (entries.size() <= kMostEntries) return entries;
  entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(kMostEntries));
  std::string text;
  for (const std::string& entry : entries) text += to_line(entry);
  const std::string fresh = fmt::format("{}.{}", path_, ::getpid());
  write_private(fresh, O_EXCL, text);
  if (std::rename(fresh.c_str(), path_.c_str()) != 0) ::unlink(fresh.c_str());
  return entries;
}

void ChatHistory::add(std::string_view entry) const {
  if (path_.empty() || entry.empty() || entry.size() > kLongestEntry) return;
  const fs::path folder = fs::path(path_).parent_path();
  std::error_code ignored;
  fs::create_directories(folder.parent_path(), ignored);
  ::mkdir(folder.c_str(), kPrivateFolder);
  // One call of a few bytes at the end: two conversations at once leave whole lines.
  write_private(path_, O_APPEND, to_line(entry));
}

}  // namespace ballast::cli
