#include "apps/ballast/commands/serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "apps/ballast/models/model_cache.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/server/host_name.h"
#include "apps/ballast/server/page_files.h"
#include "ballast/backends/backends.h"
#include "ballast/base/version.h"

namespace ballast::cli {

namespace {

constexpr const char* kKeyVariable = "BALLAST_API_KEY";
constexpr uint64_t kMostParallelAnswers = 1024;
constexpr double kLongestTime = 7 * 24 * 3600;  // seconds

Error serve_usage(std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); }

double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(std::min(seconds, kLongestTime) * 1000));
}

// ---------------------------------------------------------------- models

// "NAME=VALUE"
Result<std::pair<std::string, std::string>> split_pair(const std::string& text, std::string_view usage) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals != 0 && equals + 1 < text.size())
    return std::pair(text.substr(0, equals), text.substr(equals + 1));
  return serve_usage(fmt::format("{} expected, not \"{}\"", usage, printable(text)));
}

// What clients call a model that was given no name: a name as it is, and of a path its last part without an ending.
std::string served_name(const std::string& given) {
  namespace fs = std::filesystem;
  std::error_code failure;
  if (!fs::exists(given, failure)) return given;
  const fs::path path = fs::weakly_canonical(given, failure);
  return fs::is_directory(path, failure) ? path.filename().string() : path.stem().string();
}

Status add_served(std::vector<serve::ServedModel>& models, std::string name, const std::string& given) {
  const auto has_name = [&](const serve::ServedModel& model) { return model.name == name; };
  if (std::ranges::any_of(models, has_name)) {
    return serve_usage(fmt::format("two models are called \"{}\"; give each a name of its own with --model NAME=PATH",
                                   printable(name)));
  }
  BALLAST_TRY(std::string path, resolve_model_name(given));
  models.push_back({.name = std::move(name), .path = std::move(path)});
  return {};
}

Status add_alias(std::vector<serve::ServedModel>& models, const std::string& text) {
  BALLAST_TRY(const auto pair, split_pair(text, "--alias ALIAS=NAME"));
  const auto& [alias, name] = pair;
  for (const serve::ServedModel& model : models) {
    const bool is_taken = model.name == alias || std::ranges::find(model.aliases, alias) != model.aliases.end();
    if (is_taken) return serve_usage(fmt::format("--alias {}: there is a model of that name", printable(text)));
  }
  const auto found = std::ranges::find(models, name, &serve::ServedModel::name);
  if (found == models.end()) {
    std::vector<std::string> names;
    for (const serve::ServedModel& model : models) names.push_back(model.name);
    return serve_usage(fmt::format("--alias {}: there is no model \"{}\"; there {}: {}", printable(text),
                                   printable(name), names.size() == 1 ? "is" : "are", fmt::join(names, ", ")));
  }
  found->aliases.push_back(alias);
  return {};
}

Result<std::vector<serve::ServedModel>> served_models(const ServeFlags& flags) {
  std::vector<serve::ServedModel> models;
  if (!flags.model.path.empty()) BALLAST_CHECK(add_served(models, served_name(flags.model.path), flags.model.path));
  for (const std::string& text : flags.models) {
    BALLAST_TRY(const auto pair, split_pair(text, "--model NAME=PATH"));
    BALLAST_CHECK(add_served(models, pair.first, pair.second));
  }
  if (models.empty()) {
    BALLAST_TRY(const std::string path, default_model_path());
    models.push_back({.name = "default", .path = path});
  }
  for (const std::string& alias : flags.aliases) BALLAST_CHECK(add_alias(models, alias));
  return models;
}

// ---------------------------------------------------------------- who may call

Result<std::vector<std::string>> allowed_hosts(const ServeFlags& flags) {
  std::vector<std::string> hosts;
  for (const std::string& text : flags.hosts) {
    const auto host = parse_host(text);
    if (!host || !host->port.empty()) {
      return serve_usage(
          fmt::format("--allow-host {}: not the name of a host; write it without scheme and port, such "
                      "as chat.example.org",
                      printable(text)));
    }
    hosts.push_back(host->host);
  }
  return hosts;
}

Status check_origin_flag(const std::string& origin, bool has_keys) {
  if (origin == "*" && has_keys) return {};
  if (origin == "*") {
    return serve_usage(
        "--cors '*' without API keys would let every page that you visit use the model; name the origin, "
        "or give keys with --api-key-file");
  }
  const size_t end = origin.find("://");
  const bool has_scheme = origin.starts_with("http://") || origin.starts_with("https://");
  if (has_scheme && parse_host(std::string_view(origin).substr(end + 3))) return {};
  return serve_usage(fmt::format(
      "--cors {}: not an origin; write scheme, host and port, such as https://chat.example.org", printable(origin)));
}

// A backend that cannot compute is told at the start, also where models are loaded later.
Status check_backend(std::string_view name) {
  BALLAST_TRY(const Backend* const backend, choose_backend(name));
  if (backend->find_devices == nullptr) return {};
  if (const auto devices = backend->find_devices(); !devices) return devices.error();
  return {};
}

