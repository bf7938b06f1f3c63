#include "ballast/serve/service.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <set>
#include <utility>

#include "ballast/io/guard.h"
#include "ballast/serve/endpoints.h"
#include "ballast/serve/reader_thread.h"

namespace ballast::serve {

namespace {

constexpr std::string_view kVersionPrefix = "/v1";
constexpr std::string_view kModelPrefix = "/models/";
// Reading takes up to 0.2 s for 1 MiB of hostile JSON, and whoever calls has others waiting.
constexpr size_t kReadAtOnce = size_t{16} << 10U;
constexpr std::string_view kLoadedLater =
    "{}: not loaded yet, because models in use hold the memory; it is loaded when it is next asked for";

// Paths are part of messages, which are JSON: what is no UTF-8 must not get there, nor very much.
std::string shown_path(std::string_view path) { return to_utf8(path.substr(0, 200)); }

struct FoundEndpoint {
  const Endpoint* endpoint = nullptr;
  std::string_view other_method{};  // that the path has, where the endpoint is null
};

FoundEndpoint find_endpoint(std::string_view method, std::string_view path) {
  const bool has_version = path.starts_with(std::string(kVersionPrefix) + "/");
  const std::string_view bare = has_version ? path.substr(kVersionPrefix.size()) : path;
  FoundEndpoint found;
  for (const auto list : {openai_endpoints(), server_endpoints(), ollama_endpoints(), anthropic_endpoints()}) {
    for (const Endpoint& endpoint : list) {
      if (endpoint.path != bare || (has_version && !endpoint.is_versioned)) continue;
      if (endpoint.method == method) return {&endpoint};
      found.other_method = endpoint.method;
    }
  }
  return found;
}

Status check_names(const std::vector<ServedModel>& models) {
  std::set<std::string, std::less<>> names;
  for (const ServedModel& model : models) {
    std::vector<std::string> all = model.aliases;
    all.push_back(model.name);
    for (const std::string& name : all) {
      if (name.empty()) return make_error(ErrorCode::kInvalidArgument, model.path + ": a model needs a name");
      if (names.insert(name).second) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("two models are called \"{}\": give each a name of its own", name));
    }
  }
  if (names.empty()) return make_error(ErrorCode::kInvalidArgument, "there is no model to serve");
  return {};
}

// Of a model that is being loaded: nullopt where it is there. Told also where the work is dropped unrun.
class LoadReport {
 public:
  LoadReport() = default;
  ~LoadReport() { give(refusal_of(out_of_memory())); }
  LoadReport(const LoadReport&) = delete;
  LoadReport& operator=(const LoadReport&) = delete;

  std::future<std::optional<Refusal>> future() { return told_.get_future(); }
  void give(std::optional<Refusal> refusal) {
    if (!std::exchange(is_given_, true)) told_.set_value(std::move(refusal));
  }

 private:
  std::promise<std::optional<Refusal>> told_;
  bool is_given_ = false;
};

class EngineService : public Service {
 public:
  explicit EngineService(ServiceOptions options) : state_(std::move(options)) {}

  std::function<void()> answer(HttpRequest request, std::shared_ptr<AnswerSink> sink) override {
    Call call{std::move(request), std::move(sink)};
    call.dialect = dialect_of(call.request.path);
    call.is_refused_as_new = state_.refuses_new;
    ++state_.metrics->requests;
    return call.request.body.size() <= kReadAtOnce ? read(call) : read_later(std::move(call));
  }

  Status load_all() override {
    return guarded([&]() -> Status {
      for (const ServedModel& model : state_.options.models) BALLAST_CHECK(load(model));
      state_.is_loading = false;
      return {};
    });
  }

  void reload() override { state_.table.retire_all(); }
  void refuse_new() override { state_.refuses_new = true; }
  void count_refusal(int status) override { state_.metrics->refused_unread.add(status); }
  // In this order: what has been read has a place.
  bool is_idle() override { return reader_.is_idle() && state_.table.is_idle(); }

