#include "ballast/params/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "ballast/io/guard.h"

namespace ballast {

namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Residency::Residency(const ParamSource& source, TilePlan plan, const ResidencyOptions& options)
    : source_(source), plan_(std::move(plan)) {
  stats_.budget = plan_.budget;
  start_reader(options);
}

Residency::~Residency() { stop_reader(); }

// ---------------------------------------------------------------- taking and giving back

Result<Residency::Piece*> Residency::acquire_tile(size_t param, uint64_t tile) {
  return acquire({static_cast<uint32_t>(param), kTileForm, tile});
}

Result<Residency::Piece*> Residency::acquire_whole(size_t param) {
  const bool is_tile = plan_.params[param].tile_count() == 1;
  return acquire({static_cast<uint32_t>(param), is_tile ? kTileForm : kWholeForm, 0});
}

Result<Residency::Piece*> Residency::acquire(const PieceId& id) {
  Lock lock(mutex_);
  latest_ = id;
  // What a derived form reads while it is made does not come again, and what stays is not in question.
  if (making_ == 0 && !plan_.params[id.param].stays) order_.record(id);
  if (Piece* piece = find(id); piece != nullptr && piece->ready) {
    ++stats_.hits;
    take(piece);
    wake_reader();
    return piece;
  }
  ++stats_.misses;
  ++stats_.waits;
  const Stopwatch waiting;
  Result<Piece*> piece = read_now(lock, id);
  stats_.wait_seconds += waiting.seconds();
  return piece;
}

Result<Residency::Piece*> Residency::read_now(Lock& lock, const PieceId& id) {
  for (;;) {
    Piece* piece = find(id);
    if (piece != nullptr && piece->ready) {
      take(piece);
      wake_reader();
      return piece;
    }
    if (Buffer spare; piece == nullptr && make_room(room_for(id), spare)) {
      BALLAST_TRY(piece, begin_reading(id, std::move(spare)));
      wake_reader();  // the next piece can be read at the same time
      BALLAST_CHECK(finish_reading(lock, piece));
      reader_failed_ = false;
      return take(piece);
    }
    // Another thread reads this piece, or one that will make room when it was read.
    if (reading_ == 0) return no_room(id, room_for(id));
    changed_.wait(lock);
  }
}

Result<Residency::Piece*> Residency::acquire_derived(size_t param, std::string_view form, uint64_t bytes,
                                                     const std::function<Status(MutableByteSpan)>& make) {
  Lock lock(mutex_);
  const PieceId id{static_cast<uint32_t>(param), form_number(param, form), 0};
  Piece* piece = nullptr;
  for (;;) {
    piece = find(id);
    if (piece != nullptr && piece->ready) {
      ++stats_.hits;
      return take(piece);
    }
    if (Buffer spare; piece == nullptr) {
      if (!has_room_for_derived(bytes)) return nullptr;
      if (make_room(Buffer::capacity_for(bytes), spare)) {
        BALLAST_TRY(piece, begin(id, bytes, Piece::Kind::kDerived, std::move(spare)));
        break;
      }
      if (reading_ == 0) return nullptr;
    }
    changed_.wait(lock);
  }
  ++stats_.misses;
  ++making_;
  lock.unlock();
  Status status = guarded([&] { return make(MutableByteSpan(piece->buffer.data(), static_cast<size_t>(bytes))); });
  lock.lock();
  --making_;
  changed_.notify_all();
  if (!status) {
    drop(piece);
    return std::move(status).error();
  }
  piece->ready = true;
  idle_bytes_ += piece->buffer.capacity();
  return take(piece);
}

Residency::Piece* Residency::take(Piece* piece) {
  if (piece->leases++ == 0) idle_bytes_ -= piece->buffer.capacity();
  piece->last_used = ++clock_;
  piece->read_ahead = false;
  return piece;
}

void Residency::release(Piece* piece) {
  const Lock lock(mutex_);
  if (--piece->leases != 0) return;
  idle_bytes_ += piece->buffer.capacity();
  changed_.notify_all();
  if (reader_lacks_room_) wake_reader();
}

Status Residency::read_row(size_t param, uint64_t row, MutableByteSpan out) {
  const TiledParam& tiled = plan_.params[param];
  const uint64_t tile = row / tiled.tile_rows;
  const auto copy_from = [&](const Piece& piece) {
    const uint64_t offset = (row - tiled.tile_begin(tile)) * tiled.rows.bytes_each;
    std::memcpy(out.data(), piece.buffer.data() + offset, out.size());
  };
  if (tiled.stays || tiled.read_extra != 0) {
    BALLAST_TRY(Piece * piece, acquire_tile(param, tile));
    copy_from(*piece);
    release(piece);
    return {};
  }
  Lock lock(mutex_);
  const Piece* piece = find({static_cast<uint32_t>(param), kTileForm, tile});
  if (piece != nullptr && piece->ready) {
    ++stats_.hits;
    copy_from(*piece);
    return {};
  }
  ++stats_.misses;
  ++stats_.waits;
  lock.unlock();
  const Stopwatch waiting;
  Status status = source_.read(param, row * tiled.rows.bytes_each, out);
  lock.lock();
  stats_.wait_seconds += waiting.seconds();
  if (status) stats_.bytes_read += out.size();
  return status;
}

ResidencyStats Residency::stats() const {
  const Lock lock(mutex_);
  ResidencyStats stats = stats_;
  stats.resident = resident_;
  return stats;
}

// ---------------------------------------------------------------- pieces

Residency::Piece* Residency::find(const PieceId& id) const {
  const auto found = pieces_.find(id);
  return found == pieces_.end() ? nullptr : found->second.get();
}

uint32_t Residency::form_number(size_t param, std::string_view form) {
  std::vector<std::string>& names = forms_[param];
  const auto found = std::ranges::find(names, form);
  const auto number = static_cast<uint32_t>(found - names.begin());
  if (found == names.end()) names.emplace_back(form);
  return kFirstDerivedForm + number;
}

Residency::ByteRange Residency::range_of(const PieceId& id) const {
  const TiledParam& param = plan_.params[id.param];
  if (id.form == kWholeForm) return {0, param.bytes};
  const uint64_t begin = param.tile_begin(id.tile);
  return {begin * param.rows.bytes_each, (param.tile_end(id.tile) - begin) * param.rows.bytes_each};
}

uint64_t Residency::room_for(const PieceId& id) const {
  return Buffer::capacity_for(range_of(id).bytes) + plan_.params[id.param].read_extra;
}

void Residency::count(uint64_t bytes) {
  resident_ += bytes;
  stats_.peak = std::max(stats_.peak, resident_);
}

// There must be room for it. `spare` is memory of what went.
Result<Residency::Piece*> Residency::begin(const PieceId& id, uint64_t bytes, Piece::Kind kind, Buffer spare) {
  spare.resize(bytes);
  if (spare.empty()) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("{}: parameter \"{}\": not enough memory for {} bytes",
                                                           source_.name(), source_.params()[id.param].name, bytes));
  }
  if (tiles_.size() == tiles_.capacity()) tiles_.reserve(2 * tiles_.size() + 16);  // what may fail comes first
  Piece* piece = pieces_.emplace(id, std::make_unique<Piece>()).first->second.get();
  piece->id = id;
  piece->kind = kind;
  piece->bytes = bytes;
  piece->buffer = std::move(spare);
  piece->place = tiles_.size();
  if (kind == Piece::Kind::kTile) tiles_.push_back(piece);
  if (kind == Piece::Kind::kDerived) derived_bytes_ += piece->buffer.capacity();
  count(piece->buffer.capacity());
  return piece;
}

