// Which pieces of parameters are in memory under a budget, and which go when others come.
//
// Everything that holds bytes of a parameter is a piece: a tile of rows, a whole parameter, a derived form. Memory is
// counted before it is taken and after it is given back, so that what is occupied never exceeds the budget: pieces
// being read, pieces read ahead, and what the source takes while it decompresses included. What gives way is the tile
// whose next use is farthest away. Derived forms go only when no tile is left to go, because they are dear to make
// again; what stays (small parameters) after those.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ballast/params/buffer.h"
#include "ballast/params/param_store.h"
#include "ballast/params/tile_plan.h"
#include "ballast/params/use_order.h"

namespace ballast {

class Residency {
 public:
  struct Piece {
    enum class Kind : uint8_t { kTile, kDerived, kStays };

    PieceId id;
    Kind kind = Kind::kTile;
    bool ready = false;       // its bytes are there
    bool read_ahead = false;  // and nobody has used them yet
    uint32_t leases = 0;
    uint64_t last_used = 0;
    uint64_t bytes = 0;
    uint64_t read_extra = 0;  // counted while it is read
    Buffer buffer;
    size_t place = 0;  // among the tiles
  };

  // The source must outlive this.
  Residency(const ParamSource& source, TilePlan plan, const ResidencyOptions& options);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // A piece stays where it is until it was released as often as it was acquired. All may be called from any thread.
  Result<Piece*> acquire_tile(size_t param, uint64_t tile);
  Result<Piece*> acquire_whole(size_t param);
  // Null where there is no room for it. `make` runs without a lock and may acquire and release pieces itself.
  Result<Piece*> acquire_derived(size_t param, std::string_view form, uint64_t bytes,
                                 const std::function<Status(MutableByteSpan)>& make);
  void release(Piece* piece);

  // One row into memory of the caller, from a tile that is there or else from the source.
  Status read_row(size_t param, uint64_t row, MutableByteSpan out);

  const TiledParam& param(size_t index) const { return plan_.params[index]; }
  ResidencyStats stats() const;

 private:
  static constexpr uint32_t kTileForm = 0;
  static constexpr uint32_t kWholeForm = 1;
  static constexpr uint32_t kFirstDerivedForm = 2;

  using Lock = std::unique_lock<std::mutex>;
  struct ByteRange {
    uint64_t offset;
    uint64_t bytes;
  };

  Result<Piece*> acquire(const PieceId& id);
  Result<Piece*> read_now(Lock& lock, const PieceId& id);
  Piece* take(Piece* piece);
  Piece* find(const PieceId& id) const;
  uint32_t form_number(size_t param, std::string_view form);
  ByteRange range_of(const PieceId& id) const;
  uint64_t room_for(const PieceId& id) const;

  bool fits(uint64_t bytes) const { return bytes <= plan_.budget - resident_; }
  bool can_go(const Piece& piece) const { return piece.ready && piece.leases == 0; }
  uint64_t farness(const Piece& piece) const;
  Piece* first_to_go() const;
  bool make_room(uint64_t bytes, Buffer& spare);
  bool has_room_for_derived(uint64_t bytes) const;
  Error no_room(const PieceId& id, uint64_t bytes) const;

  Result<Piece*> begin(const PieceId& id, uint64_t bytes, Piece::Kind kind, Buffer spare);
  Result<Piece*> begin_reading(const PieceId& id, Buffer spare);
  Status finish_reading(Lock& lock, Piece* piece);
  void drop(Piece* piece);
  void count(uint64_t bytes);

  // Reading ahead: residency_ahead.cc.
  std::optional<PieceId> next_to_read();
  std::optional<PieceId> next_first_read();
  std::optional<PieceId> expected(uint64_t steps) const;
  bool may_give_way(const Piece& piece, uint64_t steps) const;
  bool can_make_room_ahead(uint64_t bytes, uint64_t steps) const;
  void start_reader(const ResidencyOptions& options);
  void stop_reader();
  void wake_reader();
  void read_ahead_until_stopped();
  Status read_ahead(Lock& lock, const PieceId& id);

  const ParamSource& source_;
  const TilePlan plan_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a piece became ready or vanished, or room became free
  std::unordered_map<PieceId, std::unique_ptr<Piece>, PieceIdHash> pieces_;
  std::vector<Piece*> tiles_;  // those of kind kTile, which give way first
  std::unordered_map<size_t, std::vector<std::string>> forms_;
  UseOrder order_;
  std::optional<PieceId> latest_;
  uint64_t clock_ = 0;
  uint64_t resident_ = 0;
  uint64_t idle_bytes_ = 0;  // of what could go at once
  uint64_t derived_bytes_ = 0;
  unsigned reading_ = 0;  // pieces that are being read
  unsigned making_ = 0;   // derived forms that are being made
  ResidencyStats stats_;

  // The thread that reads ahead.
  std::condition_variable work_came_;
  bool reader_waits_ = false;
  bool reader_lacks_room_ = false;  // it would have something to read
  bool reader_failed_ = false;      // until a piece was read on demand again
  bool stopping_ = false;
  std::vector<PieceId> first_reads_;  // what the options keep by name, read before anything is used; from the back
  std::thread reader_;
};

}  // namespace ballast