std::string key_of_environment() {
  const char* const value = std::getenv(kKeyVariable);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<ApiKeys> given_keys(const ServeFlags& flags) {
  const std::string of_environment = key_of_environment();
  if (flags.no_auth) {
    if (of_environment.empty()) return ApiKeys();
    return serve_usage(fmt::format("{} is set, and --no-auth asks for no keys: take one of them away", kKeyVariable));
  }
  ApiKeys keys;
  if (!flags.api_key_file.empty()) BALLAST_CHECK(assign(keys, read_api_keys(flags.api_key_file)));
  if (!of_environment.empty()) BALLAST_CHECK(keys.add("environment", of_environment, kKeyVariable));
  return keys;
}

Result<serve::ServiceOptions> service_options(const ServeFlags& flags) {
  serve::ServiceOptions options = flags.service;
  BALLAST_TRY(options.models, served_models(flags));
  BALLAST_TRY(options.load, load_options(flags.model));
  BALLAST_CHECK(check_backend(options.load.backend));
  options.engine.most_rows = std::max(options.engine.most_rows, options.engine.most_sequences);
  if (flags.deadline > 0)
    options.deadline = std::chrono::seconds(std::max(1LL, std::llround(std::min(flags.deadline, kLongestTime))));
  options.version = std::string(version());
  options.most_unsent = flags.limits.unsent_bytes;
  return options;
}

Result<ServerOptions> server_options(const ServeFlags& flags) {
  ServerOptions options;
  options.limits = flags.limits;
  options.limits.idle_time = milliseconds_of(flags.idle_time);
  options.limits.header_time = milliseconds_of(flags.header_time);
  options.limits.body_time = milliseconds_of(flags.body_time);
  options.limits.write_time = milliseconds_of(flags.write_time);
  options.limits.unsent_bytes *= 2;  // the service gives an answer up before that, in its own words
  options.limits.all_body_bytes = std::max(options.limits.all_body_bytes, options.limits.body_bytes);
  BALLAST_TRY(options.gate.hosts, allowed_hosts(flags));
  const bool has_keys = !flags.api_key_file.empty() || !key_of_environment().empty();
  for (const std::string& origin : flags.origins) BALLAST_CHECK(check_origin_flag(origin, has_keys));
  options.gate.origins = flags.origins;
  options.gate.headers = options.limits.headers;
  options.site = make_chat_site(chat_page_files());
  for (std::string& path : page_paths(chat_page_files())) options.gate.open_paths.push_back(std::move(path));
  return options;
}

void add_serve_flags(Command& command, ServeFlags& flags) {
  serve::ServiceOptions& service = flags.service;
  ServerLimits& limits = flags.limits;
  service.engine.most_sequences = 16;
  limits.unsent_bytes = service.most_unsent;
  flags.idle_time = seconds_of(limits.idle_time);
  flags.header_time = seconds_of(limits.header_time);
  flags.body_time = seconds_of(limits.body_time);
  flags.write_time = seconds_of(limits.write_time);

  command.optional_path("MODEL", flags.model.path, "A model: file, folder or name (default: the built-in model)");
  command.texts("--model", "NAME=PATH", flags.models, "Serve this model too, under this name; may be repeated");
  command.texts("--alias", "ALIAS=NAME", flags.aliases, "Another name for a model; may be repeated");
  command.texts("--listen", "ADDRESS", flags.listen,
                "HOST:PORT, PORT or unix:PATH (127.0.0.1:8080); port 0: any free one; may be repeated");
  const Flag keys = command.text("--api-key-file", "FILE", flags.api_key_file,
                                 "Ask clients for one of these API keys: a line each, NAME:KEY");
  command.flag("--no-auth", flags.no_auth, "Let other machines connect without an API key").excludes(keys);
  command.texts("--allow-host", "HOST", flags.hosts, "Answer to this host name too; may be repeated");
  command.texts("--cors", "ORIGIN", flags.origins, "Let pages of this origin call; may be repeated");
  command.choice("--log", "WHAT", flags.log_requests, {{"requests", true}, {"none", false}},
                 "Log requests, never their contents (default), or none");
  command.flag("--no-preload", flags.no_preload, "Load models when they are first asked for, not at the start");

  command.count("--parallel", "N", service.engine.most_sequences, "Write N answers at a time (16)", 1,
                kMostParallelAnswers);
  command.count("--queue", "N", service.most_waiting, "Let N requests wait; more get status 429 (256)", 0, 1'000'000);
  command.count("--max-per-key", "N", service.most_per_key, "Requests of one API key at a time (default: no limit)", 1);
  command.count("--max-tokens", "N", service.most_tokens, "Longest answer, in tokens (default: the context)", 1);
  command.count("--max-choices", "N", service.most_choices, "Most answers to one request (8)", 1, 128);
  command.real("--deadline", "SECONDS", flags.deadline, "End requests after this long (default: never)", 1);
  command.size("--model-budget", service.model_budget, "Evict models so that all together need at most this");
  command.size("--kv-cache-budget", service.engine.most_bytes, "Limit the KV cache of each model (default: none)");
  add_cache_dtype_flag(command, service.engine.cache_dtype);
  add_load_flags(command, flags.model);

  command.size("--max-body", limits.body_bytes, "Largest request body (16MiB)");
  command.size("--max-headers", limits.header_bytes, "Largest request head (32KiB)");
  command.size("--max-unsent", limits.unsent_bytes, "Drop a stream whose client leaves this much unread (1MiB)");
  command.count("--max-connections", "N", limits.connections, "Most connections at a time (4096)", 1, 1'000'000);
  command.count("--max-per-address", "N", limits.per_address, "Connections of another machine at a time (1024)", 1,
                1'000'000);
  command.real("--header-timeout", "SECONDS", flags.header_time, "Time for a request's head to arrive (10)", 0.01);
  command.real("--body-timeout", "SECONDS", flags.body_time, "Time for a request's body to arrive (60)", 0.01);
  command.real("--idle-timeout", "SECONDS", flags.idle_time, "Close a connection unused for this long (75)", 0.01);
  command.real("--write-timeout", "SECONDS", flags.write_time, "Drop a client that takes nothing for this long (30)",
               0.01);
}

}  // namespace ballast::cli
