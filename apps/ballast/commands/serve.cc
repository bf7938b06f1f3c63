// `ballast serve`: models behind an address.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <thread>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/serve_flags.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/seconds_now.h"
#include "apps/ballast/server/page_files.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/version.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kDefaultAddress = "127.0.0.1:8080";
// Descriptors besides those of connections within the limit: connections beyond it, then models, listeners and standard
// streams. Without them a flood of connections would keep models from being loaded.
constexpr uint64_t kOtherFiles = kMostExtraConnections + 64;

// ---------------------------------------------------------------- listening

// `name`: what the user called the address. The port of a listener may be a random one, which says nothing to them.
Status check_exposure(const Listener& listener, std::string_view name, const ServeFlags& flags, bool has_keys) {
  if (listener.is_loopback || listener.is_unix || has_keys || flags.no_auth) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: other machines could use the model; give API keys with --api-key-file FILE or "
                                "BALLAST_API_KEY, or let everybody in with --no-auth",
                                printable(name)));
}

// Sockets of a service manager, unless addresses are given. What was opened before an error is in `listeners`.
Status open_all(const ServeFlags& flags, bool has_keys, std::vector<Listener>& listeners) {
  BALLAST_CHECK(assign(listeners, inherited_listeners()));
  for (const Listener& listener : listeners) BALLAST_CHECK(check_exposure(listener, listener.name, flags, has_keys));
  std::vector<std::string> addresses = flags.listen;
  if (addresses.empty() && listeners.empty()) addresses.emplace_back(kDefaultAddress);
  for (const std::string& text : addresses) {
    BALLAST_TRY(const ListenAddress address, parse_listen_address(text));
    BALLAST_TRY(std::vector<Listener> opened, open_listeners(address));
    const auto first = static_cast<std::ptrdiff_t>(listeners.size());
    std::ranges::move(opened, std::back_inserter(listeners));
    for (const Listener& listener : listeners | std::views::drop(first))
      BALLAST_CHECK(check_exposure(listener, "--listen " + text, flags, has_keys));
  }
  return {};
}

HostRule host_rule(const Listener& listener, const ServeFlags& flags, bool has_keys) {
  if (listener.is_unix) return HostRule::kAny;
  if (listener.is_loopback) return HostRule::kLoopback;
  return has_keys && flags.hosts.empty() ? HostRule::kAny : HostRule::kAddresses;
}

// Gives the names of the addresses.
Result<std::vector<std::string>> start_listening(HttpServer& server, const ServeFlags& flags, bool has_keys) {
  std::vector<Listener> listeners;
  Status status = open_all(flags, has_keys, listeners);
  std::vector<std::string> names;
  for (Listener& listener : listeners) {
    names.push_back(listener.name);
    const HostRule rule = host_rule(listener, flags, has_keys);
    if (status) status = server.add(std::move(listener), rule);
    else close_listener(listener);
  }
  if (!status) return std::move(status).error();
  return names;
}

// As many descriptors as connections may need; fewer connections where the system does not give them.
void fit_connections(ServerLimits& limits, Console& console) {
  struct rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return;
  const uint64_t most =
      files.rlim_cur > 2 * kOtherFiles ? files.rlim_cur - kOtherFiles : std::max<uint64_t>(files.rlim_cur / 4, 1);
  if (limits.connections <= most) return;
  console.remark(fmt::format("note: {} open files are allowed, so at most {} connections are taken\n",
                             grouped(files.rlim_cur), grouped(most)));
  limits.connections = most;
}

// ---------------------------------------------------------------- saying so

std::string model_line(const serve::ServedModel& model) {
  const std::string aliases = fmt::format("{}", fmt::join(model.aliases, ", "));
  return fmt::format("{}{}", model.name, aliases.empty() ? "" : fmt::format(" (also {})", aliases));
}

std::string start_text(const std::vector<std::string>& addresses, const serve::ServiceOptions& service,
                       const ApiKeys& keys, double seconds, const ServeFlags& flags) {
  std::string text = fmt::format("ballast {} listens on {}\n", version(), fmt::join(addresses, ", "));
  for (size_t i = 0; i < service.models.size(); ++i)
    text += fmt::format("{}  {}\n", i == 0 ? "models" : "      ", printable(model_line(service.models[i])));
  if (!flags.no_preload) text += fmt::format("loaded  in {:.2f} s\n", seconds);
  if (!keys.empty()) text += fmt::format("keys    {}\n", counted(keys.size(), "API key"));
  else
    text += flags.no_auth ? "keys    none: whoever can connect may use the models\n"
                          : "keys    none: only this machine can connect\n";
  const bool has_address = addresses.front().starts_with("http");
  if (has_address) text += fmt::format("API     {}/v1\n", addresses.front());
  if (has_address && !chat_page_files().empty()) text += fmt::format("chat    {}/\n", addresses.front());
  return text + "stop    Ctrl-C or SIGTERM; running requests are finished first\n";
}

void warn_of_keys(const ServeFlags& flags, const ApiKeys& keys, Console& console) {
  if (!flags.api_key_file.empty() && is_readable_by_others(flags.api_key_file)) {
    console.complain(fmt::format("warning: {0} can be read by other users of this machine: chmod 600 {0}",
                                 printable(flags.api_key_file)));
  }
  for (const std::string& name : keys.short_names()) {
    console.complain(
        fmt::format("warning: the API key \"{}\" has fewer than 16 characters and can be guessed", printable(name)));
  }
}

