// The models of a service by their names: opened on first use, closed when others need the memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/serve/model_host.h"

namespace ballast::serve {

// Places of a model's host, which stays open meanwhile.
class Lease {
 public:
  Lease(ModelHost& host, uint64_t places) : host_(&host), places_(places) {}
  Lease(Lease&& other) noexcept : host_(std::exchange(other.host_, nullptr)), places_(other.places_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (host_ != nullptr) host_->give_places(places_);
  }
  ModelHost& host() const { return *host_; }

 private:
  ModelHost* host_;
  uint64_t places_;
};

// Requests of one API key at a time. Any thread may call it.
class KeyLimit {
 public:
  explicit KeyLimit(uint64_t most) : most_(most) {}

  class Place {
   public:
    Place(std::shared_ptr<KeyLimit> limit, std::string key) : limit_(std::move(limit)), key_(std::move(key)) {}
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (limit_) limit_->give(key_);
    }

   private:
    std::shared_ptr<KeyLimit> limit_;
    std::string key_;
  };
  // nullopt: the key has as many as it may.
  static std::optional<Place> take(const std::shared_ptr<KeyLimit>& limit, const std::string& key);

 private:
  void give(const std::string& key);

  const uint64_t most_;
  std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> taken_;
};

// What a request holds until it is over.
struct Ticket {
  Lease lease;
  KeyLimit::Place key;
};

Refusal unknown_model(std::string_view name);

// Of a model that would fit, were it not for others that are in use.
inline constexpr std::string_view kWaitsForMemory = "model_budget";

// Any thread may call it.
class ModelTable {
 public:
  // `options` must outlive it.
  explicit ModelTable(const ServiceOptions& options);
  ~ModelTable();

  // An empty name means the first model. 404 and 429 where there is none, or no room.
  std::variant<Lease, Refusal> acquire(std::string_view name, uint64_t places);
  // To have it loaded, also where clients have taken all places.
  std::variant<Lease, Refusal> acquire_to_load(std::string_view name);
  // What the model is called that clients know by this name, too; empty: there is none.
  std::string name_of(std::string_view name) const;
  void retire_all();
  bool is_idle() const;

  struct Line {
    std::string name;
    std::vector<std::string> aliases;
    bool is_open = false;
    uint64_t bytes = 0;
    EngineCounters counters{};
    std::optional<ModelFacts> facts{};  // of the last time that it was open

    // The name, then the aliases.
    std::vector<std::string> all_names() const;
  };
  std::vector<Line> lines() const;

 private:
  struct Entry {
    ServedModel model;
    std::unique_ptr<ModelHost> host{};
    uint64_t last_use = 0;
    EngineCounters before{};  // of hosts that are gone
    std::optional<ModelFacts> facts{};
  };
  const Entry* find_exactly(std::string_view name) const;
  const Entry* find(std::string_view name) const;
  Entry* find_hosted(std::string_view name);
  std::optional<Refusal> make_room(ModelHost& asking, uint64_t bytes);
  void retire(Entry& entry);
  void forget_ended();

  const ServiceOptions& options_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<ModelHost>> retired_;
  uint64_t uses_ = 0;
};

}  // namespace ballast::serve
