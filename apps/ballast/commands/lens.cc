// `ballast lens`: the page Ballast Lens, and local files for it to look into.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/server/http_server.h"
#include "apps/ballast/server/lens_site.h"
#include "apps/ballast/server/secret.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/human_size.h"
#include "ballast/base/version.h"

extern char** environ;

namespace ballast::cli {

namespace {

// One person's browser opens six connections to a host, and a few tabs are enough.
constexpr uint64_t kLensConnections = 128;

struct LensFlags {
  std::vector<std::string> paths;
  std::string listen = "127.0.0.1:0";
  bool open = false;
};

// ---------------------------------------------------------------- listening

Error not_loopback(const std::string& text) {
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("--listen {}: files are for browsers on this machine alone: choose localhost, 127.0.0.1 "
                  "or [::1], with a port (0: any free one)",
                  text));
}

Result<std::vector<Listener>> open_loopback(const std::string& text) {
  BALLAST_TRY(const ListenAddress address, parse_listen_address(text));
  if (address.host.empty()) return not_loopback(text);  // unix:PATH, which no browser opens
  BALLAST_TRY(std::vector<Listener> listeners, open_listeners(address));
  if (std::ranges::all_of(listeners, &Listener::is_loopback)) return listeners;
  for (Listener& listener : listeners) close_listener(listener);
  return not_loopback(text);
}

// What is neither the page's nor a file's: whether only the secret was wrong is not told.
class NothingThere final : public serve::Answerer {
 public:
  std::function<void()> answer(serve::HttpRequest /*request*/, std::shared_ptr<serve::AnswerSink> sink) override {
    sink->send({.status = 404, .content_type = "text/plain; charset=utf-8", .body = "not found\n"});
    return {};
  }
};

// ---------------------------------------------------------------- the browser

// Without a shell, and without an eye on its words: desktop programs are talkative.
Result<pid_t> start_browser(const std::string& url) {
  posix_spawn_file_actions_t files = {};
  ::posix_spawn_file_actions_init(&files);
  for (const int fd : {0, 1, 2}) ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  // The program ignores some signals, which children would go on doing.
  posix_spawnattr_t attributes = {};
  ::posix_spawnattr_init(&attributes);
  sigset_t restored = {};
  ::sigemptyset(&restored);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&restored, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &restored);
  // A group of its own: Ctrl-C ends this program, not the browser.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string program = "xdg-open", argument = url;
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, program.c_str(), &files, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (failure == 0) return child;
  return make_error(ErrorCode::kNotFound, std::strerror(failure));
}

// Opens an address, and tells where that fails. xdg-open may run as long as the browser does, which nobody waits for:
// only a thread is left behind, which keeps quiet once this is gone.
class BrowserStart {
 public:
  explicit BrowserStart(Console& console) : shared_(std::make_shared<Shared>()) { shared_->console = &console; }
  ~BrowserStart() {
    const std::lock_guard lock(shared_->mutex);
    shared_->console = nullptr;
  }
  BrowserStart(const BrowserStart&) = delete;
  BrowserStart& operator=(const BrowserStart&) = delete;

  void open(const std::string& url) {
    const auto child = start_browser(url);
    if (!child) return shared_->complain(child.error().message);
    std::thread([shared = shared_, child = *child] {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      if (status != 0) shared->complain("it did not find one that starts");
    }).detach();
  }

 private:
  struct Shared {
    void complain(std::string_view why) {
      const std::lock_guard lock(mutex);
      if (console == nullptr) return;
      console->complain(fmt::format("cannot open a browser with xdg-open: {}; open the address above yourself", why));
    }
    std::mutex mutex;
    Console* console = nullptr;
  };
  std::shared_ptr<Shared> shared_;
};

// ---------------------------------------------------------------- running

