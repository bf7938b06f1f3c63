// What answers at each path. A handler answers now, or puts work in line that does.
#pragma once

#include <span>
#include <string_view>

#include "ballast/serve/calls.h"

namespace ballast::serve {

struct Endpoint {
  std::string_view method;
  std::string_view path;  // without /v1
  bool is_versioned;      // also with /v1 before it
  Dialect dialect;
  Leave (*handle)(ServiceState& state, Call& call);
};

// One list a client's world.
std::span<const Endpoint> openai_endpoints();
std::span<const Endpoint> server_endpoints();
std::span<const Endpoint> ollama_endpoints();
std::span<const Endpoint> anthropic_endpoints();

// GET /v1/models/{id}: the path behind "/models/", still encoded.
Leave show_model(ServiceState& state, Call& call, std::string_view encoded);

}  // namespace ballast::serve
