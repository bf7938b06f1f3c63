#include "ballast/formats/torch/torch_storage.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/base/sort_positions.h"

namespace ballast {

namespace {

constexpr size_t kMaxKey = 20;  // digits of a 64-bit number
constexpr size_t kFields = 5;   // "storage", class, key, location, length

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKey &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// What one persistent id says.
struct Mention {
  TorchStorage storage;
  TorchStorageUse use;
};

class MentionReader {
 public:
  MentionReader(const PickleTree& tree, bool with_views, const std::string& where)
      : tree_(tree), with_views_(with_views), where_(where) {}

  Result<Mention> read(PickleValue value) const {
    const PickleValue id = tree_.persistent_id(value);
    const auto refuse = [&](std::string_view what) { return this->refuse(value, what); };
    if (!tree_.is(id, PickleKind::kTuple)) return refuse("is not a tuple");
    const auto fields = tree_.items(id);
    if (fields.size() != kFields + (with_views_ ? 1 : 0)) {
      return refuse(fmt::format("has {} fields instead of {}", fields.size(), kFields + (with_views_ ? 1 : 0)));
    }
    if (!is_text(fields[0]) || tree_.text(fields[0]) != "storage") return refuse("does not stand for a storage");
    if (!tree_.is(fields[1], PickleKind::kGlobal)) return refuse("has no class of storage");
    const TorchGlobal& type = torch_global(tree_.global(fields[1]));
    if (type.what != TorchName::kStorageClass) return refuse("has no class of storage");
    if (!is_text(fields[2]) || !is_key(tree_.text(fields[2]))) return refuse("has a key that is no number in text");
    if (!is_text(fields[3])) return refuse("has a location that is no text");
    if (!tree_.is(fields[4], PickleKind::kInteger) || tree_.integer(fields[4]) < 0) {
      return refuse("has no length that could be one");
    }
    const auto count = static_cast<uint64_t>(tree_.integer(fields[4]));
    if (!checked_mul(count, type.type.bytes)) return refuse("has a length of more bytes than can be counted");
    Mention mention{
        .storage = {.key = tree_.text(fields[2]), .type = type.type, .count = count, .offset = tree_.offset(value)},
        .use = {.id = value, .first = 0, .count = count}};
    if (with_views_) BALLAST_CHECK(read_view(value, fields[5], mention.use));
    return mention;
  }

  // Of an id that was read before.
  std::string_view key(PickleValue value) const { return tree_.text(tree_.items(tree_.persistent_id(value))[2]); }

  Error refuse(PickleValue value, std::string_view what) const {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: byte {} of the pickle: a persistent id {}", where_, tree_.offset(value), what));
  }

 private:
  bool is_text(PickleValue value) const { return tree_.is(value, PickleKind::kText); }

  // None, or (key of the part, first element, length).
  Status read_view(PickleValue value, PickleValue view, TorchStorageUse& use) const {
    if (tree_.is(view, PickleKind::kNone)) return {};
    if (!tree_.is(view, PickleKind::kTuple)) return refuse(value, "has a view that is no tuple");
    const auto fields = tree_.items(view);
    const auto is_count = [&](PickleValue number) {
      return tree_.is(number, PickleKind::kInteger) && tree_.integer(number) >= 0;
    };
    if (fields.size() != 3 || !is_count(fields[1]) || !is_count(fields[2])) {
      return refuse(value, "has a view that is not (key, first element, length)");
    }
    const auto first = static_cast<uint64_t>(tree_.integer(fields[1]));
    const auto count = static_cast<uint64_t>(tree_.integer(fields[2]));
    if (!range_fits(first, count, use.count)) {
      return refuse(
          value, fmt::format("has a view of {} elements from {} on, and the storage has {}", count, first, use.count));
    }
    use.first = first;
    use.count = count;
    return {};
  }

  const PickleTree& tree_;
  bool with_views_;
  const std::string& where_;
};

}  // namespace

Result<TorchStorages> TorchStorages::collect(const PickleTree& tree, bool with_views, const std::string& where) {
  const MentionReader reader(tree, with_views, where);
  TorchStorages result;
  for (PickleValue value = 0; value < tree.size(); ++value) {
    if (!tree.is(value, PickleKind::kPersistent)) continue;
    BALLAST_TRY(const Mention mention, reader.read(value));
    result.uses_.push_back(mention.use);
  }
  const auto key = [&](uint32_t i) { return reader.key(result.uses_[i].id); };
  std::vector<uint32_t> order = all_positions(result.uses_.size());
  sort_positions(order, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (const uint32_t i : order) {
    // Read once more: keeping what every id says would cost more memory than the ids.
    BALLAST_TRY(const Mention mention, reader.read(result.uses_[i].id));
    BALLAST_CHECK(
        result.add(mention.storage, [&](std::string_view what) { return reader.refuse(mention.use.id, what); }));
    result.uses_[i].storage = static_cast<uint32_t>(result.storages_.size() - 1);
  }
  return result;
}

// They come in the order of their keys.
Status TorchStorages::add(const TorchStorage& storage, const std::function<Error(std::string_view)>& refuse) {
  if (storages_.empty() || storages_.back().key != storage.key) storages_.push_back(storage);
  const TorchStorage& first = storages_.back();
  const bool same_type = first.type.dtype == storage.type.dtype && first.type.untyped == storage.type.untyped;
  if (first.count == storage.count && same_type) return {};
  return refuse(fmt::format("gives storage {} another type or length than before", storage.key));
}

const TorchStorageUse& TorchStorages::use(PickleValue id) const {
  return *std::ranges::lower_bound(uses_, id, {}, &TorchStorageUse::id);
}

}  // namespace ballast