std::string start_note(const LensFiles& found) {
  uint64_t bytes = 0;
  for (const LensFile& file : found.files) bytes += file.bytes;
  std::string text = fmt::format("ballast {} shows the page Ballast Lens", version());
  if (!found.files.empty())
    text += fmt::format(" with {} ({})", counted(found.files.size(), "file"), human_size(bytes));
  text += "; Ctrl-C ends it\n";
  if (found.links_left_out > 0)
    text +=
        fmt::format("note: left out {} to files outside the folder\n", counted(found.links_left_out, "symbolic link"));
  return text;
}

Result<int> run_lens(const LensFlags& flags, Console& console) {
  for (const std::string& path : flags.paths) {
    if (path == "-")
      return make_error(ErrorCode::kInvalidArgument,
                        "-: the page reads files piece by piece, which standard input is not: save it to a file first");
  }
  BALLAST_TRY(LensFiles found, find_lens_files(flags.paths));
  BALLAST_TRY(const std::string secret, make_secret());
  std::string ticket;
  if (flags.open) BALLAST_CHECK(assign(ticket, make_secret()));
  BALLAST_TRY(std::vector<Listener> listeners, open_loopback(flags.listen));
  const std::string address = listeners.front().name;
  const std::string note = start_note(found);
  ServerOptions options;
  options.limits.connections = kLensConnections;
  options.gate = {.port = port_of(listeners.front()), .methods = {"GET", "HEAD"}, .has_flags = false};
  options.site = make_lens_site({.page = lens_page_files(),
                                 .secret = secret,
                                 .ticket = ticket,
                                 .files = std::move(found.files),
                                 .complain = [&](std::string_view text) { console.complain(text); }});
  HttpServer server(std::move(options));
  Status status;
  for (Listener& listener : listeners) {
    if (status) status = server.add(std::move(listener), HostRule::kLoopback);
    else close_listener(listener);
  }
  BALLAST_CHECK(status);
  NothingThere nothing;
  BrowserStart browser(console);
  ServerHooks hooks;
  hooks.on_start = [&] {
    console.out() += fmt::format("{}/{}/\n", address, secret);
    console.remark(note);
    console.flush();
    if (flags.open) browser.open(fmt::format("{}/{}", address, ticket));
  };
  // Nothing is lost: a page asks again for what it did not get.
  hooks.on_drain = hooks.on_reload = [&] { server.stop(); };
  server.run(nothing, std::move(hooks));
  return kExitYes;
}

constexpr const char* kLensFooter =
    "Prints the address of the page and serves it until Ctrl-C. The address holds a secret: whoever knows it can read\n"
    "the files that you gave, and nothing else. Only this machine can connect; nothing is uploaded.\n"
    "\n"
    "PATH is a file, with the shards of an index and the other half of a pair; or a folder, with all files in it but\n"
    "hidden ones and links that lead outside. The page reads only the parts that it shows.\n"
    "\n"
    "On another machine, run `ballast lens --listen 9000 PATH` in `ssh -t -L 9000:127.0.0.1:9000 HOST`.\n"
    "\n"
    "Examples:\n"
    "  ballast lens\n"
    "  ballast lens model.gguf --open\n"
    "  ballast lens before.npz after.npz\n"
    "  ballast lens checkpoints/\n";

}  // namespace

RunCommand add_lens(CLI::App& program, Console& console) {
  Command command(program, "lens", "Look inside weight files in the browser: the page Ballast Lens");
  auto flags = std::make_shared<LensFlags>();
  command.optional_paths("PATH", flags->paths, "Files and folders to open; without any, choose files in the page")
      .or_model();
  command.text("--listen", "ADDRESS", flags->listen,
               "HOST:PORT or PORT, on this machine (127.0.0.1:0); port 0: any free");
  command.flag("--open", flags->open, "Open the page in the browser, with xdg-open");
  command.footer(kLensFooter);
  return [flags, &console] {
    const auto code = run_lens(*flags, console);
    return code ? *code : console.fail(code.error());
  };
}

bool is_available(AddCommand command) { return command != add_lens || !lens_page_files().empty(); }

}  // namespace ballast::cli
