// Who is computed next, and whose pages go when there are too few.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ballast/engine/engine_text.h"

namespace ballast {

class Scheduler {
 public:
  Scheduler(const CausalLm& model, std::shared_ptr<KvPool> pool, const EngineOptions& options, EngineCounters& counters)
      : model_(model), pool_(std::move(pool)), options_(options), counters_(counters) {}

  // In order: those of higher priority first, then those that came before.
  std::span<const std::unique_ptr<EngineText>> texts() const { return texts_; }
  void add(std::unique_ptr<EngineText> text);
  void remove(const EngineText& text);
  EngineText* find(RequestId id) const;
  using Phase = EngineText::Phase;
  uint64_t count(Phase phase) const;

  // The rows of the next pass, with pages for each of them; a chunk for which there can be none has an error.
  std::vector<TextChunk> plan();

 private:
  void admit_waiting();
  bool admit(EngineText& text);
  bool fits(const EngineText& text) const;
  uint64_t bytes_to_come(const EngineText& text) const;
  bool awaits_prefix(const EngineText& text) const;

  std::vector<TextChunk> choose() const;
  TextChunk chunk_of(EngineText& text, uint64_t most_rows) const;
  void reserve(std::vector<TextChunk>& chunks);
  Status reserve_for(TextChunk& chunk);
  EngineText& last_holder(EngineText& asking) const;
  EngineText* last_running_below(int priority) const;
  void put_aside(EngineText& text);

  const CausalLm& model_;
  std::shared_ptr<KvPool> pool_;
  EngineOptions options_;
  EngineCounters& counters_;
  std::vector<std::unique_ptr<EngineText>> texts_;
};

}  // namespace ballast
