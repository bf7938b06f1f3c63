#include "ballast/serve/model_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/human_size.h"

namespace ballast::serve {

namespace {

constexpr unsigned kBusySeconds = 1;

// Counters only grow, also when a model is closed and opened again.
void add_counters(EngineCounters& sum, const EngineCounters& more) {
  sum.submitted += more.submitted;
  sum.finished += more.finished;
  sum.cancelled += more.cancelled;
  sum.failed += more.failed;
  sum.expired += more.expired;
  sum.steps += more.steps;
  sum.prompt_tokens += more.prompt_tokens;
  sum.reused_tokens += more.reused_tokens;
  sum.generated_tokens += more.generated_tokens;
  sum.recomputed_tokens += more.recomputed_tokens;
  sum.preemptions += more.preemptions;
}

}  // namespace

Refusal unknown_model(std::string_view name) {
  return {.status = 404,
          .message = fmt::format("the model \"{}\" does not exist; /v1/models lists those that do",
                                 shortened(name, kShownNameBytes)),
          .param = "model",
          .code = "model_not_found"};
}

std::optional<KeyLimit::Place> KeyLimit::take(const std::shared_ptr<KeyLimit>& limit, const std::string& key) {
  if (limit->most_ == 0) return Place(nullptr, "");
  const std::lock_guard lock(limit->mutex_);
  uint64_t& taken = limit->taken_[key];
  if (taken >= limit->most_) return std::nullopt;
  ++taken;
  return Place(limit, key);
}

void KeyLimit::give(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(key);
  if (found != taken_.end() && --found->second == 0) taken_.erase(found);
}

ModelTable::ModelTable(const ServiceOptions& options) : options_(options) {
  for (const ServedModel& model : options.models) entries_.push_back({model});
}

ModelTable::~ModelTable() {
  std::vector<std::unique_ptr<ModelHost>> hosts;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.host) hosts.push_back(std::move(entry.host));
    }
    std::ranges::move(retired_, std::back_inserter(hosts));
    retired_.clear();
  }
  for (const auto& host : hosts) host->close();
  // Each waits for its thread, which may still ask for room here: without the lock.
  hosts.clear();
}

const ModelTable::Entry* ModelTable::find_exactly(std::string_view name) const {
  for (const Entry& entry : entries_) {
    const auto& aliases = entry.model.aliases;
    if (entry.model.name == name || std::ranges::find(aliases, name) != aliases.end()) return &entry;
  }
  return nullptr;
}

const ModelTable::Entry* ModelTable::find(std::string_view name) const {
  if (name.empty()) return entries_.empty() ? nullptr : &entries_.front();
  if (const Entry* const entry = find_exactly(name)) return entry;
  // Ollama's clients write a tag behind every name. One tag, not as many as a client likes to write.
  constexpr std::string_view kLatest = ":latest";
  if (!name.ends_with(kLatest)) return nullptr;
  return find_exactly(name.substr(0, name.size() - kLatest.size()));
}

std::string ModelTable::name_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(name);
  return entry != nullptr ? entry->model.name : std::string();
}

ModelTable::Entry* ModelTable::find_hosted(std::string_view name) {
  forget_ended();
  Entry* entry = const_cast<Entry*>(find(name));
  if (entry == nullptr) return nullptr;
  if (!entry->host) {
    entry->host = std::make_unique<ModelHost>(
        entry->model, options_, [this](ModelHost& host, uint64_t bytes) { return make_room(host, bytes); });
  }
  entry->last_use = ++uses_;
  return entry;
}

std::variant<Lease, Refusal> ModelTable::acquire_to_load(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = find_hosted(name);
  if (entry == nullptr) return unknown_model(name);
  entry->host->take_place_to_load();
  return Lease(*entry->host, 1);
}

