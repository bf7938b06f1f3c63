// Where the server listens: addresses of the command line, and sockets that a service manager passes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast::cli {

struct ListenAddress {
  std::string host{};  // a name or an address without brackets
  uint16_t port = 0;
  std::string socket_path{};  // of a Unix socket, which has neither
};

// "HOST:PORT", "[::1]:8080", "PORT" (on 127.0.0.1), "unix:PATH".
Result<ListenAddress> parse_listen_address(std::string_view text);

// An open socket that listens. Closed with close_listener().
struct Listener {
  int fd = -1;
  int family = 0;
  std::string name{};         // "http://127.0.0.1:8080", "unix:/run/ballast.sock"
  std::string socket_path{};  // to remove at the end; empty where it is not ours
  bool is_loopback = false;   // only this machine can connect, by a name or an address of its own
  bool is_unix = false;       // only programs on this machine that may open the socket's file can connect
};

// All addresses that the name stands for; at least one, or the error of the last.
Result<std::vector<Listener>> open_listeners(const ListenAddress& address);
// The sockets of LISTEN_FDS (systemd's socket activation), where they are for this process; none otherwise.
Result<std::vector<Listener>> inherited_listeners();
void close_listener(Listener& listener);
uint16_t port_of(const Listener& listener);  // 0 for a Unix socket

// Tells the service manager ("READY=1"), where one asked to be told (NOTIFY_SOCKET).
void notify_service_manager(std::string_view state);

}  // namespace ballast::cli