Result<Residency::Piece*> Residency::begin_reading(const PieceId& id, Buffer spare) {
  const TiledParam& param = plan_.params[id.param];
  const auto kind = param.stays && id.form == kTileForm ? Piece::Kind::kStays : Piece::Kind::kTile;
  BALLAST_TRY(Piece * piece, begin(id, range_of(id).bytes, kind, std::move(spare)));
  piece->read_extra = param.read_extra;
  count(param.read_extra);
  ++reading_;
  return piece;
}

// Lets others in while it reads. The piece is gone when this fails.
Status Residency::finish_reading(Lock& lock, Piece* piece) {
  const MutableByteSpan out(piece->buffer.data(), static_cast<size_t>(piece->bytes));
  const uint64_t offset = range_of(piece->id).offset;
  lock.unlock();
  Status status = guarded([&] { return source_.read(piece->id.param, offset, out); });
  lock.lock();
  --reading_;
  resident_ -= std::exchange(piece->read_extra, 0);
  changed_.notify_all();
  if (!status) {
    drop(piece);
    return status;
  }
  stats_.bytes_read += out.size();
  piece->ready = true;
  idle_bytes_ += piece->buffer.capacity();
  return {};
}

void Residency::drop(Piece* piece) {
  const uint64_t capacity = piece->buffer.capacity();
  resident_ -= capacity;
  if (piece->ready) idle_bytes_ -= capacity;
  if (piece->kind == Piece::Kind::kDerived) derived_bytes_ -= capacity;
  if (piece->kind == Piece::Kind::kTile) {
    tiles_[piece->place] = tiles_.back();
    tiles_[piece->place]->place = piece->place;
    tiles_.pop_back();
  }
  pieces_.erase(PieceId(piece->id));
}

