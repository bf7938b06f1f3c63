#include "ballast/io/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/hash.h"
#include "ballast/io/signal_table.h"

namespace ballast {

namespace {

constexpr std::string_view kSuffix = ".ballast-tmp";
// Names may have 255 bytes; process, ticket and suffix take up to 50 of them.
constexpr size_t kMaxStem = 200;

// The part of a temporary's name that says whose it is.
std::string stem_of(std::string_view file_name) {
  if (file_name.size() <= kMaxStem) return std::string(file_name);
  const Digest digest = blake3(as_bytes(file_name));
  return fmt::format("{}~{}", file_name.substr(0, kMaxStem - 17), to_hex(ByteSpan(digest).first(8)));
}

bool is_number_pair(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  const auto is_number = [](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
  };
  return is_number(text.substr(0, dash)) && is_number(text.substr(dash + 1));
}

std::vector<std::string> remove_stale(const FileSystem& files, int folder,
                                      const std::function<bool(std::string_view)>& chosen) {
  std::vector<std::string> candidates;
  files.list(folder, [&](std::string_view name) {
    if (chosen(name)) candidates.emplace_back(name);
  });
  std::erase_if(candidates, [&](const std::string& name) {
    // Writable, because some network file systems lock only what is; never through a link.
    const OwnedFd fd(files, files.open_at(folder, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0));
    if (!fd.is_open() || files.lock(fd.get()) != 0) return true;
    // Had its writer renamed it meanwhile, nothing of this name would be there: names are never used again.
    return files.unlink_at(folder, name.c_str()) != 0;
  });
  return candidates;
}

}  // namespace

std::string temporary_name(std::string_view file_name, int64_t process, uint64_t ticket) {
  return fmt::format(".{}.{}-{}{}", stem_of(file_name), process, ticket, kSuffix);
}

bool is_temporary_of(std::string_view name, std::string_view file_name) {
  const std::string prefix = fmt::format(".{}.", stem_of(file_name));
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) return false;
  if (name.size() < prefix.size() + kSuffix.size()) return false;
  // Nothing but two numbers between: "a" must not claim the temporaries of "a.b".
  return is_number_pair(name.substr(prefix.size(), name.size() - prefix.size() - kSuffix.size()));
}

bool is_temporary(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && is_number_pair(name.substr(dot + 1));
}

std::string_view owner_of_temporary(std::string_view name) {
  name.remove_prefix(1);
  name.remove_suffix(kSuffix.size());
  return name.substr(0, name.rfind('.'));
}

void remove_stale_temporaries(const FileSystem& files, int folder, std::string_view file_name) {
  remove_stale(files, folder, [&](std::string_view name) { return is_temporary_of(name, file_name); });
}

std::vector<std::string> remove_stale_temporaries(const FileSystem& files, int folder) {
  return remove_stale(files, folder, is_temporary);
}

TemporaryFile::TemporaryFile(const FileSystem& files, std::shared_ptr<const Folder> folder, std::string name)
    : files_(files), folder_(std::move(folder)), name_(std::move(name)) {}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : files_(other.files_),
      folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      fd_(std::move(other.fd_)),
      signal_slot_(std::exchange(other.signal_slot_, -1)),
      exists_(std::exchange(other.exists_, false)) {}

Result<TemporaryFile> TemporaryFile::create(const FileSystem& files, std::shared_ptr<const Folder> folder,
                                            std::string_view file_name, mode_t mode, const std::string& path) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto ticket = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    TemporaryFile file(files, folder, temporary_name(file_name, ::getpid(), ticket));
    const int error_number = file.open_and_lock(mode);
    if (error_number == 0) return file;
    if (error_number != EEXIST) return path_error(path, "create a file in its folder", error_number);
  }
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot create a file in its folder: another program keeps taking "
                                                "or removing the temporary files",
                                                path));
}

// 0, an errno, or EEXIST when another name is to be tried.
int TemporaryFile::open_and_lock(mode_t mode) {
  // Entered first: a signal in between then finds nothing, instead of missing a file that is there.
  signal_slot_ = enter_signal_table(folder_->fd.get(), name_);
  fd_ = OwnedFd(files_, files_.open_at(folder_->fd.get(), name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  if (!fd_.is_open()) {
    const int error_number = errno;
    forget();
    return error_number;
  }
  exists_ = true;
  // Another writer that tidies up can come between creation and lock, take the file for stale and remove it. A file
  // system without locks is no hindrance: nobody can take the file for stale there.
  const bool taken = files_.lock(fd_.get()) != 0 && errno == EWOULDBLOCK;
  return taken || !is_same_file(files_, folder_->fd.get(), name_.c_str(), fd_.get()) ? EEXIST : 0;
}

int TemporaryFile::publish(const std::string& file_name, bool replace) {
  if (!replace) return publish_new(file_name);
  if (files_.rename_at(folder_->fd.get(), name_.c_str(), file_name.c_str()) != 0) return errno;
  exists_ = false;
  forget();
  return 0;
}

int TemporaryFile::publish_new(const std::string& file_name) {
  if (files_.rename_new_at(folder_->fd.get(), name_.c_str(), file_name.c_str()) == 0) {
    exists_ = false;
    forget();
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
  // Network file systems cannot rename that way, but a link never replaces anything either.
  if (files_.link_at(folder_->fd.get(), name_.c_str(), file_name.c_str()) != 0) return errno;
  remove();
  return 0;
}

void TemporaryFile::remove() {
  if (exists_ && files_.unlink_at(folder_->fd.get(), name_.c_str()) == 0) exists_ = false;
  if (!exists_) forget();
}

void TemporaryFile::forget() { leave_signal_table(std::exchange(signal_slot_, -1)); }

}  // namespace ballast
