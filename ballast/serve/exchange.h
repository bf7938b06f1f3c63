// A client's request and where its answer goes: all that a program that listens and the service that answers must agree
// on. No sockets here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ballast::serve {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/models", without what follows a question mark
  std::string body;
  std::string key;  // which of the API keys it came with, by a name that may be logged; empty where none are asked for
};

struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  // besides type and length
};

// Any thread may call, and none of these waits. Once the client is gone, nothing happens.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // The whole answer.
  virtual void send(HttpAnswer answer) = 0;
  // Or piece by piece: the beginning, whose body is the first piece; any number of pieces; the end.
  virtual void begin(HttpAnswer head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  // Bytes that the client has not taken yet. Whoever writes stops where a client that reads too slowly lets them pile
  // up.
  virtual size_t unsent() const = 0;
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // Answers now, or later from another thread; large bodies are read there, too. Returns what is to be called if the
  // client leaves before the end of the answer; empty where nothing goes on behind it. It may be called after the end
  // too, and then does nothing.
  virtual std::function<void()> answer(HttpRequest request, std::shared_ptr<AnswerSink> sink) = 0;
};

}  // namespace ballast::serve