// ---------------------------------------------------------------- making room

// How far away the next use is; the farthest gives way.
uint64_t Residency::farness(const Piece& piece) const {
  if (order_.is_known()) {
    // Not in what repeats: perhaps never again, the longest unused least likely.
    const uint64_t never = std::numeric_limits<uint64_t>::max() - piece.last_used;
    return order_.next_use(piece.id).value_or(never);
  }
  // In the first pass: what was used just now comes last in the next one.
  return piece.read_ahead ? 0 : piece.last_used;
}

Residency::Piece* Residency::first_to_go() const {
  Piece* first = nullptr;
  uint64_t farthest = 0;
  for (Piece* tile : tiles_) {
    if (!can_go(*tile)) continue;
    const uint64_t here = farness(*tile);
    if (first != nullptr && here <= farthest) continue;
    first = tile;
    farthest = here;
  }
  if (first != nullptr) return first;
  for (const auto& [id, piece] : pieces_) {
    if (!can_go(*piece)) continue;
    const auto rank = [](const Piece& p) { return std::pair(p.kind, p.last_used); };
    if (first == nullptr || rank(*piece) < rank(*first)) first = piece.get();
  }
  return first;
}

// False, and nothing has gone, where there cannot be so much room now. Memory of what went goes into `spare`.
bool Residency::make_room(uint64_t bytes, Buffer& spare) {
  if (bytes > plan_.budget - resident_ + idle_bytes_) return false;
  while (!fits(bytes)) {
    Piece* piece = first_to_go();
    if (piece == nullptr) return false;
    ++stats_.evictions;
    Buffer freed;
    std::swap(freed, piece->buffer);
    resident_ -= freed.capacity();
    idle_bytes_ -= freed.capacity();
    if (piece->kind == Piece::Kind::kDerived) derived_bytes_ -= freed.capacity();
    drop(piece);
    if (freed.capacity() > spare.capacity()) std::swap(spare, freed);
  }
  return true;
}

// Derived forms leave room for the working set, for what stays, and for some tiles to be kept between passes.
bool Residency::has_room_for_derived(uint64_t bytes) const {
  const uint64_t taken = plan_.staying + derived_bytes_ + std::max(plan_.working_set, plan_.budget / 4);
  return taken <= plan_.budget && Buffer::capacity_for(bytes) <= plan_.budget - taken;
}

Error Residency::no_room(const PieceId& id, uint64_t bytes) const {
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "{}: parameter \"{}\": {} bytes do not fit into the budget of {} bytes, of which {} are in use at this "
          "moment; a budget of {} bytes would do",
          source_.name(), source_.params()[id.param].name, bytes, plan_.budget, resident_ - idle_bytes_,
          resident_ - idle_bytes_ + bytes));
}

}  // namespace ballast
