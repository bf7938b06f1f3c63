#include "ballast/engine/scheduler.h"

#include <algorithm>
#include <ranges>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

// Of prompts, in a pass in which others are being written: each of them waits for the whole pass. Twice as many take
// nearly twice as long, and far fewer cost speed, since every pass unpacks the weights anew.
constexpr uint64_t kPromptRowsBesideTexts = 2 * kPagePositions;

bool holds_pages(const EngineText& text) { return text.past && text.past->bytes() > 0; }

}  // namespace

// ---------------------------------------------------------------- the texts

void Scheduler::add(std::unique_ptr<EngineText> text) {
  const auto place = std::ranges::find_if(texts_, [&](const auto& other) { return text->goes_before(*other); });
  texts_.insert(place, std::move(text));
}

void Scheduler::remove(const EngineText& text) {
  for (const auto& other : texts_) {
    if (other->leader != text.id) continue;
    other->leader = 0;
    other->phase = Phase::kWaiting;
  }
  std::erase_if(texts_, [&](const auto& other) { return other.get() == &text; });
}

EngineText* Scheduler::find(RequestId id) const {
  const auto found = std::ranges::find_if(texts_, [id](const auto& text) { return text->id == id; });
  return found != texts_.end() ? found->get() : nullptr;
}

uint64_t Scheduler::count(Phase phase) const {
  return static_cast<uint64_t>(std::ranges::count_if(texts_, [phase](const auto& t) { return t->phase == phase; }));
}

std::vector<TextChunk> Scheduler::plan() {
  admit_waiting();
  std::vector<TextChunk> chunks = choose();
  reserve(chunks);
  return chunks;
}

// ---------------------------------------------------------------- who may begin

void Scheduler::admit_waiting() {
  for (const auto& text : texts_) {
    if (text->phase != Phase::kWaiting || awaits_prefix(*text)) continue;
    // Nobody overtakes a text for which there is no room: it would never find any.
    if (!admit(*text)) return;
  }
}

// Pages that it takes up stay with it while it waits: it is the next to begin. A copy has to wait until there is room.
bool Scheduler::admit(EngineText& text) {
  if (text.past) text.past->adopt_pages(text.window(model_));
  while (!fits(text)) {
    EngineText* const victim = last_running_below(text.request.priority);
    if (victim == nullptr) return false;
    put_aside(*victim);
  }
  if (text.past) text.past->adopt_end(text.window(model_));
  if (text.furthest == text.reused && text.reused < text.computed()) {  // nothing of it was computed for it yet
    counters_.reused_tokens += text.computed() - text.reused;
    text.reused = text.computed();
  }
  text.furthest = std::max(text.furthest, text.computed());
  text.phase = Phase::kRunning;
  return true;
}

// With one page more than the text needs now, so that it does not have to be put aside again at once.
uint64_t Scheduler::bytes_to_come(const EngineText& text) const {
  if (!text.past) return 0;
  const uint64_t positions = std::min(text.window(model_).size() + kPagePositions, model_.context_length());
  const uint64_t bytes = pool_->layout().bytes_for(positions).value_or(UINT64_MAX);
  return bytes - std::min(bytes, text.past->bytes());
}

bool Scheduler::fits(const EngineText& text) const {
  const uint64_t running = count(Phase::kRunning);
  if (running == 0) return true;  // there is nobody to wait for
  if (running >= options_.most_sequences) return false;
  uint64_t free = pool_->free_bytes();
  for (const auto& other : texts_) {
    if (other->phase == Phase::kRunning) free -= std::min(free, bytes_to_come(*other));
  }
  return bytes_to_come(text) <= free;
}

// Whether one before it is computing whole pages that it could take over. For a part of a page nobody waits: its few
// rows join the next step instead. What is known of such a part by then is taken up all the same.
bool Scheduler::awaits_prefix(const EngineText& text) const {
  if (!options_.share_prefixes || !text.past || text.computed() != 0) return false;
  const auto seen = text.window(model_);
  for (const auto& other : texts_) {
    if (other.get() == &text) return false;
    if (other->phase != Phase::kRunning || !other->past || other->past->kind() != text.past->kind()) continue;
    const auto alike = std::ranges::mismatch(seen.first(seen.size() - 1), other->window(model_)).in1 - seen.begin();
    const uint64_t shared = static_cast<uint64_t>(alike) / kPagePositions * kPagePositions;
    if (other->computed() < shared) return true;
  }
  return false;
}

