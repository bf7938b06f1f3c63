// The service behind `ballast serve`: models by name, and the interfaces that clients know, on one engine per model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/engine/engine.h"
#include "ballast/runtime/load_model.h"
#include "ballast/serve/exchange.h"

namespace ballast::serve {

struct ServedModel {
  std::string name;  // what clients call it
  std::string path;  // what load_model opens
  std::vector<std::string> aliases{};
};

struct ServiceOptions {
  std::vector<ServedModel> models{};  // the first is the one that is meant where a request names none
  LoadOptions load{};
  EngineOptions engine{};
  uint64_t model_budget = 0;         // bytes of the weights that are loaded at a time; 0: no limit
  uint64_t most_waiting = 256;       // texts of one model that wait for their turn; more are answered with 429
  uint64_t most_per_key = 0;         // requests of one API key at a time; 0: no limit
  uint64_t most_choices = 8;         // `n` of a request
  uint64_t most_tokens = 0;          // that one answer may have; 0: what fits the context
  uint64_t most_unsent = 1U << 20U;  // bytes that a client may leave unread before its answer is given up
  std::optional<std::chrono::seconds> deadline{};  // of a request, from its arrival
  std::string version{};                           // of the program, for clients that ask
  bool preloads = false;                           // /health says that models are loading until load_all() has ended
  // What went wrong on this side, for the program's log: clients are not told about paths and devices. Any thread may
  // call it.
  std::function<void(std::string_view)> on_problem{};
};

class Service : public Answerer {
 public:
  // Checks that every model can be found; they are loaded when they are first asked for, or by load_all().
  static Result<std::unique_ptr<Service>> make(ServiceOptions options);

  // Waits until every model is loaded; the first error ends it.
  virtual Status load_all() = 0;
  // Opens models anew from their files when they are next asked for; running answers end with the ones they began with.
  virtual void reload() = 0;
  // From now on new requests are answered with 503; those that run or wait go on.
  virtual void refuse_new() = 0;
  virtual bool is_idle() = 0;
  // Of a request that whoever listens has answered with an error of its own: /metrics tells how many there were.
  virtual void count_refusal(int status) = 0;
};

}  // namespace ballast::serve