 private:
  Leave read(Call& call) {
    Leave leave;
    const auto done = guarded([&]() -> Status {
      leave = is_late(call) ? refuse(state_, call, late_refusal()) : route(call);
      return {};
    });
    if (!done) refuse(state_, call, refusal_of(done.error()));
    return leave;
  }

  // Whoever waited until now would wait for reading and preparing in vain.
  bool is_late(const Call& call) const {
    const auto deadline = call.deadline(state_.options);
    return call.key_place && deadline && std::chrono::steady_clock::now() >= *deadline;
  }

  // What waits counts as a request of its key, and its time runs.
  Leave read_later(Call call) {
    std::shared_ptr<Call> held;
    Leave leave;
    const auto done = guarded([&]() -> Status {
      auto place = KeyLimit::take(state_.keys, call.request.key);
      if (!place) {
        refuse(state_, call, key_refusal(state_));
        return {};
      }
      call.key_place.emplace(std::move(*place));
      held = std::make_shared<Call>(std::move(call));
      leave = reader_.post([this, held] { return read(*held); });
      return {};
    });
    if (!done) refuse(state_, held ? *held : call, refusal_of(done.error()));
    return leave;
  }

  Leave route(Call& call) {
    const std::string& path = call.request.path;
    const auto [endpoint, other_method] = find_endpoint(call.request.method, path);
    if (endpoint != nullptr) return endpoint->handle(state_, call);
    const std::string_view bare = std::string_view(path).substr(path.starts_with("/v1/") ? kVersionPrefix.size() : 0);
    if (call.request.method == "GET" && bare.starts_with(kModelPrefix)) {
      return show_model(state_, call, bare.substr(kModelPrefix.size()));
    }
    if (other_method.empty()) {
      return refuse(
          state_, call,
          {.status = 404, .message = fmt::format("there is nothing at {}", shown_path(path)), .code = "unknown_url"});
    }
    ++state_.metrics->refused;
    HttpAnswer answer = to_answer(
        {.status = 405, .message = fmt::format("{} takes {} requests", shown_path(path), other_method)}, call.dialect);
    answer.headers.emplace_back("Allow", other_method == "GET" ? "GET, HEAD" : std::string(other_method));
    return send(call, std::move(answer));
  }

  Status load(const ServedModel& model) {
    auto lease = state_.table.acquire_to_load(model.name);
    if (const auto* refusal = std::get_if<Refusal>(&lease)) return make_error(ErrorCode::kIo, refusal->message);
    auto report = std::make_shared<LoadReport>();
    auto loaded = report->future();
    std::get<Lease>(lease).host().post([report = std::move(report)](OpenModel*, const Refusal* why_not) {
      report->give(why_not != nullptr ? std::optional(*why_not) : std::nullopt);
    });
    const auto refusal = loaded.get();
    if (!refusal) return {};
    // Clients may use models while others are loaded, and must not keep the server from starting.
    if (refusal->code == kWaitsForMemory) {
      if (state_.options.on_problem) state_.options.on_problem(fmt::format(kLoadedLater, model.name));
      return {};
    }
    // Who starts the server has the log before their eyes.
    const std::string_view message = refusal->message;
    return make_error(ErrorCode::kIo, std::string(message.substr(0, message.find(kLogSaysWhy))));
  }

  ServiceState state_;
  ReaderThread reader_;  // ends first
};

}  // namespace

Result<std::unique_ptr<Service>> Service::make(ServiceOptions options) {
  return guarded([&]() -> Result<std::unique_ptr<Service>> {
    BALLAST_CHECK(check_names(options.models));
    for (const ServedModel& model : options.models) {
      BALLAST_TRY(const auto file, ModelSource(model.path).first_file());
      static_cast<void>(file);
    }
    return std::unique_ptr<Service>(std::make_unique<EngineService>(std::move(options)));
  });
}

}  // namespace ballast::serve