// ---------------------------------------------------------------- running

void reload_service(const ServeFlags& flags, HttpServer& server, serve::Service& service, Console& console) {
  notify_service_manager("RELOADING=1");
  if (auto keys = given_keys(flags); !keys) {
    console.complain(fmt::format("{}; the API keys stay as they were", keys.error().message));
  } else if (keys->empty() && !flags.api_key_file.empty()) {
    console.complain("the API keys stay as they were: none would be left");
  } else {
    server.set_keys(std::move(*keys));
  }
  service.reload();
  console.remark("read API keys and models again\n");
  notify_service_manager("READY=1");
}

ServerHooks make_hooks(const ServeFlags& flags, HttpServer& server, serve::Service& service, Console& console) {
  return {.on_drain =
              [&] {
                service.refuse_new();
                notify_service_manager("STOPPING=1");
                console.remark("stopping: running requests are finished; another signal ends them\n");
              },
          .on_reload = [&] { reload_service(flags, server, service, console); },
          .on_refusal = [&](int status) { service.count_refusal(status); }};
}

// Loads models while the server answers already, so that whoever watches it sees that it is on its way. Of the thread
// that runs the server.
class Preload {
 public:
  Preload(serve::Service& service, HttpServer& server, std::function<void()> on_loaded)
      : service_(service), server_(server), on_loaded_(std::move(on_loaded)) {}
  ~Preload() {
    if (thread_.joinable()) thread_.join();
  }
  Preload(const Preload&) = delete;
  Preload& operator=(const Preload&) = delete;

  void start() {
    thread_ = std::thread([this] { server_.post([this, status = service_.load_all()] { end(status); }); });
  }
  // Models are loaded when they are first asked for.
  void leave_out() { end({}); }
  bool is_over() const { return is_over_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void end(const Status& status) {
    is_over_ = true;
    if (status) return on_loaded_();
    error_ = status.error();
    server_.stop();
  }

  serve::Service& service_;
  HttpServer& server_;
  std::function<void()> on_loaded_;
  bool is_over_ = false;
  std::optional<Error> error_;
  std::thread thread_;
};

Result<int> run_serve(const ServeFlags& flags, Console& console) {
  BALLAST_TRY(const ApiKeys keys, given_keys(flags));
  BALLAST_TRY(serve::ServiceOptions options, service_options(flags));
  BALLAST_TRY(ServerOptions settings, server_options(flags));
  options.preloads = !flags.no_preload;
  options.on_problem = [&console](std::string_view text) { console.complain(text); };
  warn_of_keys(flags, keys, console);
  fit_connections(settings.limits, console);
  if (flags.log_requests) settings.log = [&console](std::string_view line) { console.remark(line); };
  // Before the service: its threads write to the server's queue until they end.
  HttpServer server(std::move(settings));
  server.set_keys(keys);
  BALLAST_TRY(const std::vector<std::string> addresses, start_listening(server, flags, !keys.empty()));
  BALLAST_TRY(const std::unique_ptr<serve::Service> service, serve::Service::make(options));
  const double start = seconds_now();
  Preload preload(*service, server, [&] {
    console.remark(start_text(addresses, options, keys, seconds_now() - start, flags));
    notify_service_manager("READY=1");
  });
  ServerHooks hooks = make_hooks(flags, server, *service, console);
  hooks.on_start = [&] { flags.no_preload ? preload.leave_out() : preload.start(); };
  hooks.is_idle = [&] { return !preload.is_over() || service->is_idle(); };
  const HttpServer::End end = server.run(*service, std::move(hooks));
  if (preload.error()) return *preload.error();
  if (end == HttpServer::End::kDrained && preload.is_over()) return kExitYes;
  console.flush();
  // Answers are being computed, or models loaded, and nobody waits for them.
  ::_exit(end == HttpServer::End::kDrained ? kExitYes : kExitInterrupted);
}

constexpr const char* kServeFooter =
    "Answers to the API of OpenAI (/v1/chat/completions, responses, completions, embeddings, models), and to those of\n"
    "Ollama (/api/chat, ...) and Anthropic (/v1/messages). /health and /metrics are for monitoring; docs/serve.md\n"
    "describes operation and security.\n"
    "\n"
    "Only this machine can connect, unless --listen names another address; that needs API keys or --no-auth.\n"
    "SIGTERM and Ctrl-C finish running requests and exit; SIGHUP reads API keys and models again.\n"
    "\n"
    "Examples:\n"
    "  ballast serve smollm2\n"
    "  ballast serve smollm2 --listen 9000 --parallel 32\n"
    "  ballast serve --model small=smollm2 --model words=minilm --alias gpt-4o=small --model-budget 4GiB\n"
    "  ballast serve smollm2 --listen 0.0.0.0:8080 --api-key-file keys.txt\n"
    "  ballast serve smollm2 --cors https://chat.example.org --log none\n";

}  // namespace

RunCommand add_serve(CLI::App& program, Console& console) {
  Command command(program, "serve", "Serve models over HTTP: the API of OpenAI, Ollama and Anthropic");
  auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(command, *flags);
  command.footer(kServeFooter);
  return [flags, &console] {
    const auto code = run_serve(*flags, console);
    return code ? *code : console.fail(code.error());
  };
}

}  // namespace ballast::cli
