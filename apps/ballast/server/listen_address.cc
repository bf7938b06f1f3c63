#include "apps/ballast/server/listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "apps/ballast/output/text.h"
#include "apps/ballast/server/host_name.h"

namespace ballast::cli {

namespace {

constexpr int kBacklog = 1024;
constexpr int kFirstInherited = 3;  // SD_LISTEN_FDS_START
constexpr int kMostInherited = 64;

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kForms =
    "write HOST:PORT (127.0.0.1:8080), [IPV6]:PORT ([::1]:8080), PORT (8080) or unix:PATH (unix:/run/ballast.sock)";

std::string_view listen_advice(bool is_path, int code) {
  switch (code) {
    case EADDRINUSE:
      return is_path ? "; another program listens on this path: choose another one"
                     : "; another program listens there: choose another port, or 0 for any free one";
    case EACCES:
      return is_path ? "; you may not create files in this folder: choose another path"
                     : "; ports below 1024 need rights: choose a port above 1023";
    case ENOENT: return is_path ? "; create the folder first, or choose another path" : "";
    case EADDRNOTAVAIL: return "; this machine has no such address: 0.0.0.0 listens on all it has";
    default: return "";
  }
}

Error listen_error(std::string_view name, std::string_view what, int code) {
  return make_error(ErrorCode::kIo, fmt::format("--listen {}: {}: {}{}", printable(name), what, std::strerror(code),
                                                listen_advice(name.starts_with(kUnix), code)));
}

Error not_an_address(std::string_view text) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("--listen \"{}\" is not an address: {}", printable(text), kForms));
}

Result<uint16_t> parse_port(std::string_view text, std::string_view whole) {
  uint16_t port = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failure == std::errc() && end == text.data() + text.size() && !text.empty()) return port;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("--listen {}: \"{}\" is not a port between 0 and 65535; {}", printable(whole),
                                printable(text), kForms));
}

// ---------------------------------------------------------------- what a socket is

std::string address_text(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return address.ss_family == AF_INET6 ? fmt::format("http://[{}]:{}", host, port)
                                       : fmt::format("http://{}:{}", host, port);
}

bool is_loopback_address(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  if (address.ss_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

Result<Listener> describe_listener(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return make_error(ErrorCode::kIo, fmt::format("file descriptor {} is no socket: {}", fd, std::strerror(errno)));
  }
  Listener listener{.fd = fd, .family = address.ss_family};
  if (address.ss_family == AF_UNIX) {
    listener.is_unix = true;
    listener.name = fmt::format("unix:{}", reinterpret_cast<const sockaddr_un&>(address).sun_path);
    return listener;
  }
  listener.name = address_text(address, size);
  listener.is_loopback = is_loopback_address(address);
  return listener;
}

// ---------------------------------------------------------------- opening

Result<Listener> open_bound(int family, const sockaddr* address, socklen_t size, std::string_view name) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return listen_error(name, "cannot make a socket", errno);
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, address, size) != 0 || ::listen(fd, kBacklog) != 0) {
    const int code = errno;
    ::close(fd);
    return listen_error(name, "cannot listen", code);
  }
  auto listener = describe_listener(fd);
  if (!listener) ::close(fd);
  return listener;
}

// A socket file that nobody listens on any more is left over from a program that was killed.
Status remove_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return make_error(ErrorCode::kExists,
                      fmt::format("--listen unix:{}: exists and is not a socket; choose another path", path));
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return listen_error("unix:" + path, "cannot make a socket", errno);
  const bool answered = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int code = errno;
  ::close(fd);
  if (answered || code != ECONNREFUSED) return listen_error("unix:" + path, "cannot listen", EADDRINUSE);
  ::unlink(path.c_str());
  return {};
}

Result<Listener> open_unix_listener(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("--listen unix:{}: the path must have 1 to {} bytes",
                                                               printable(path), sizeof address.sun_path - 1));
  }
  path.copy(address.sun_path, path.size());
  BALLAST_CHECK(remove_stale_socket(path, address));
  const mode_t mask = ::umask(0117);  // the owner and the group: a proxy is let in by its group
  auto listener = open_bound(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, "unix:" + path);
  ::umask(mask);
  if (listener) listener->socket_path = path;
  return listener;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

void set_port(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  else reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  if (text.starts_with(kUnix)) return ListenAddress{.socket_path = std::string(text.substr(kUnix.size()))};
  ListenAddress address{.host = "127.0.0.1"};
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return not_an_address(text);
    BALLAST_TRY(address.port, parse_port(text, text));
    return address;
  }
  if (colon + 1 == text.size()) return not_an_address(text);
  BALLAST_TRY(address.port, parse_port(text.substr(colon + 1), text));
  const auto host = parse_host(text.substr(0, colon));
  if (!host || !host->port.empty()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("--listen {}: \"{}\" is not a host; {}", printable(text),
                                                               printable(text.substr(0, colon)), kForms));
  }
  address.host = host->host;
  return address;
}

Result<std::vector<Listener>> open_listeners(const ListenAddress& address) {
  std::vector<Listener> listeners;
  if (!address.socket_path.empty() || address.host.empty()) {
    BALLAST_TRY(Listener listener, open_unix_listener(address.socket_path));
    listeners.push_back(std::move(listener));
    return listeners;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found); code != 0) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("--listen {}: the host is not known: {}", address.host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  const std::string name = fmt::format("{}:{}", address.host, address.port);
  std::optional<Error> last;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    // The port that the first address was given is that of the others too.
    set_port(one->ai_addr, listeners.empty() ? address.port : port_of(listeners.front()));
    auto listener = open_bound(one->ai_family, one->ai_addr, one->ai_addrlen, name);
    if (listener) listeners.push_back(std::move(*listener));
    else last = std::move(listener).error();
  }
  if (!listeners.empty()) return listeners;
  return last ? *last : listen_error(name, "cannot listen", EADDRNOTAVAIL);
}

Result<std::vector<Listener>> inherited_listeners() {
  std::vector<Listener> listeners;
  const char* const pid = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  if (pid == nullptr || count == nullptr || std::to_string(::getpid()) != pid) return listeners;
  int number = 0;
  std::from_chars(count, count + std::strlen(count), number);
  if (number < 1 || number > kMostInherited) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("LISTEN_FDS={}: not a number of sockets from 1 to {}",
                                                               printable(count), kMostInherited));
  }
  for (int fd = kFirstInherited; fd < kFirstInherited + number; ++fd) {
    BALLAST_TRY(Listener listener, describe_listener(fd));
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("LISTEN_FDS: file descriptor {} ({}) does not listen; the socket unit needs "
                                    "ListenStream= and Accept=no",
                                    fd, listener.name));
    }
    listeners.push_back(std::move(listener));
  }
  ::unsetenv("LISTEN_PID");
  ::unsetenv("LISTEN_FDS");
  return listeners;
}

uint16_t port_of(const Listener& listener) {
  uint16_t port = 0;
  if (listener.is_unix) return port;
  const std::string_view text = std::string_view(listener.name).substr(listener.name.rfind(':') + 1);
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

void close_listener(Listener& listener) {
  if (listener.fd >= 0) ::close(listener.fd);
  listener.fd = -1;
  if (!listener.socket_path.empty()) ::unlink(listener.socket_path.c_str());
  listener.socket_path.clear();
}

void notify_service_manager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path == nullptr || path[0] == '\0' || std::strlen(path) >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, path);
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  // Nobody to tell is no failure of the server.
  [[maybe_unused]] const ssize_t ignored =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
}

}  // namespace ballast::cli
