// The part of Residency that reads pieces before they are asked for.
#include <algorithm>
#include <system_error>

#include "ballast/io/guard.h"
#include "ballast/params/residency.h"

namespace ballast {

namespace {

// Others give way only to what is used this soon: each piece that is here early keeps a place from one that could have
// stayed from pass to pass, and is read again for it.
constexpr uint64_t kGiveWaySteps = 2;
// Free memory may as well be filled.
constexpr uint64_t kFreeSteps = 8;

}  // namespace

void Residency::start_reader(const ResidencyOptions& options) {
  if (!options.read_ahead) return;
  for (size_t i = plan_.params.size(); options.keep && i-- > 0;) {
    const TiledParam& param = plan_.params[i];
    if (!param.stays || !options.keep(source_.params()[i].name)) continue;
    for (uint64_t tile = param.tile_count(); tile-- > 0;) {
      first_reads_.push_back({static_cast<uint32_t>(i), kTileForm, tile});
    }
  }
#if defined(__cpp_exceptions)  // where there are none, nor are there threads: the same holds
  try {
    reader_ = std::thread([this] { read_ahead_until_stopped(); });
  } catch (const std::system_error&) {  // no thread to be had: everything is read when it is asked for
  }
#endif
}

void Residency::stop_reader() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  work_came_.notify_one();
  if (reader_.joinable()) reader_.join();
}

void Residency::wake_reader() {
  if (reader_waits_ && next_to_read()) work_came_.notify_one();
}

void Residency::read_ahead_until_stopped() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (const std::optional<PieceId> next = next_to_read()) {
      // The error, if it lasts, comes to whoever asks for the piece.
      if (!guarded([&] { return read_ahead(lock, *next); })) reader_failed_ = true;
      continue;
    }
    reader_waits_ = true;
    work_came_.wait(lock);
    reader_waits_ = false;
  }
}

Status Residency::read_ahead(Lock& lock, const PieceId& id) {
  Buffer spare;
  if (!make_room(room_for(id), spare)) return no_room(id, room_for(id));
  BALLAST_TRY(Piece * piece, begin_reading(id, std::move(spare)));
  piece->read_ahead = true;
  return finish_reading(lock, piece);
}

std::optional<PieceId> Residency::next_first_read() {
  while (!first_reads_.empty() && find(first_reads_.back()) != nullptr) first_reads_.pop_back();
  if (first_reads_.empty()) return std::nullopt;
  if (fits(room_for(first_reads_.back()))) return first_reads_.back();
  first_reads_.clear();  // others were faster; it is read when it is used
  return std::nullopt;
}

std::optional<PieceId> Residency::next_to_read() {
  reader_lacks_room_ = false;
  if (reader_failed_) return std::nullopt;
  if (const auto id = next_first_read()) return id;
  for (uint64_t steps = 1; steps <= kFreeSteps; ++steps) {
    const std::optional<PieceId> id = expected(steps);
    if (!id) return std::nullopt;
    if (find(*id) != nullptr) continue;
    const uint64_t bytes = room_for(*id);
    if (fits(bytes) || (steps <= kGiveWaySteps && can_make_room_ahead(bytes, steps))) return id;
    reader_lacks_room_ = true;
    return std::nullopt;
  }
  return std::nullopt;
}

// What will be used so many uses from now: as in the last pass, or else the next tiles of the same parameter.
std::optional<PieceId> Residency::expected(uint64_t steps) const {
  if (making_ == 0 && order_.is_known()) return order_.ahead(steps);
  if (!latest_ || latest_->form != kTileForm) return std::nullopt;
  const uint64_t tile = latest_->tile + steps;
  const TiledParam& param = plan_.params[latest_->param];
  if (tile >= param.tile_count() || param.matrix_of(tile) != param.matrix_of(latest_->tile)) return std::nullopt;
  return PieceId{latest_->param, kTileForm, tile};
}

bool Residency::may_give_way(const Piece& piece, uint64_t steps) const {
  if (!can_go(piece)) return false;
  return order_.is_known() ? farness(piece) > std::max(steps, kGiveWaySteps) : !piece.read_ahead;
}

bool Residency::can_make_room_ahead(uint64_t bytes, uint64_t steps) const {
  uint64_t room = plan_.budget - resident_;
  for (const Piece* tile : tiles_) {
    if (room >= bytes) break;
    if (may_give_way(*tile, steps)) room += tile->buffer.capacity();
  }
  return room >= bytes;
}

}  // namespace ballast
