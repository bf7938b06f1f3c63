#include "apps/ballast/server/http_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <cstring>
#include <random>

#include "apps/ballast/server/connection.h"

namespace ballast::cli {

namespace {

namespace io = boost::asio;
using SystemCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostExtraOfAddress = 8;
constexpr int kAcceptsAtOnce = 64;  // then those who are connected have their turn
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kDrainCheck{20};
// As in apps/ballast/terminal/interrupt.cc: signals so close to each other are one request.
constexpr std::chrono::milliseconds kSameSignal{1000};

struct OpenListener {
  OpenListener(io::io_context& context, Listener given, HostRule host_rule)
      : listener(std::move(given)), rule(host_rule), descriptor(context), pause(context) {}

  Listener listener;
  HostRule rule;
  io::posix::stream_descriptor descriptor;
  io::steady_timer pause;
};

bool was_ignored(int signal) {
  struct sigaction present = {};
  return ::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

}  // namespace

struct HttpServer::State {
  explicit State(ServerOptions options)
      : hub{.limits = options.limits,
            .gate = Gate(options.gate),
            .site = std::move(options.site),
            .log = std::move(options.log)},
        signals(hub.io),
        drain_timer(hub.io) {
    std::random_device random;
    hub.id_prefix = uint64_t{random()} << 32 | random();
  }
  ~State() { close_all(); }

  void accept_from(OpenListener& open);
  void accept_some(OpenListener& open);
  void start_connection(int fd, const OpenListener& open);
  void wait_for_signal();
  void on_signal(int signal);
  void start_drain();
  void check_drained();
  void close_all();

  ConnectionHub hub;
  std::vector<std::unique_ptr<OpenListener>> listeners{};
  io::signal_set signals;
  io::steady_timer drain_timer;
  ServerHooks hooks{};
  std::optional<Clock::time_point> first_signal{};
  End end = End::kDrained;
};

HttpServer::HttpServer(ServerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
HttpServer::~HttpServer() = default;

Status HttpServer::add(Listener listener, HostRule rule) {
  auto open = std::make_unique<OpenListener>(state_->hub.io, std::move(listener), rule);
  const int fd = open->listener.fd;
  const int flags = ::fcntl(fd, F_GETFL);
  SystemCode code;
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    code.assign(errno, boost::system::system_category());
  if (!code) open->descriptor.assign(fd, code);
  if (!code) {
    state_->listeners.push_back(std::move(open));
    return {};
  }
  close_listener(open->listener);
  return make_error(ErrorCode::kIo,
                    fmt::format("{}: cannot wait for connections: {}", open->listener.name, code.message()));
}

void HttpServer::set_keys(ApiKeys keys) { state_->hub.gate.set_keys(std::move(keys)); }

HttpServer::End HttpServer::run(serve::Answerer& answerer, ServerHooks hooks) {
  State& state = *state_;
  state.hub.answerer = &answerer;
  state.hooks = std::move(hooks);
  state.hub.on_refusal = state.hooks.on_refusal;
  if (state.hooks.takes_signals) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      if (!was_ignored(signal)) state.signals.add(signal);  // nohup
    }
    state.wait_for_signal();
  }
  for (const auto& open : state.listeners) state.accept_from(*open);
  if (state.hooks.on_start) state.hooks.on_start();
  state.hub.io.run();
  state.close_all();
  return state.end;
}

void HttpServer::drain() {
  io::post(state_->hub.io, [this] { state_->start_drain(); });
}

void HttpServer::post(std::function<void()> work) { io::post(state_->hub.io, std::move(work)); }

void HttpServer::stop() {
  state_->end = End::kStopped;
  state_->hub.io.stop();
}

// ---------------------------------------------------------------- connections

void HttpServer::State::accept_from(OpenListener& open) {
  open.descriptor.async_wait(io::posix::stream_descriptor::wait_read, [this, &open](const SystemCode& code) {
    if (!code) accept_some(open);
  });
}

void HttpServer::State::accept_some(OpenListener& open) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = ::accept4(open.listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      start_connection(fd, open);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in line, and asking again at once would only burn time.
      open.pause.expires_after(kAcceptPause);
      open.pause.async_wait([this, &open](const SystemCode& code) {
        if (!code) accept_from(open);
      });
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  accept_from(open);
}

void HttpServer::State::start_connection(int fd, const OpenListener& open) {
  const size_t count = hub.connections.size();
  const bool has_neighbours = !open.listener.is_loopback && !open.listener.is_unix;
  std::string group = has_neighbours ? peer_group(fd) : "";
  const uint64_t of_group = group.empty() ? 0 : hub.addresses.count(group);
  Connection::Socket socket(hub.io);
  SystemCode code;
  const int family = open.listener.family;
  if (count < hub.limits.connections + kMostExtraConnections && of_group < hub.limits.per_address + kMostExtraOfAddress)
    socket.assign({family, family == AF_UNIX ? 0 : IPPROTO_TCP}, fd, code);
  if (!socket.is_open()) {
    ::close(fd);
    return;
  }
  // Pieces of an answer are small and wanted at once.
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  socket.non_blocking(true, code);
  const bool is_extra = count >= hub.limits.connections || of_group >= hub.limits.per_address;
  if (!group.empty()) hub.addresses.take(group);
  const auto connection = std::make_shared<Connection>(std::move(socket), hub, open.rule, std::move(group), is_extra);
  hub.connections.insert(connection);
  connection->start();
}

// ---------------------------------------------------------------- signals, and the end

void HttpServer::State::wait_for_signal() {
  signals.async_wait([this](const SystemCode& code, int signal) {
    if (code) return;
    on_signal(signal);
    wait_for_signal();
  });
}

void HttpServer::State::on_signal(int signal) {
  if (signal == SIGHUP) {
    if (hooks.on_reload) hooks.on_reload();
    return;
  }
  const auto now = Clock::now();
  if (!first_signal) first_signal = now;
  if (now - *first_signal < kSameSignal) return start_drain();
  end = End::kStopped;
  hub.io.stop();
}

// Listening goes on: who comes now is told that the server stops, and a load balancer sees that it is not well.
void HttpServer::State::start_drain() {
  if (hub.draining) return;
  hub.draining = true;
  if (hooks.on_drain) hooks.on_drain();
  const auto connections = hub.connections;  // draining takes some out
  for (const auto& connection : connections) connection->drain();
  check_drained();
}

void HttpServer::State::check_drained() {
  if (hub.answering == 0 && (!hooks.is_idle || hooks.is_idle())) return hub.io.stop();
  drain_timer.expires_after(kDrainCheck);
  drain_timer.async_wait([this](const SystemCode& code) {
    if (!code) check_drained();
  });
}

void HttpServer::State::close_all() {
  for (const auto& open : listeners) {
    SystemCode ignored;
    if (open->descriptor.is_open()) open->descriptor.release();
    close_listener(open->listener);
  }
  listeners.clear();
}

}  // namespace ballast::cli
