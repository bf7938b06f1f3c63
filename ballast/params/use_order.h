// In which order pieces of parameters are used, and from that, when each will be used again.
//
// A model uses its parameters in the same order in every pass. So the future is read from the past: find where the
// present stands in the record of uses, and what followed then will follow now. Nobody has to say where a pass begins;
// when the order changes, the first uses that do not fit lead to another place in the record.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

namespace ballast {

// A piece of a parameter that is in memory or not.
struct PieceId {
  uint32_t param = 0;
  uint32_t form = 0;  // see Residency
  uint64_t tile = 0;

  friend bool operator==(const PieceId&, const PieceId&) = default;
};

struct PieceIdHash {
  size_t operator()(const PieceId& id) const {
    // Multiplication by odd constants spreads neighbours; the upper bits are folded down because tables use the lower.
    const uint64_t mixed = (uint64_t{id.param} << 32 | id.form) * 0x9E3779B97F4A7C15U ^ id.tile * 0xC2B2AE3D27D4EB4FU;
    return static_cast<size_t>(mixed ^ mixed >> 29);
  }
};

class UseOrder {
 public:
  // `id` is used now. The same piece again at once is the same use.
  void record(const PieceId& id);

  // True while the record tells what comes next.
  bool is_known() const { return at_.has_value(); }
  // What will be used `steps` uses from now, 1 being the next. Only while known.
  PieceId ahead(uint64_t steps) const;
  // Uses until `id` is used again; nullopt: not in what repeats, or nothing is known.
  std::optional<uint64_t> next_use(const PieceId& id) const;

 private:
  struct Use {
    PieceId id;
    std::optional<uint64_t> before;  // the previous use of the same piece
  };
  // Uses are numbered from the first ever; those before first_ are forgotten.
  const Use& use(uint64_t number) const { return uses_[static_cast<size_t>(number - first_)]; }
  uint64_t end() const { return first_ + uses_.size(); }
  void forget_old_uses();

  std::deque<Use> uses_;
  uint64_t first_ = 0;
  std::unordered_map<PieceId, uint64_t, PieceIdHash> last_;  // use of each piece
  // The use that corresponds to the latest one, a cycle earlier: (at_, latest] is what will repeat.
  std::optional<uint64_t> at_;
};

}  // namespace ballast
