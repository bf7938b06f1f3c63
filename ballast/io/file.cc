#include "ballast/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "ballast/base/checked.h"
#include "ballast/io/file_source.h"

namespace ballast {

namespace {

// Calls `ask` for each mebibyte of [offset, offset + length) of which `is_there` does not know that its first and its
// last byte are in memory: asking again for what is there costs a search through all its pages.
void prefetch_in_steps(uint64_t offset, uint64_t length, uint64_t size, auto&& is_there, auto&& ask) {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  if (offset >= size) return;
  const uint64_t end = offset + std::min(length, size - offset);
  while (offset < end) {
    const uint64_t now = std::min(end - offset, kStep - offset % kStep);
    if (!is_there(offset) || !is_there(offset + now - 1)) ask(offset, now);
    offset += now;
  }
}

class MappedSource final : public ByteSource {
 public:
  // Check is_mapped() before anything else.
  MappedSource(const FileSystem& files, std::string name, int fd, size_t size, FileAccess access)
      : files_(files),
        name_(std::move(name)),
        address_(static_cast<std::byte*>(access == FileAccess::kCopyOnWrite ? files.map_private(fd, size)
                                                                            : files.map(fd, size))),
        size_(size) {}
  ~MappedSource() override {
    if (is_mapped()) files_.unmap(address_, size_);
  }
  MappedSource(const MappedSource&) = delete;
  MappedSource& operator=(const MappedSource&) = delete;

  bool is_mapped() const { return address_ != nullptr; }

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    const auto from = view(offset, out.size());
    if (!from) return past_the_end(*this, offset, out.size());
    if (!out.empty()) std::memcpy(out.data(), from->data(), out.size());
    return {};
  }

  std::optional<ByteSpan> view(uint64_t offset, uint64_t length) const override {
    if (!range_fits(offset, length, size_)) return std::nullopt;
    return ByteSpan(address_ + offset, static_cast<size_t>(length));
  }

  // A file that was cut short has lost its end, so the last page tells about all of them.
  Status check(uint64_t offset, uint64_t length) const override {
    if (!range_fits(offset, length, size_) || length == 0) return {};
    if (files_.check_mapped(address_ + page_start(offset + length - 1)) == 0 || errno != EFAULT) return {};
    return make_error(ErrorCode::kIo, fmt::format("{}: bytes up to {} can no longer be read; another program truncated "
                                                  "the file after it was opened",
                                                  name_, offset + length));
  }

  void prefetch(uint64_t offset, uint64_t length) const override {
    const auto page_of = [this](uint64_t at) { return address_ + page_start(at); };
    prefetch_in_steps(
        offset, length, size_, [&](uint64_t at) { return files_.is_resident(page_of(at)); },
        [&](uint64_t at, uint64_t count) {
          files_.prefetch_mapped(page_of(at), static_cast<size_t>(at - page_start(at) + count));
        });
  }

 private:
  static uint64_t page_start(uint64_t offset) {
    static const auto kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return offset - offset % kPage;
  }

  const FileSystem& files_;
  std::string name_;
  std::byte* address_;
  size_t size_;
};

class PositionalSource final : public ByteSource {
 public:
  PositionalSource(const FileSystem& files, std::string name, OwnedFd fd, uint64_t size)
      : files_(files), name_(std::move(name)), fd_(std::move(fd)), size_(size) {}

  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }

  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    if (!range_fits(offset, out.size(), size_)) return past_the_end(*this, offset, out.size());
    while (!out.empty()) {
      const ssize_t got = files_.read_at(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return io_error(name_, fmt::format("read {} bytes at offset {}", out.size(), offset), errno);
      if (got == 0) return has_shrunk();
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

  void prefetch(uint64_t offset, uint64_t length) const override {
    prefetch_in_steps(
        offset, length, size_, [&](uint64_t at) { return files_.is_cached(fd_.get(), static_cast<off_t>(at)); },
        [&](uint64_t at, uint64_t count) {
          files_.prefetch_file(fd_.get(), static_cast<off_t>(at), static_cast<off_t>(count));
        });
  }

 private:
  Error has_shrunk() const {
    struct stat now {};
    if (files_.stat_open(fd_.get(), &now) != 0) return io_error(name_, "read", errno);
    return make_error(ErrorCode::kIo, fmt::format("{}: had {} bytes when it was opened and has {} now; another program "
                                                  "truncated it while it was being read",
                                                  name_, size_, now.st_size));
  }

  const FileSystem& files_;
  std::string name_;
  OwnedFd fd_;
  uint64_t size_;
};

Status check_regular(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: is {}; only regular files can be read", path, describe_file_type(info.st_mode)));
}

struct OpenedFile {
  OwnedFd fd;
  uint64_t size;
};

Result<OpenedFile> open_regular(const FileSystem& files, const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: a path cannot hold a zero byte", path.c_str()));
  }
  struct stat info {};
  // Asked before opening, because opening a device can do things; asked again after, because the path may have changed.
  if (files.stat_at(AT_FDCWD, path.c_str(), 0, &info) != 0) return path_error(path, "open", errno);
  BALLAST_CHECK(check_regular(path, info));
  OwnedFd fd(files, files.open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY, 0));
  if (!fd.is_open()) return path_error(path, "open", errno);
  if (files.stat_open(fd.get(), &info) != 0) return io_error(path, "ask for its size", errno);
  BALLAST_CHECK(check_regular(path, info));
  return OpenedFile{std::move(fd), static_cast<uint64_t>(info.st_size)};
}

class FolderSiblings final : public SiblingOpener {
 public:
  FolderSiblings(const std::string& path, FileAccess access) : path_(path), access_(access) {}

  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view file_name) override {
    constexpr std::string_view kForbidden("/\\\0", 3);
    if (file_name.empty() || file_name == "." || file_name == ".." ||
        file_name.find_first_of(kForbidden) != std::string_view::npos) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("{}: names the file \"{}\", which is not a plain file name; an archive must not "
                                    "reach outside its folder",
                                    path_, file_name));
    }
    return open_file(path_beside(path_, file_name), access_);
  }

 private:
  std::string path_;
  FileAccess access_;
};

}  // namespace

Result<std::shared_ptr<const ByteSource>> open_file(const std::string& path, FileAccess access,
                                                    const FileSystem* files) {
  const FileSystem& system = files != nullptr ? *files : os_file_system();
  BALLAST_TRY(OpenedFile opened, open_regular(system, path));
  return make_file_source(system, path, std::move(opened.fd), opened.size, access);
}

std::shared_ptr<const ByteSource> make_file_source(const FileSystem& files, const std::string& name, OwnedFd fd,
                                                   uint64_t size, FileAccess access) {
  const bool maps = access != FileAccess::kPositional;
  if (maps && size == 0) return MemorySource::owning({}, name);
  if (maps && size <= std::numeric_limits<size_t>::max()) {
    auto mapped = std::make_shared<MappedSource>(files, name, fd.get(), static_cast<size_t>(size), access);
    // The descriptor is closed: an archive of many shards must not use them up.
    if (mapped->is_mapped()) return mapped;
  }
  return std::make_shared<PositionalSource>(files, name, std::move(fd), size);
}

std::unique_ptr<SiblingOpener> make_folder_siblings(const std::string& path, FileAccess access) {
  return std::make_unique<FolderSiblings>(path, access);
}

}  // namespace ballast
