#include "ballast/params/param_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <ranges>

#include "ballast/base/near_miss.h"
#include "ballast/formats/id_index.h"
#include "ballast/io/guard.h"
#include "ballast/params/buffer.h"
#include "ballast/params/residency.h"
#include "ballast/params/tile_plan.h"

namespace ballast {

namespace {

// A derived form of a store without a budget. Never changes and never goes once others can see it.
struct StayingForm {
  std::string name;
  uint64_t bytes = 0;
  Buffer buffer;
  StayingForm* next = nullptr;
};

// What a store knows of a parameter. Without a budget the path of a use is one look at `data`: no lock, no search.
struct Entry {
  ParamRows rows;
  uint64_t bytes = 0;
  std::atomic<const std::byte*> data{nullptr};  // of all rows, once they were touched; never with a budget
  std::atomic<StayingForm*> forms{nullptr};
  std::atomic<uint32_t> uses{0};  // ParamStore::derived_uses
};

Error out_of_memory(const ParamSource& source, size_t index, uint64_t bytes) {
  return make_error(ErrorCode::kOutOfMemory, fmt::format("{}: parameter \"{}\": not enough memory for {} bytes",
                                                         source.name(), source.params()[index].name, bytes));
}

const std::byte kNothing{};

// blocks.0.w is one letter away from blocks.1.w, but nobody who asks for the one means the other.
bool has_same_digits(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::equal(a | std::views::filter(is_digit), b | std::views::filter(is_digit));
}

}  // namespace

struct ParamStore::State {
  std::shared_ptr<const ParamSource> source;
  ModelNamespaceId model;
  std::unique_ptr<Entry[]> entries;
  std::unique_ptr<Residency> residency;  // null without a budget

  // Without a budget: what was read because it could not be mapped, and derived forms.
  std::mutex mutex;
  std::vector<Buffer> read;
  std::vector<std::unique_ptr<StayingForm>> forms;
  std::map<const void*, std::shared_ptr<void>> on_devices;
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> resident{0};

  const TensorInfo& info(size_t index) const { return source->params()[index]; }

  // The parameter in memory for as long as the store lives: its mapping, or a copy where there is none.
  Result<const std::byte*> touch(size_t index) {
    Entry& entry = entries[index];
    if (const std::byte* data = entry.data.load(std::memory_order_acquire)) {
      hits.fetch_add(1, std::memory_order_relaxed);
      return data;
    }
    const std::lock_guard lock(mutex);
    const std::byte* data = entry.data.load(std::memory_order_relaxed);
    if (data == nullptr) {
      BALLAST_TRY(data, guarded([&] { return first_touch(index); }));
      entry.data.store(data, std::memory_order_release);
    } else {
      hits.fetch_add(1, std::memory_order_relaxed);
    }
    return data;
  }

  Result<const std::byte*> first_touch(size_t index) {
    const uint64_t bytes = entries[index].bytes;
    const auto view = source->view(index);
    if (view || bytes == 0) {
      hits.fetch_add(1, std::memory_order_relaxed);
      return bytes == 0 ? &kNothing : view->data();
    }
    Buffer buffer(bytes);
    if (buffer.empty()) return out_of_memory(*source, index, bytes);
    misses.fetch_add(1, std::memory_order_relaxed);
    BALLAST_CHECK(source->read(index, 0, MutableByteSpan(buffer.data(), static_cast<size_t>(bytes))));
    bytes_read.fetch_add(bytes, std::memory_order_relaxed);
    resident.fetch_add(buffer.capacity(), std::memory_order_relaxed);
    return read.emplace_back(std::move(buffer)).data();
  }

  const StayingForm* find_form(size_t index, std::string_view name) const {
    const StayingForm* form = entries[index].forms.load(std::memory_order_acquire);
    while (form != nullptr && form->name != name) form = form->next;
    return form;
  }

  Result<const StayingForm*> make_form(const Param& param, size_t index, const DerivedForm& wanted) {
    auto form = std::make_unique<StayingForm>();
    form->name = wanted.name;
    form->bytes = wanted.bytes;
    form->buffer = Buffer(wanted.bytes);
    if (form->buffer.empty()) return out_of_memory(*source, index, wanted.bytes);
    BALLAST_CHECK(wanted.make(param, MutableByteSpan(form->buffer.data(), static_cast<size_t>(wanted.bytes))));
    misses.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex);
    if (const StayingForm* made = find_form(index, wanted.name)) return made;  // another thread was faster
    StayingForm* made = forms.emplace_back(std::move(form)).get();
    made->next = entries[index].forms.load(std::memory_order_relaxed);
    entries[index].forms.store(made, std::memory_order_release);
    resident.fetch_add(made->buffer.capacity(), std::memory_order_relaxed);
    return made;
  }

