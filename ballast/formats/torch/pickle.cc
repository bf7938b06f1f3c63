#include "ballast/formats/torch/pickle.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/formats/torch/pickle_opcodes.h"
#include "ballast/formats/torch/pickle_runs.h"

namespace ballast {

namespace {

constexpr size_t kMaxMarks = 256;  // two for each level of nesting are usual
constexpr size_t kMaxGlobalLine = 1024;
constexpr uint8_t kNewestProtocol = 5;
// How far the number of a PUT may be ahead of the count of PUTs: a list is then as good as a map.
constexpr uint64_t kMemoSlack = 1024;

// A name out of the file, fit for an error text.
std::string printable(std::string_view text) {
  constexpr size_t kShown = 100;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text.size() > kShown ? shown + "..." : shown;
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(ByteSpan bytes, const PickleOptions& options) : cursor_(bytes), options_(options) {
    tree_.bytes_ = bytes;
    tree_.nodes_ = {{.kind = PickleKind::kNone}, {.kind = PickleKind::kBool}, {.kind = PickleKind::kBool, .number = 1}};
  }

  Result<Pickle> run() {
    for (uint64_t opcodes = 0;; ++opcodes) {
      start_ = cursor_.position();
      const auto code = cursor_.take_le<uint8_t>();
      if (!code) return fail("the pickle ends without STOP; it was cut short");
      if (opcodes >= options_.max_opcodes) return too_much(fmt::format("{} opcodes", options_.max_opcodes));
      if (*code == pickle::kStop) break;
      BALLAST_CHECK(step(*code));
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      return fail(
          fmt::format("STOP with {} values and {} open marks instead of one value", stack_.size(), marks_.size()));
    }
    tree_.root_ = stack_.front();
    finish();
    return Pickle{std::move(tree_), cursor_.position()};
  }

 private:
  using Node = PickleTree::Node;
  static constexpr PickleValue kNoneValue = 0;
  static constexpr PickleValue kFalseValue = 1;
  static constexpr PickleValue kTrueValue = 2;

  // ---------------------------------------------------------------- errors

  Error fail(std::string_view what, ErrorCode code = ErrorCode::kCorrupt) const {
    return make_error(code, fmt::format("{}: byte {} of the pickle: {}", options_.where, start_, what));
  }
  Error too_much(std::string_view what) const {
    return fail(fmt::format("it has more than {}, the most that is read of a file of this size", what),
                ErrorCode::kUnsupported);
  }
  Error cut_short() const { return fail("an argument runs past the end of the pickle"); }

  // ---------------------------------------------------------------- one opcode

  Status step(uint8_t code) {
    switch (code) {
      case pickle::kMark: return push_mark();
      case pickle::kNone: return push(kNoneValue);
      case pickle::kNewTrue: return push(kTrueValue);
      case pickle::kNewFalse: return push(kFalseValue);
      case pickle::kBinInt: return push_integer<uint32_t, int32_t>();
      case pickle::kBinInt1: return push_integer<uint8_t, uint8_t>();
      case pickle::kBinInt2: return push_integer<uint16_t, uint16_t>();
      case pickle::kLong1: return push_long();
      case pickle::kBinFloat: return push_real();
      case pickle::kBinString: return push_text<uint32_t>(PickleKind::kBytes);
      case pickle::kShortBinString: return push_text<uint8_t>(PickleKind::kBytes);
      case pickle::kBinUnicode: return push_text<uint32_t>(PickleKind::kText);
      case pickle::kShortBinUnicode: return push_text<uint8_t>(PickleKind::kText);
      case pickle::kBinUnicode8: return push_text<uint64_t>(PickleKind::kText);
      default: return step_containers(code);
    }
  }

  Status step_containers(uint8_t code) {
    switch (code) {
      case pickle::kEmptyTuple: return push_tuple(0);
      case pickle::kTuple1: return push_tuple(1);
      case pickle::kTuple2: return push_tuple(2);
      case pickle::kTuple3: return push_tuple(3);
      case pickle::kTuple: return push_marked_tuple();
      case pickle::kEmptyList: return push_container(PickleKind::kList);
      case pickle::kEmptyDict: return push_container(PickleKind::kDict);
      case pickle::kEmptySet: return push_container(PickleKind::kSet);
      case pickle::kAppend: return extend(PickleKind::kList, 1);
      case pickle::kAppends: return extend_marked(PickleKind::kList);
      case pickle::kSetItem: return extend(PickleKind::kDict, 2);
      case pickle::kSetItems: return extend_marked(PickleKind::kDict);
      case pickle::kAddItems: return extend_marked(PickleKind::kSet);
      case pickle::kFrozenSet: return push_frozen_set();
      default: return step_others(code);
    }
  }

  Status step_others(uint8_t code) {
    switch (code) {
      case pickle::kBinBytes: return push_bytes<uint32_t>();
      case pickle::kShortBinBytes: return push_bytes<uint8_t>();
      case pickle::kBinBytes8:
      case pickle::kByteArray8: return push_bytes<uint64_t>();
      case pickle::kBinGet: return recall<uint8_t>();
      case pickle::kLongBinGet: return recall<uint32_t>();
      case pickle::kBinPut: return remember_as<uint8_t>();
      case pickle::kLongBinPut: return remember_as<uint32_t>();
      case pickle::kMemoize: return remember(memo_puts_);
      case pickle::kGlobal: return push_global();
      case pickle::kStackGlobal: return push_stack_global();
      case pickle::kReduce: return reduce();
      case pickle::kBuild: return build();
      case pickle::kBinPersId: return push_persistent();
      case pickle::kProto: return check_protocol();
      case pickle::kFrame: return check_frame();
      default: return fail(pickle::why_not_read(code), ErrorCode::kUnsupported);
    }
  }

  // ---------------------------------------------------------------- stack

  Result<PickleValue> add(const Node& node) {
    if (tree_.nodes_.size() >= options_.max_values) return too_much(fmt::format("{} values", options_.max_values));
    tree_.nodes_.push_back(node);
    return static_cast<PickleValue>(tree_.nodes_.size() - 1);
  }

  Status push(PickleValue value) {
    if (stack_.size() >= options_.max_values) return too_much(fmt::format("{} open values", options_.max_values));
    stack_.push_back(value);
    return {};
  }

  Status push_new(const Node& node) {
    BALLAST_TRY(const PickleValue value, add(node));
    return push(value);
  }

  Status push_mark() {
    if (marks_.size() >= kMaxMarks) return too_much(fmt::format("{} open marks", kMaxMarks));
    marks_.push_back(static_cast<uint32_t>(stack_.size()));
    return {};
  }

  // Values above the last mark: no opcode may take what lies below.
  size_t free_values() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Result<PickleValue> pop() {
    if (free_values() == 0) return fail("it takes a value from an empty stack");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Result<PickleValue> top() const {
    if (free_values() == 0) return fail("it wants a value of an empty stack");
    return stack_.back();
  }

  // How many values lie above the last mark, which is taken away.
  Result<size_t> pop_mark() {
    if (marks_.empty()) return fail("it wants a mark, and there is none");
    const size_t count = free_values();
    marks_.pop_back();
    return count;
  }

  // The topmost `count` values become places; gives the first.
  Result<uint32_t> pop_to_places(size_t count) {
    if (free_values() < count) return fail(fmt::format("it takes {} values, and there are {}", count, free_values()));
    BALLAST_CHECK(check_places(count));
    const auto first = static_cast<uint32_t>(tree_.places_.size());
    tree_.places_.insert(tree_.places_.end(), stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return first;
  }

  Status check_places(size_t more) const {
    const uint64_t most = 2 * options_.max_values;
    if (tree_.places_.size() + more > most) return too_much(fmt::format("{} places in containers", most));
    return {};
  }

  // ---------------------------------------------------------------- numbers and texts

  template <typename Stored, typename Number>
  Status push_integer() {
    const auto stored = cursor_.take_le<Stored>();
    if (!stored) return cut_short();
    const auto number = static_cast<int64_t>(static_cast<Number>(*stored));
    return push_new({.kind = PickleKind::kInteger, .number = static_cast<uint64_t>(number)});
  }

  Status push_long() {
    const auto length = cursor_.take_le<uint8_t>();
    const size_t at = cursor_.position();
    const auto bytes = length ? cursor_.take_bytes(*length) : std::nullopt;
    if (!bytes) return cut_short();
    if (bytes->size() > sizeof(uint64_t)) {
      return push_new({.kind = PickleKind::kBigInteger, .count = *length, .number = at});
    }
    const bool negative = !bytes->empty() && std::to_integer<unsigned>(bytes->back()) >= 0x80;
    std::byte padded[sizeof(uint64_t)];
    std::ranges::fill(padded, negative ? std::byte{0xFF} : std::byte{0});
    std::ranges::copy(*bytes, padded);
    return push_new({.kind = PickleKind::kInteger, .number = load_le<uint64_t>(padded)});
  }

  Status push_real() {
    const auto stored = cursor_.take_le<uint64_t>();
    if (!stored) return cut_short();
    return push_new({.kind = PickleKind::kReal, .number = byte_swapped(*stored)});
  }

  // A text with its length in front. Python 2 wrote texts as bytes: what is UTF-8 counts as text.
  template <typename Length>
  Status push_text(PickleKind otherwise) {
    BALLAST_TRY(Node node, (take_text<Length>()));
    node.kind = PickleKind::kText;
    const std::string_view text = as_text(tree_.bytes_.subspan(static_cast<size_t>(node.number), node.count));
    if (!is_valid_utf8(text)) {
      if (otherwise == PickleKind::kText) return fail("a text is not UTF-8");
      node.kind = otherwise;
    }
    return push_new(node);
  }

  template <typename Length>
  Status push_bytes() {
    BALLAST_TRY(Node node, (take_text<Length>()));
    node.kind = PickleKind::kBytes;
    return push_new(node);
  }

  template <typename Length>
  Result<Node> take_text() {
    const auto length = cursor_.take_le<Length>();
    const size_t at = cursor_.position();
    if (!length || !cursor_.take_bytes(*length)) return cut_short();
    if (*length > options_.max_text) return too_much(fmt::format("{} bytes in one text", options_.max_text));
    return Node{.count = static_cast<uint32_t>(*length), .number = at};
  }

  // ---------------------------------------------------------------- containers

  Status push_tuple(size_t count) {
    BALLAST_TRY(const uint32_t first, pop_to_places(count));
    return push_new({.kind = PickleKind::kTuple, .count = static_cast<uint32_t>(count), .number = first});
  }

  Status push_marked_tuple() {
    BALLAST_TRY(const size_t count, pop_mark());
    return push_tuple(count);
  }

  Status push_container(PickleKind kind) { return push_new(PickleRuns::empty(kind)); }

  Status push_frozen_set() {
    BALLAST_TRY(const size_t count, pop_mark());
    BALLAST_TRY(const uint32_t first, pop_to_places(count));
    BALLAST_TRY(const PickleValue set, add(PickleRuns::empty(PickleKind::kSet)));
    BALLAST_CHECK(add_run(set, first, count));
    return push(set);
  }

  Status extend_marked(PickleKind kind) {
    BALLAST_TRY(const size_t count, pop_mark());
    return extend(kind, count);
  }

  // Moves the topmost `count` values into the container below them.
  Status extend(PickleKind kind, size_t count) {
    if (kind == PickleKind::kDict && count % 2 != 0) return fail("a key without a value");
    BALLAST_TRY(const uint32_t first, pop_to_places(count));
    BALLAST_TRY(const PickleValue container, top());
    if (tree_.nodes_[container].kind != kind) return fail("values are added to something that cannot hold them");
    if (kind == PickleKind::kDict) BALLAST_CHECK(check_keys(first, count));
    return add_run(container, first, count);
  }

  Status check_keys(uint32_t first, size_t count) const {
    for (size_t i = first; i < first + count; i += 2) {
      switch (tree_.nodes_[tree_.places_[i]].kind) {
        case PickleKind::kList:
        case PickleKind::kDict:
        case PickleKind::kSet:
        case PickleKind::kCall:
        case PickleKind::kPersistent: return fail("the key of a dict is neither text nor a number nor a tuple");
        default: break;
      }
    }
    return {};
  }

  Status add_run(PickleValue container, uint32_t first, size_t count) {
    if (runs_.add(tree_.nodes_[container], first, count, options_.max_values)) return {};
    return too_much(fmt::format("{} additions", options_.max_values));
  }

  std::vector<PickleValue> held(PickleValue container) const {
    return runs_.held(tree_.nodes_[container], tree_.places_);
  }

  void finish() {
    stack_ = {};
    memo_ = {};
    runs_.join(tree_.nodes_, tree_.places_);
    std::ranges::sort(tree_.states_);
  }

  // ---------------------------------------------------------------- memo

  template <typename Index>
  Status recall() {
    const auto index = cursor_.take_le<Index>();
    if (!index) return cut_short();
    if (*index >= memo_.size() || memo_[*index] == kUnset) {
      return fail(fmt::format("it recalls value {}, which was never stored", *index));
    }
    return push(memo_[*index]);
  }

  template <typename Index>
  Status remember_as() {
    const auto index = cursor_.take_le<Index>();
    if (!index) return cut_short();
    return remember(*index);
  }

  Status remember(uint64_t index) {
    BALLAST_TRY(const PickleValue value, top());
    if (index > memo_puts_ + kMemoSlack) {
      return fail(fmt::format("it stores value {} after only {} others", index, memo_puts_), ErrorCode::kUnsupported);
    }
    if (++memo_puts_ > options_.max_values) return too_much(fmt::format("{} stored values", options_.max_values));
    if (index >= memo_.size()) memo_.resize(static_cast<size_t>(index) + 1, kUnset);
    memo_[static_cast<size_t>(index)] = value;
    return {};
  }

  // ---------------------------------------------------------------- names and what is done with them

  std::optional<std::string_view> take_line() {
    const ByteSpan rest = tree_.bytes_.subspan(cursor_.position());
    const std::string_view text = as_text(rest.first(std::min(rest.size(), kMaxGlobalLine)));
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    cursor_.take_bytes(end + 1);
    return text.substr(0, end);
  }

  Status push_global() {
    const auto module = take_line();
    const auto name = module ? take_line() : std::nullopt;
    if (!name) return fail("a name has no end");
    return push_name(*module, *name);
  }

  Status push_stack_global() {
    BALLAST_TRY(const PickleValue name, pop());
    BALLAST_TRY(const PickleValue module, pop());
    if (!tree_.is(name, PickleKind::kText) || !tree_.is(module, PickleKind::kText)) {
      return fail("a name is made of something that is no text");
    }
    return push_name(tree_.text(module), tree_.text(name));
  }

  Status push_name(std::string_view module, std::string_view name) {
    const auto found = options_.find_global(module, name);
    if (!found) {
      return fail(fmt::format("it asks for {}.{}, which is not read; nothing was run{}{}", printable(module),
                              printable(name), options_.advice.empty() ? "" : ". ", options_.advice),
                  ErrorCode::kUnsupported);
    }
    return push_new(
        {.kind = PickleKind::kGlobal, .role = found->role, .takes_state = found->takes_state, .global = found->id});
  }

  Status reduce() {
    BALLAST_TRY(const PickleValue arguments, pop());
    BALLAST_TRY(const PickleValue callee, pop());
    const Node& name = tree_.nodes_[callee];
    if (name.kind != PickleKind::kGlobal || name.role == PickleRole::kName) {
      return fail("it calls something that is not to be called; nothing was run", ErrorCode::kUnsupported);
    }
    if (!tree_.is(arguments, PickleKind::kTuple)) return fail("the arguments of a call are no tuple");
    if (name.role == PickleRole::kDict) return push_dict(name, arguments);
    return push_new({.kind = PickleKind::kCall,
                     .role = name.role,
                     .takes_state = name.takes_state,
                     .global = name.global,
                     .count = static_cast<uint32_t>(start_),
                     .number = arguments});
  }

  Status push_dict(const Node& name, PickleValue arguments) {
    const std::vector<PickleValue> given = held(arguments);
    if (given.size() > 1) return fail("a dict is made from more than one argument");
    Node node = PickleRuns::empty(PickleKind::kDict);
    node.takes_state = name.takes_state;
    BALLAST_TRY(const PickleValue dict, add(node));
    if (!given.empty()) BALLAST_CHECK(fill_dict(dict, given.front()));
    return push(dict);
  }

  // From another dict, or from a list of pairs as Python 2 wrote ordered dicts.
  Status fill_dict(PickleValue dict, PickleValue from) {
    std::vector<PickleValue> pairs;
    if (tree_.is(from, PickleKind::kDict)) {
      pairs = held(from);
    } else if (tree_.is(from, PickleKind::kList)) {
      for (const PickleValue pair : held(from)) {
        const PickleKind kind = tree_.kind(pair);
        if ((kind != PickleKind::kTuple && kind != PickleKind::kList) || tree_.nodes_[pair].count != 2) {
          return fail("a dict is made from something that is no pair");
        }
        for (const PickleValue half : held(pair)) pairs.push_back(half);
      }
    } else {
      return fail("a dict is made from something that is neither a dict nor a list of pairs");
    }
    BALLAST_CHECK(check_places(pairs.size()));
    const auto first = static_cast<uint32_t>(tree_.places_.size());
    tree_.places_.insert(tree_.places_.end(), pairs.begin(), pairs.end());
    BALLAST_CHECK(check_keys(first, pairs.size()));
    return add_run(dict, first, pairs.size());
  }

  Status build() {
    BALLAST_TRY(const PickleValue state, pop());
    BALLAST_TRY(const PickleValue object, top());
    if (!tree_.nodes_[object].takes_state || tree_.is(object, PickleKind::kGlobal)) {
      return fail("BUILD sets the attributes of something that has none here; nothing was run",
                  ErrorCode::kUnsupported);
    }
    tree_.nodes_[object].takes_state = false;  // once
    tree_.states_.emplace_back(object, state);
    return {};
  }

  Status push_persistent() {
    BALLAST_TRY(const PickleValue id, pop());
    return push_new({.kind = PickleKind::kPersistent, .count = static_cast<uint32_t>(start_), .number = id});
  }

  // ---------------------------------------------------------------- frame and protocol

  Status check_protocol() {
    const auto protocol = cursor_.take_le<uint8_t>();
    if (!protocol) return cut_short();
    if (*protocol > kNewestProtocol || start_ != 0) {
      return fail(fmt::format("PROTO {}: protocols up to {} are known, and it stands at the front only", *protocol,
                              kNewestProtocol),
                  ErrorCode::kUnsupported);
    }
    return {};
  }

  Status check_frame() {
    const auto length = cursor_.take_le<uint64_t>();
    if (!length || *length > cursor_.remaining()) return cut_short();
    return {};
  }

  static constexpr PickleValue kUnset = UINT32_MAX;

  ByteCursor cursor_;
  const PickleOptions& options_;
  PickleTree tree_;
  std::vector<PickleValue> stack_;
  std::vector<uint32_t> marks_;  // heights of the stack
  PickleRuns runs_;
  std::vector<PickleValue> memo_;
  uint64_t memo_puts_ = 0;
  size_t start_ = 0;  // of the opcode at hand
};

Result<Pickle> read_pickle(ByteSpan bytes, const PickleOptions& options) { return PickleMachine(bytes, options).run(); }

}  // namespace ballast