std::variant<Lease, Refusal> ModelTable::acquire(std::string_view name, uint64_t places) {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = find_hosted(name);
  if (entry == nullptr) return unknown_model(name);
  ModelHost& host = *entry->host;
  if (places > host.most_places()) {
    return Refusal{.message =
                       fmt::format("the request asks for {} texts at once: this server computes and keeps in line "
                                   "at most {}",
                                   places, host.most_places())};
  }
  if (host.take_places(places)) return Lease(host, places);
  return Refusal{.status = 429,
                 .message = fmt::format("the model \"{}\" is busy: {} texts are running or waiting; try again later",
                                        entry->model.name, host.most_places()),
                 .code = "queue_full",
                 .retry_after = kBusySeconds};
}

void ModelTable::retire(Entry& entry) {
  EngineCounters counters = entry.host->inbox()->counters();
  add_counters(entry.before, counters);
  if (auto facts = entry.host->facts()) entry.facts = std::move(facts);
  entry.host->retire();
  retired_.push_back(std::move(entry.host));
}

void ModelTable::retire_all() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.host) retire(entry);
  }
}

void ModelTable::forget_ended() {
  std::erase_if(retired_, [](const auto& host) { return host->has_ended(); });
}

bool ModelTable::is_idle() const {
  const std::lock_guard lock(mutex_);
  const auto is_idle = [](const std::unique_ptr<ModelHost>& host) { return !host || host->is_idle(); };
  return std::ranges::all_of(entries_, is_idle, &Entry::host) && std::ranges::all_of(retired_, is_idle);
}

// Closes models that nobody uses, those first that were not asked for the longest.
std::optional<Refusal> ModelTable::make_room(ModelHost& asking, uint64_t bytes) {
  if (options_.model_budget == 0) return std::nullopt;
  if (bytes > options_.model_budget) {
    return Refusal{.status = 500,
                   .message = fmt::format("the model \"{}\" needs {} for its weights, and the server allows {} for all",
                                          asking.name(), human_size(bytes), human_size(options_.model_budget)),
                   .code = "model_too_large",
                   .may_retry = false};
  }
  const std::lock_guard lock(mutex_);
  for (;;) {
    uint64_t taken = bytes;
    Entry* oldest = nullptr;
    for (const auto& host : retired_) taken += host.get() != &asking && !host->is_idle() ? host->loaded_bytes() : 0;
    for (Entry& entry : entries_) {
      if (!entry.host || entry.host.get() == &asking) continue;
      const uint64_t loaded = entry.host->loaded_bytes();
      taken += loaded;
      const bool can_go = loaded != 0 && entry.host->is_idle();
      if (can_go && (oldest == nullptr || entry.last_use < oldest->last_use)) oldest = &entry;
    }
    if (taken <= options_.model_budget) {
      asking.claim(bytes);
      return std::nullopt;
    }
    if (oldest == nullptr) {
      return Refusal{
          .status = 503,
          .message = fmt::format("the model \"{}\" has to wait for memory that models in use hold; try again "
                                 "later",
                                 asking.name()),
          .code = std::string(kWaitsForMemory),
          .retry_after = 5};
    }
    retire(*oldest);
  }
}

std::vector<std::string> ModelTable::Line::all_names() const {
  std::vector<std::string> names = {name};
  names.insert(names.end(), aliases.begin(), aliases.end());
  return names;
}

std::vector<ModelTable::Line> ModelTable::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  for (const Entry& entry : entries_) {
    Line line{.name = entry.model.name, .aliases = entry.model.aliases, .counters = entry.before, .facts = entry.facts};
    if (entry.host) {
      line.is_open = entry.host->is_open();
      line.bytes = entry.host->loaded_bytes();
      if (auto facts = entry.host->facts()) line.facts = std::move(facts);
      const EngineCounters now = entry.host->inbox()->counters();
      add_counters(line.counters, now);
      line.counters.waiting = now.waiting;
      line.counters.running = now.running;
      line.counters.pool = now.pool;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ballast::serve