  Error past_the_end(size_t index, uint64_t row) const {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: parameter \"{}\" {} has {} rows, and row {} was asked for", source->name(),
                                  info(index).name, info(index).shape.to_string(), entries[index].rows.count, row));
  }
};

// ---------------------------------------------------------------- Param, Lease

const TensorInfo& Param::info() const { return store_->state_->info(index_); }
uint64_t Param::rows() const { return store_->state_->entries[index_].rows.count; }
uint64_t Param::row_bytes() const { return store_->state_->entries[index_].rows.bytes_each; }

void Lease::release() { store_->state_->residency->release(static_cast<Residency::Piece*>(piece_)); }

// ---------------------------------------------------------------- ParamStore

Error ParamStore::not_mine() const {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a parameter of another model was asked for", state_->source->name()));
}

ParamStore::ParamStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
ParamStore::~ParamStore() = default;

Result<std::unique_ptr<ParamStore>> ParamStore::open(std::shared_ptr<const ParamSource> source,
                                                     const ResidencyOptions& options,
                                                     std::optional<ModelNamespaceId> model) {
  return guarded([&]() -> Result<std::unique_ptr<ParamStore>> {
    auto state = std::make_unique<State>();
    const auto params = source->params();
    state->entries = std::make_unique<Entry[]>(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      state->entries[i].rows = param_rows(params[i]);
      state->entries[i].bytes = params[i].byte_size;
    }
    if (options.budget) {
      BALLAST_TRY(TilePlan plan, plan_tiles(*source, options, *options.budget));
      state->residency = std::make_unique<Residency>(*source, std::move(plan), options);
    }
    state->source = std::move(source);
    state->model = model ? *model : next_model_namespace();
    return std::unique_ptr<ParamStore>(new ParamStore(std::move(state)));
  });
}

const ParamSource& ParamStore::source() const { return *state_->source; }
const ModelNamespaceId& ParamStore::model() const { return state_->model; }
bool ParamStore::has_budget() const { return state_->residency != nullptr; }

Result<Param> ParamStore::get(std::string_view name) {
  if (const auto index = state_->source->find(name)) {
    return Param(this, *index, param_key(state_->model, base_param_id(name)));
  }
  std::vector<std::string_view> names;
  for (const TensorInfo& info : state_->source->params()) {
    if (has_same_digits(name, info.name)) names.emplace_back(info.name);
  }
  const std::string_view meant = nearest(name, names);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: there is no parameter \"{}\"{}", state_->source->name(), name,
                                meant.empty() ? "" : fmt::format("; did you mean \"{}\"?", meant)));
}

Result<Param> ParamStore::get(const BaseParamId& id) {
  return guarded([&]() -> Result<Param> {
    const ParamSource& params = source();
    if (const auto index = params.find(id)) return Param(this, *index, param_key(state_->model, id));
    std::string text = fmt::format("{}: no parameter has the id {}", params.name(), id.to_bytes_hex());
    if (const auto meant = nearest_id(params.params(), id)) {
      const std::string& name = params.params()[*meant].name;
      text += fmt::format("; did you mean {}, the id of \"{}\"?", base_param_id(name).to_bytes_hex(), name);
    }
    return make_error(ErrorCode::kNotFound, std::move(text));
  });
}

Result<Lease> ParamStore::rows(const Param& param, uint64_t first_row) {
  if (param.store_ != this) return not_mine();
  const size_t index = param.index_;
  const Entry& entry = state_->entries[index];
  if (first_row >= entry.rows.count) return state_->past_the_end(index, first_row);
  const uint64_t offset = first_row * entry.rows.bytes_each;
  if (state_->residency == nullptr || entry.bytes == 0) {
    BALLAST_TRY(const std::byte* data, state_->touch(index));
    return Lease(ByteSpan(data + offset, static_cast<size_t>(entry.bytes - offset)), first_row,
                 entry.rows.count - first_row);
  }
  return guarded([&]() -> Result<Lease> {
    const TiledParam& tiled = state_->residency->param(index);
    const uint64_t tile = first_row / tiled.tile_rows;
    BALLAST_TRY(Residency::Piece * piece, state_->residency->acquire_tile(index, tile));
    const uint64_t skipped = offset - tiled.tile_begin(tile) * entry.rows.bytes_each;
    Lease lease(ByteSpan(piece->buffer.data() + skipped, static_cast<size_t>(piece->bytes - skipped)), first_row,
                tiled.tile_end(tile) - first_row);
    lease.store_ = this;
    lease.piece_ = piece;
    return lease;
  });
}

