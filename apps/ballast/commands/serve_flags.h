// The flags of `serve`, and what they ask of the service and of the server.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/model_flags.h"
#include "apps/ballast/server/http_server.h"
#include "ballast/serve/service.h"

namespace ballast::cli {

struct ServeFlags {
  ModelFlags model;
  std::vector<std::string> models;   // NAME=PATH
  std::vector<std::string> aliases;  // ALIAS=NAME
  std::vector<std::string> listen;
  std::string api_key_file;
  bool no_auth = false;
  std::vector<std::string> hosts, origins;
  bool log_requests = true;
  bool no_preload = false;
  double idle_time = 0, header_time = 0, body_time = 0, write_time = 0;  // seconds; set by add_serve_flags
  double deadline = 0;                                                   // seconds; 0: none
  ServerLimits limits;
  serve::ServiceOptions service;
};

void add_serve_flags(Command& command, ServeFlags& flags);

// Models with their names and aliases, and how they are loaded.
Result<serve::ServiceOptions> service_options(const ServeFlags& flags);
// Limits and rules, without a log.
Result<ServerOptions> server_options(const ServeFlags& flags);
// Of --api-key-file and BALLAST_API_KEY; empty with --no-auth, or where neither is given.
Result<ApiKeys> given_keys(const ServeFlags& flags);

}  // namespace ballast::cli
