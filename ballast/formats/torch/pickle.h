// Python's pickles, read as data: the stack machine runs, but nothing that it names is ever called.
//
// A pickle is a program. Here GLOBAL gives a name of the caller's list or an error, REDUCE writes down which name was
// applied to which arguments, and a persistent id stays what it is; the result is a tree of plain values that the
// caller interprets. Everything that calls, imports or builds otherwise (INST, OBJ, NEWOBJ, EXT, ...) is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kBigInteger,  // does not fit 64 bits with a sign
  kReal,
  kText,  // UTF-8
  kBytes,
  kList,
  kTuple,
  kDict,
  kSet,
  kGlobal,      // a name of the list, standing for itself
  kCall,        // a name of the list, applied to arguments
  kPersistent,  // a persistent id
};

enum class PickleRole : uint8_t {
  kName,      // may be mentioned
  kCallable,  // may be applied: gives a kCall
  kDict,      // may be applied to nothing, to a dict or to a list of pairs: gives a kDict
};

// What the caller's list says of a name. `id` is the caller's own number for it.
struct PickleGlobal {
  uint16_t id = 0;
  PickleRole role = PickleRole::kName;
  bool takes_state = false;  // BUILD may follow
};

struct PickleOptions {
  // nullopt: not on the list, and the pickle is refused.
  std::optional<PickleGlobal> (*find_global)(std::string_view module, std::string_view name);
  std::string where;              // begins every error text: which file, which part of it
  std::string_view advice = {};   // ends the text about a name that is not on the list
  uint64_t max_values = 1 << 17;  // values, and things remembered by number; twice as many places in containers
  uint64_t max_opcodes = 1 << 24;
  uint64_t max_text = 1 << 20;  // bytes of one text
};

using PickleValue = uint32_t;

// The values of one pickle. Texts are views into its bytes, which must outlive it. Values are shared as the pickle
// shares them, and containers may hold themselves: whoever walks must count.
class PickleTree {
 public:
  PickleValue root() const { return root_; }
  // All values are the numbers below this.
  PickleValue size() const { return static_cast<PickleValue>(nodes_.size()); }

  PickleKind kind(PickleValue value) const { return nodes_[value].kind; }
  bool is(PickleValue value, PickleKind wanted) const { return kind(value) == wanted; }
  bool boolean(PickleValue value) const { return nodes_[value].number != 0; }
  int64_t integer(PickleValue value) const { return static_cast<int64_t>(nodes_[value].number); }
  double real(PickleValue value) const;
  // Of kText and kBytes; of a kBigInteger its bytes, little-endian in two's complement.
  std::string_view text(PickleValue value) const;
  // A kBigInteger in decimal digits.
  std::string digits(PickleValue value) const;
  // Elements of a list, tuple or set; key, value, key, value, ... of a dict; arguments of a call.
  std::span<const PickleValue> items(PickleValue value) const;
  // The id of a kGlobal, or of what a kCall applies.
  uint16_t global(PickleValue value) const { return nodes_[value].global; }
  // The id itself of a kPersistent.
  PickleValue persistent_id(PickleValue value) const { return static_cast<PickleValue>(nodes_[value].number); }
  // What BUILD gave it.
  std::optional<PickleValue> state(PickleValue value) const;
  // Where in the pickle a call or a persistent id was made.
  uint64_t offset(PickleValue value) const { return nodes_[value].count; }

 private:
  friend class PickleMachine;
  friend class PickleRuns;
  struct Node {
    PickleKind kind = PickleKind::kNone;
    PickleRole role = PickleRole::kName;
    bool takes_state = false;
    uint16_t global = 0;
    uint32_t count = 0;   // bytes of a text, places of a container, offset of a call
    uint64_t number = 0;  // the number, the offset of the text, the first place of a container, another value
  };

  ByteSpan bytes_;
  std::deque<Node> nodes_;  // never moved while it grows: a vector would need three times the memory
  std::vector<PickleValue> places_;
  std::vector<std::pair<PickleValue, PickleValue>> states_;  // ascending by the first
  PickleValue root_ = 0;
};

struct Pickle {
  PickleTree tree;
  uint64_t length = 0;  // bytes up to and with STOP
};

// Reads the pickle at the front of `bytes`. Memory and time are bounded by the options and the length, whatever it
// says.
Result<Pickle> read_pickle(ByteSpan bytes, const PickleOptions& options);

}  // namespace ballast