Result<Lease> ParamStore::whole(const Param& param) {
  if (param.store_ != this) return not_mine();
  const size_t index = param.index_;
  const Entry& entry = state_->entries[index];
  if (state_->residency == nullptr || entry.bytes == 0) {
    BALLAST_TRY(const std::byte* data, state_->touch(index));
    return Lease(ByteSpan(data, static_cast<size_t>(entry.bytes)), 0, entry.rows.count);
  }
  return guarded([&]() -> Result<Lease> {
    BALLAST_TRY(Residency::Piece * piece, state_->residency->acquire_whole(index));
    Lease lease(ByteSpan(piece->buffer.data(), static_cast<size_t>(piece->bytes)), 0, entry.rows.count);
    lease.store_ = this;
    lease.piece_ = piece;
    return lease;
  });
}

Status ParamStore::read_row(const Param& param, uint64_t row, MutableByteSpan out) {
  if (param.store_ != this) return not_mine();
  const size_t index = param.index_;
  const Entry& entry = state_->entries[index];
  if (row >= entry.rows.count) return state_->past_the_end(index, row);
  if (out.size() != entry.rows.bytes_each) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: a row of parameter \"{}\" has {} bytes, the buffer {}", state_->source->name(),
                                  param.name(), entry.rows.bytes_each, out.size()));
  }
  if (out.empty()) return {};
  if (state_->residency != nullptr) return guarded([&] { return state_->residency->read_row(index, row, out); });
  const uint64_t offset = row * entry.rows.bytes_each;
  const std::byte* data = entry.data.load(std::memory_order_acquire);
  if (data == nullptr && state_->source->reads_parts(index) && !state_->source->view(index)) {
    state_->misses.fetch_add(1, std::memory_order_relaxed);
    BALLAST_CHECK(state_->source->read(index, offset, out));
    state_->bytes_read.fetch_add(out.size(), std::memory_order_relaxed);
    return {};
  }
  BALLAST_TRY(data, state_->touch(index));
  std::memcpy(out.data(), data + offset, out.size());
  return {};
}

Result<std::optional<Lease>> ParamStore::derived(const Param& param, const DerivedForm& form) {
  if (param.store_ != this) return not_mine();
  if (!source().is_constant()) return std::optional<Lease>();
  const size_t index = param.index_;
  if (state_->residency == nullptr) {
    const StayingForm* staying = state_->find_form(index, form.name);
    if (staying != nullptr) state_->hits.fetch_add(1, std::memory_order_relaxed);
    else BALLAST_CHECK(guarded([&] { return assign(staying, state_->make_form(param, index, form)); }));
    return std::optional(Lease(ByteSpan(staying->buffer.data(), static_cast<size_t>(staying->bytes)), 0, param.rows()));
  }
  return guarded([&]() -> Result<std::optional<Lease>> {
    const auto make = [&](MutableByteSpan out) { return form.make(param, out); };
    BALLAST_TRY(Residency::Piece * piece, state_->residency->acquire_derived(index, form.name, form.bytes, make));
    if (piece == nullptr) return std::optional<Lease>();
    Lease lease(ByteSpan(piece->buffer.data(), static_cast<size_t>(piece->bytes)), 0, param.rows());
    lease.store_ = this;
    lease.piece_ = piece;
    return std::optional(std::move(lease));
  });
}

std::atomic<uint32_t>& ParamStore::derived_uses(const Param& param) { return state_->entries[param.index_].uses; }

std::shared_ptr<void> ParamStore::on_device(const void* device, const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(state_->mutex);
  std::shared_ptr<void>& kept = state_->on_devices[device];
  if (kept == nullptr) kept = make();
  return kept;
}

ResidencyStats ParamStore::stats() const {
  if (state_->residency != nullptr) return state_->residency->stats();
  ResidencyStats stats;
  stats.resident = stats.peak = state_->resident.load(std::memory_order_relaxed);
  stats.bytes_read = state_->bytes_read.load(std::memory_order_relaxed);
  stats.hits = state_->hits.load(std::memory_order_relaxed);
  stats.misses = state_->misses.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace ballast
