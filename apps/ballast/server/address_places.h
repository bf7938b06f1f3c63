// How many connections each address has, so that one client cannot take them all.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace ballast::cli {

// Whose connection it is: the address in digits, and of IPv6 the first 64 bits, since whoever has one address has all
// of those. Empty where it cannot be told.
std::string peer_group(int fd);
std::string address_group(const sockaddr_storage& storage);

class AddressPlaces {
 public:
  uint64_t count(const std::string& group) const;
  void take(const std::string& group) { ++taken_[group]; }
  void give(const std::string& group);

 private:
  std::unordered_map<std::string, uint64_t> taken_;
};

}  // namespace ballast::cli
