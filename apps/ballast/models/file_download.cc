#include "apps/ballast/models/file_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "ballast/io/file_system.h"

namespace ballast::cli {

namespace {

constexpr size_t kReadPiece = size_t{1} << 20;

// The unfinished file: bytes are appended and digested as they come.
class DownloadBody final : public ResumableBody {
 public:
  DownloadBody(const FileDownload& download, const Progress& progress)
      : download_(download), progress_(progress), total_(download.bytes) {}

  Status open() {
    file_ = OwnedFd(files_, ::open(download_.unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file_.is_open()) return path_error(download_.unfinished, "open it", errno);
    struct stat status = {};
    if (files_.stat_open(file_.get(), &status) != 0) return failed("look at it");
    const auto there = static_cast<uint64_t>(status.st_size);
    // Without a size nobody can tell whether what is there belongs to this file.
    if (!S_ISREG(status.st_mode) || !total_ || there > *total_) return restart();
    return take_what_is_there(there);
  }

  uint64_t received() const override { return received_; }
  bool was_resumed() const { return was_resumed_; }

  Status restart() override {
    if (files_.truncate(file_.get(), 0) != 0) return failed("empty it");
    received_ = 0;
    was_resumed_ = false;
    digester_.emplace(download_.digest, total_.value_or(0));
    return {};
  }

  Status begin(const HttpHead& head) override {
    const std::optional<uint64_t> length = head.number("content-length");
    if (head.status == 206) return check_range(head.header("content-range"));
    // All of it, although a part was asked for.
    if (!total_) total_ = length;
    BALLAST_CHECK(restart());
    if (length && total_ && *length != *total_) return wrong_size(*length);
    return {};
  }

  Status write(ByteSpan bytes) override {
    if (total_ && bytes.size() > *total_ - received_) return wrong_size(received_ + bytes.size());
    digester_->update(bytes);
    while (!bytes.empty()) {
      const ssize_t count = files_.write_at(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(received_));
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = ENOSPC;
      if (count <= 0) return failed("write it");
      received_ += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return tell();
  }

  // Whole and right, or kCorrupt.
  Status finish() {
    if (total_ && received_ != *total_) return wrong_size(received_);
    BALLAST_CHECK(digester_->finish(download_.name));
    if (files_.sync(file_.get()) != 0) return failed("sync it");
    file_.reset();
    if (std::rename(download_.unfinished.c_str(), download_.finished.c_str()) != 0) return failed("rename it");
    return {};
  }

 private:
  Error failed(std::string_view action) const { return io_error(download_.unfinished, action, errno); }
  Error wrong_size(uint64_t found) const {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: has {} bytes, not {}", download_.name, found, total_.value_or(0)));
  }
  Status tell() const {
    return report_progress(progress_, {.activity = "downloading", .done = received_, .total = total_.value_or(0)});
  }

  Status take_what_is_there(uint64_t there) {
    digester_.emplace(download_.digest, total_.value_or(0));
    ByteVector buffer(static_cast<size_t>(std::min<uint64_t>(there, kReadPiece)));
    while (received_ < there) {
      const size_t wanted = static_cast<size_t>(std::min<uint64_t>(there - received_, kReadPiece));
      const ssize_t count = files_.read_at(file_.get(), buffer.data(), wanted, static_cast<off_t>(received_));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failed("read it");
      digester_->update(ByteSpan(buffer).first(static_cast<size_t>(count)));
      received_ += static_cast<uint64_t>(count);
      BALLAST_CHECK(tell());
    }
    was_resumed_ = there > 0;
    return {};
  }

  // "bytes 100-199/200" must go on where we are.
  Status check_range(std::string_view range) const {
    const std::string begin = fmt::format("bytes {}-", received_);
    const std::string end = fmt::format("/{}", total_.value_or(0));
    if (range.starts_with(begin) && (range.ends_with(end) || range.ends_with("/*"))) return {};
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: the server sent part \"{}\" instead of \"{}\" of {}",
                                                       download_.name, range, begin, total_.value_or(0)));
  }

  const FileDownload& download_;
  const Progress& progress_;
  const FileSystem& files_ = os_file_system();
  OwnedFd file_;
  std::optional<uint64_t> total_;
  std::optional<FileDigester> digester_;
  uint64_t received_ = 0;
  bool was_resumed_ = false;
};

Status download_once(HttpSession& session, const FileDownload& download, DownloadBody& body) {
  BALLAST_CHECK(body.open());
  if (!download.bytes || body.received() < *download.bytes) {
    BALLAST_TRY(const HttpAnswer answer, session.get(download.url, body));
    if (answer.head.status < 200 || answer.head.status > 299) return download.refusal(answer.head);
  }
  return body.finish();
}

}  // namespace

Result<uint64_t> download_file(HttpSession& session, const FileDownload& download, const Progress& progress) {
  for (;;) {
    DownloadBody body(download, progress);
    const Status done = download_once(session, download, body);
    if (done) return body.received();
    const bool is_wrong = done.error().code == ErrorCode::kCorrupt;
    if (is_wrong || body.received() == 0) std::remove(download.unfinished.c_str());
    if (!is_wrong) return done.error();
    // What an earlier attempt left may have been the part that was wrong.
    if (body.was_resumed()) continue;
    return make_error(ErrorCode::kCorrupt, done.error().message + "; the partial download was removed");
  }
}

}  // namespace ballast::cli
