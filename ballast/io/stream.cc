#include "ballast/io/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "ballast/io/file_source.h"

namespace ballast {

namespace {

constexpr size_t kPiece = size_t{1} << 20;

// Where the file system has no files without names, one is made and loses its name at once.
int create_and_unlink(const FileSystem& files, const std::string& folder) {
  static std::atomic<uint64_t> ticket{0};
  const OwnedFd place(files, files.open_at(AT_FDCWD, folder.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (!place.is_open()) return -1;
  for (int tries = 0; tries < 100; ++tries) {
    const std::string name = fmt::format(".ballast-spool-{}-{}", ::getpid(), ticket.fetch_add(1));
    const int fd = files.open_at(place.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd >= 0) files.unlink_at(place.get(), name.c_str());
    return fd;
  }
  return -1;
}

int create_nameless(const FileSystem& files, const std::string& folder) {
#ifdef O_TMPFILE
  const int fd = files.open_at(AT_FDCWD, folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL, 0600);
  if (fd >= 0) return fd;
#endif
  return create_and_unlink(files, folder);
}

// A regular file of which nothing was read yet; nullptr for anything else.
std::shared_ptr<const ByteSource> as_regular_file(const FileSystem& files, int fd, const std::string& name,
                                                  FileAccess access) {
  struct stat info {};
  if (files.stat_open(fd, &info) != 0 || !S_ISREG(info.st_mode) || files.position(fd) != 0) return nullptr;
  OwnedFd own(files, files.duplicate(fd));
  if (!own.is_open()) return nullptr;
  return make_file_source(files, name, std::move(own), static_cast<uint64_t>(info.st_size), access);
}

}  // namespace

// ---------------------------------------------------------------- files without names

SpoolFile::SpoolFile(const FileSystem& files, OwnedFd fd, const std::string& shown)
    : files_(&files),
      fd_(std::move(fd)),
      sink_(std::make_unique<FileSink>(files, fd_.get(), shown, /*write_back_early=*/false)) {}

Result<SpoolFile> SpoolFile::create(const std::string& folder, const FileSystem* files) {
  const FileSystem& system = files != nullptr ? *files : os_file_system();
  OwnedFd fd(system, create_nameless(system, folder));
  if (!fd.is_open()) return path_error(folder, "create a temporary file in it", errno);
  return SpoolFile(system, std::move(fd), "temporary file in " + folder);
}

Result<std::shared_ptr<const ByteSource>> SpoolFile::to_source(const std::string& name, FileAccess access) && {
  BALLAST_CHECK(sink_->flush());
  return make_file_source(*files_, name, std::move(fd_), sink_->position(), access);
}

// ---------------------------------------------------------------- reading

Result<std::shared_ptr<const ByteSource>> open_stream(int fd, const std::string& name, const std::string& folder,
                                                      FileAccess access, const FileSystem* files) {
  const FileSystem& system = files != nullptr ? *files : os_file_system();
  if (auto file = as_regular_file(system, fd, name, access)) return file;
  BALLAST_TRY(SpoolFile spool, SpoolFile::create(folder, files));
  ByteVector piece(kPiece);
  for (;;) {
    const ssize_t got = system.read_next(fd, piece.data(), piece.size());
    if (got < 0) return io_error(name, "read", errno);
    if (got == 0) break;
    BALLAST_CHECK(spool.sink().write(ByteSpan(piece).first(static_cast<size_t>(got))));
  }
  return std::move(spool).to_source(name, access);
}

// ---------------------------------------------------------------- writing

PipeSink::PipeSink(int fd, std::string name, const FileSystem* files)
    : files_(files != nullptr ? *files : os_file_system()), fd_(fd), name_(std::move(name)) {}

Status PipeSink::write(ByteSpan bytes) {
  constexpr size_t kGathered = size_t{64} << 10;  // what a pipe holds
  if (failure_) return *failure_;
  position_ += bytes.size();
  if (gathered_.size() + bytes.size() > kGathered) BALLAST_CHECK(flush());
  if (bytes.size() >= kGathered) return send(bytes);
  gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  return {};
}

Status PipeSink::patch(uint64_t offset, ByteSpan) {
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: byte {} is on its way already and cannot be replaced", name_, offset));
}

Status PipeSink::flush() {
  if (failure_) return *failure_;
  BALLAST_CHECK(send(gathered_));
  gathered_.clear();
  return {};
}

Status PipeSink::send(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t done = files_.write_next(fd_, bytes.data(), bytes.size());
    if (done <= 0) {
      reader_is_gone_ = done < 0 && errno == EPIPE;
      failure_ = io_error(name_, "write", done < 0 ? errno : EIO);
      return *failure_;
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return {};
}

Status copy_source(const ByteSource& source, ByteSink& sink) {
  ByteVector piece(static_cast<size_t>(std::min<uint64_t>(kPiece, source.size())));
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    const auto now = static_cast<size_t>(std::min<uint64_t>(piece.size(), source.size() - at));
    BALLAST_CHECK(source.read_at(at, MutableByteSpan(piece).first(now)));
    BALLAST_CHECK(sink.write(ByteSpan(piece).first(now)));
  }
  return {};
}

}  // namespace ballast
