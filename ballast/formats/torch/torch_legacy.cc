#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/torch/torch_container.h"
#include "ballast/formats/torch/torch_tree.h"

namespace ballast {

namespace {

// The magic number does not fit 64 bits; these are its bytes as the pickle has them.
constexpr std::string_view kMagicNumber = kTorchLegacyMagic.substr(2);
constexpr int64_t kLegacyVersion = 1001;

std::optional<PickleGlobal> no_global(std::string_view, std::string_view) { return std::nullopt; }

class TorchLegacyReader {
 public:
  TorchLegacyReader(const ByteSource& source, Findings& findings)
      : source_(source), findings_(findings), limits_(source.size()) {}

  Result<TorchObject> read() {
    BALLAST_TRY(const BytesOrView bytes, BytesOrView::of(source_, 0, std::min(source_.size(), kMaxTorchPickle)));
    bytes_ = bytes.bytes();
    BALLAST_CHECK(read_front());
    const uint64_t object_offset = position_;
    BALLAST_TRY(const Pickle object, next_pickle("the object", find_torch_global));
    BALLAST_TRY(TorchStorages storages, TorchStorages::collect(object.tree, /*with_views=*/true, source_.name()));
    BALLAST_TRY(const Pickle keys, next_pickle("the list of storages", no_global));
    BALLAST_CHECK(place_storages(keys.tree, storages));
    return read_torch_object({.tree = object.tree,
                              .storages = storages,
                              .limits = limits_,
                              .big_endian = false,
                              .pickle_offset = object_offset,
                              .where = source_.name()},
                             findings_);
  }

 private:
  Error broken(std::string_view what) const {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", source_.name(), what));
  }

  Result<Pickle> next_pickle(std::string_view what,
                             std::optional<PickleGlobal> (*find_global)(std::string_view, std::string_view)) {
    PickleOptions options =
        torch_pickle_options(limits_, fmt::format("{}: {} at byte {}", source_.name(), what, position_));
    options.find_global = find_global;
    BALLAST_TRY(Pickle pickle, read_pickle(bytes_.subspan(position_), options));
    position_ += static_cast<size_t>(pickle.length);
    return pickle;
  }

  // Magic number, version, and what the machine was like that wrote the file; PyTorch ignores the last, too.
  Status read_front() {
    BALLAST_TRY(const Pickle magic, next_pickle("the magic number", no_global));
    const PickleTree& first = magic.tree;
    if (!first.is(first.root(), PickleKind::kBigInteger) || first.text(first.root()) != kMagicNumber) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: this is a pickle, but not one of PyTorch's files of tensors; it was not run",
                                    source_.name()));
    }
    BALLAST_TRY(const Pickle version, next_pickle("the version", no_global));
    const PickleTree& second = version.tree;
    if (!second.is(second.root(), PickleKind::kInteger) || second.integer(second.root()) != kLegacyVersion) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: the version of the legacy format is not {}", source_.name(), kLegacyVersion));
    }
    BALLAST_TRY(const Pickle system, next_pickle("the system's description", no_global));
    if (!system.tree.is(system.tree.root(), PickleKind::kDict)) return broken("the system's description is no dict");
    return {};
  }

  // The list gives the order of the storages in the file and must name exactly those that are used: for one that is
  // missing, PyTorch gives uninitialised memory.
  Status place_storages(const PickleTree& keys, TorchStorages& storages) {
    if (!keys.is(keys.root(), PickleKind::kList)) return broken("the list of storages is no list");
    const auto listed = keys.items(keys.root());
    if (listed.size() != storages.all().size()) {
      return broken(fmt::format("{} storages are listed, and {} are used", listed.size(), storages.all().size()));
    }
    std::vector<bool> placed(listed.size());
    uint64_t at = position_;
    for (const PickleValue key : listed) {
      const std::string_view text = keys.is(key, PickleKind::kText) ? keys.text(key) : std::string_view();
      const auto found = std::ranges::lower_bound(storages.all(), text, {}, &TorchStorage::key);
      if (found == storages.all().end() || found->key != text) return broken("a storage is listed that nothing uses");
      const auto index = static_cast<size_t>(found - storages.all().begin());
      if (placed[index]) return broken(fmt::format("storage {} is listed twice", text));
      placed[index] = true;
      BALLAST_TRY(at, place_storage(*found, at));
    }
    if (at == source_.size()) return {};
    return broken(fmt::format("{} bytes follow the last storage, at byte {}", source_.size() - at, at));
  }

  // A count of elements, then the bytes. Gives their end.
  Result<uint64_t> place_storage(TorchStorage& storage, uint64_t at) const {
    std::array<std::byte, sizeof(uint64_t)> stored;
    if (!range_fits(at, stored.size(), source_.size())) return cut_short(storage, at);
    BALLAST_CHECK(source_.read_at(at, stored));
    const auto count = load_le<uint64_t>(stored.data());
    if (count != storage.count) {
      return broken(fmt::format("storage {} at byte {} has {} elements, and the pickle says {}", storage.key, at, count,
                                storage.count));
    }
    at += stored.size();
    if (!range_fits(at, storage.bytes(), source_.size())) return cut_short(storage, at);
    storage.record = {.offset = at, .stored_size = storage.bytes()};
    return at + storage.bytes();
  }

  Error cut_short(const TorchStorage& storage, uint64_t at) const {
    return broken(
        fmt::format("storage {} at byte {} runs past the end of the file; it was cut short", storage.key, at));
  }

  const ByteSource& source_;
  Findings& findings_;
  TorchLimits limits_;
  ByteSpan bytes_;
  size_t position_ = 0;
};

}  // namespace

Result<Archive> open_torch_legacy(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(TorchObject object, TorchLegacyReader(*request.source, findings).read());
  Description description;
  description.format = kTorchReader.name;
  description.version = fmt::format("legacy {}", kLegacyVersion);
  description.producer = "PyTorch";
  description.metadata = std::move(object.metadata);
  description.tensors = std::move(object.tensors);
  return Archive(std::move(description), std::move(object.extents), {request.source});
}

}  // namespace ballast
