#include "apps/ballast/server/address_places.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace ballast::cli {

namespace {

constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

std::string in_digits(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(family, address, text, sizeof text) == nullptr ? "" : text;
}

std::string group_of(in6_addr address) {
  // An IPv4 address, as a socket that takes both kinds sees it.
  if (IN6_IS_ADDR_V4MAPPED(&address)) return in_digits(AF_INET, &address.s6_addr[12]);
  std::fill(std::begin(address.s6_addr) + kNetworkBytes, std::end(address.s6_addr), uint8_t{0});
  return in_digits(AF_INET6, &address);
}

}  // namespace

std::string peer_group(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address_group(address) : "";
}

std::string address_group(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    sockaddr_in address = {};
    std::memcpy(&address, &storage, sizeof address);
    return in_digits(AF_INET, &address.sin_addr);
  }
  if (storage.ss_family != AF_INET6) return "";
  sockaddr_in6 address = {};
  std::memcpy(&address, &storage, sizeof address);
  return group_of(address.sin6_addr);
}

uint64_t AddressPlaces::count(const std::string& group) const {
  const auto found = taken_.find(group);
  return found == taken_.end() ? 0 : found->second;
}

void AddressPlaces::give(const std::string& group) {
  const auto found = taken_.find(group);
  if (found != taken_.end() && --found->second == 0) taken_.erase(found);
}

}  // namespace ballast::cli
