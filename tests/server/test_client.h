// A client of the server under test, which says what it likes, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace ballast::testing {

inline bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

class TestClient {
 public:
  explicit TestClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~TestClient() { leave(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void leave() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Without a goodbye: the server sees a reset.
  void break_off() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    leave();
  }
  void end_of_sending() { ::shutdown(fd_, SHUT_WR); }
  void say(std::string_view text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  void ask(std::string_view path, std::string_view more = "", std::string_view method = "GET",
           std::string_view body = "") {
    say(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n{}", method, path, more, body));
  }

  // As far as the server takes it, which may have closed by now.
  bool try_to_say(std::string_view text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
  }
  bool hears_something() {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) == 1;
  }

  // Everything up to `end`; what came where the server closes before that.
  std::string until(std::string_view end) {
    while (received_.find(end) == std::string::npos && receive()) {
    }
    const size_t at = received_.find(end);
    const size_t size = at == std::string::npos ? received_.size() : at + end.size();
    std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }
  // An answer with a Content-Length.
  std::string answer() {
    std::string text = until("\r\n\r\n");
    const size_t at = text.find("content-length: ");
    const size_t length = at == std::string::npos ? 0 : std::stoul(text.substr(at + 16));
    while (received_.size() < length && receive()) {
    }
    text += received_.substr(0, length);
    received_.erase(0, std::min(length, received_.size()));
    return text;
  }

 private:
  bool receive() {
    char buffer[4096];
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 60'000) != 1) return false;
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count > 0) received_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  int fd_;
  std::string received_;
};

}  // namespace ballast::testing
