// Listens, hands requests to whoever answers them, and stops in order. One thread has all the sockets.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "apps/ballast/server/api_keys.h"
#include "apps/ballast/server/gate.h"
#include "apps/ballast/server/limits.h"
#include "apps/ballast/server/listen_address.h"
#include "apps/ballast/server/site.h"
#include "ballast/serve/exchange.h"

namespace ballast::cli {

struct ServerOptions {
  ServerLimits limits{};
  GateOptions gate{};
  std::shared_ptr<Site> site{};  // pages and files that come with the program; the answerer is asked for the rest
  std::function<void(std::string_view line)> log{};  // a line for each request; empty: none
};

// Called on the thread of run().
struct ServerHooks {
  std::function<void()> on_start{};   // signals are caught, and connections taken
  std::function<void()> on_drain{};   // SIGTERM, SIGINT or drain(): no more requests are handed on
  std::function<void()> on_reload{};  // SIGHUP
  // A request was answered with this status by the server itself.
  std::function<void(int status)> on_refusal{};
  std::function<bool()> is_idle{};  // nothing goes on behind the answers that were begun; empty: never anything does
  bool takes_signals = true;
};

// Threads that write answers must end before it does: answers go to its queue.
class HttpServer {
 public:
  explicit HttpServer(ServerOptions options);
  ~HttpServer();

  // Takes the socket over, also where that fails.
  Status add(Listener listener, HostRule rule);
  // Before run(), or in one of its hooks.
  void set_keys(ApiKeys keys);

  enum class End : unsigned char {
    kDrained,  // every request that was begun is answered
    kStopped,  // a second signal, or stop(), came before that
  };
  // Returns when the server has stopped.
  End run(serve::Answerer& answerer, ServerHooks hooks);
  // Any thread may call: what SIGTERM does.
  void drain();
  // Any thread may call: the work is done on the thread of run().
  void post(std::function<void()> work);
  // On the thread of run(): what a second SIGTERM does.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast::cli