// ---------------------------------------------------------------- who is computed

// Texts that are being written before prompts: a long prompt does not hold them up.
std::vector<TextChunk> Scheduler::choose() const {
  std::vector<TextChunk> chunks;
  uint64_t rows = options_.most_rows;
  for (const bool is_prompt : {false, true}) {
    if (is_prompt && !chunks.empty()) rows = std::min(rows, kPromptRowsBesideTexts);
    for (const auto& text : texts_) {
      if (text->phase != Phase::kRunning || rows == 0 || chunks.size() == options_.most_sequences) continue;
      text->leave_one(model_);
      if ((text->window(model_).size() - text->computed() > 1) != is_prompt) continue;
      chunks.push_back(chunk_of(*text, rows));
      rows -= std::min(rows, chunks.back().rows);
    }
  }
  return chunks;
}

TextChunk Scheduler::chunk_of(EngineText& text, uint64_t most_rows) const {
  const uint64_t length = text.window(model_).size();
  if (!text.past) return {.text = &text, .rows = length, .text_length = length, .reaches_end = true};
  const uint64_t position = text.computed();
  uint64_t rows = std::min(length - position, most_rows);
  // Rows behind the base had a pass of their own each when they were written, with the length that the text had then.
  const auto length_at = [&](uint64_t end) { return std::max(text.base_length, end); };
  const uint64_t kind = model_.length_kind(length_at(position + 1));
  while (rows > 1 && model_.length_kind(length_at(position + rows)) != kind) --rows;
  return {
      .text = &text, .rows = rows, .text_length = length_at(position + rows), .reaches_end = position + rows == length};
}

// ---------------------------------------------------------------- pages

void Scheduler::reserve(std::vector<TextChunk>& chunks) {
  for (TextChunk& chunk : chunks) {
    if (chunk.text->phase != Phase::kRunning) continue;  // put aside for one before it
    if (Status reserved = reserve_for(chunk); !reserved) chunk.error = std::move(reserved).error();
  }
  std::erase_if(chunks, [](const TextChunk& chunk) { return chunk.text->phase != Phase::kRunning; });
}

Status Scheduler::reserve_for(TextChunk& chunk) {
  EngineText& text = *chunk.text;
  while (text.past) {
    Status reserved = text.past->reserve(chunk.rows);
    if (reserved || reserved.error().code != ErrorCode::kOutOfMemory) return reserved;
    const bool is_alone =
        std::ranges::none_of(texts_, [&](const auto& other) { return other.get() != &text && holds_pages(*other); });
    if (is_alone && chunk.rows == 1) return reserved;
    if (is_alone) {  // layers with a window need less for a shorter piece
      chunk = chunk_of(text, chunk.rows / 2);
      continue;
    }
    EngineText& victim = last_holder(text);
    put_aside(victim);
    if (&victim == &text) return {};
  }
  return {};
}

// The last in order of those that have pages, and of the one that asks for some. Who waits may have pages too, of a
// text before.
EngineText& Scheduler::last_holder(EngineText& asking) const {
  for (const auto& text : texts_ | std::views::reverse) {
    if (text.get() == &asking || holds_pages(*text)) return *text;
  }
  return asking;
}

EngineText* Scheduler::last_running_below(int priority) const {
  for (const auto& text : texts_ | std::views::reverse) {
    if (text->phase == Phase::kRunning && text->request.priority < priority) return text.get();
  }
  return nullptr;
}

void Scheduler::put_aside(EngineText& text) {
  if (text.past) text.past->clear(text.past->kind());
  if (text.phase != Phase::kRunning) return;
  text.phase = Phase::kWaiting;
  ++counters_.preemptions;
}

}  // namespace ballast
