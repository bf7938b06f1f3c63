// What one client, and all of them together, may take of the server.
#pragma once

#include <chrono>
#include <cstdint>

namespace ballast::cli {

// Connections beyond the limit, of all or of one address, that are told so, rather than closed without a word.
inline constexpr uint64_t kMostExtraConnections = 64;

struct ServerLimits {
  uint64_t header_bytes = 32 << 10;  // of one request's first line and headers
  uint64_t headers = 100;
  uint64_t body_bytes = uint64_t{16} << 20;       // of one request
  uint64_t all_body_bytes = uint64_t{256} << 20;  // of all requests that are being read or answered
  uint64_t connections = 4096;
  uint64_t per_address = 1024;                // connections, where other machines can connect
  uint64_t unsent_bytes = uint64_t{4} << 20;  // of an answer in pieces, that its client has not taken

  std::chrono::milliseconds header_time{10'000};  // from the first byte of a request, or the connection's begin
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};   // between two requests
  std::chrono::milliseconds write_time{30'000};  // without a byte that the client takes
};

}  // namespace ballast::cli
