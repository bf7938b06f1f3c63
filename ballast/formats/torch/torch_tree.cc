#include "ballast/formats/torch/torch_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/base/checked.h"
#include "ballast/base/sort_positions.h"
#include "ballast/formats/tie.h"
#include "ballast/formats/torch/torch_tensor.h"
#include "ballast/formats/torch/torch_values.h"

namespace ballast {

namespace {

constexpr size_t kMaxNesting = 64;
constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kLongList = 64;  // from here on a list of plain values is one text
// What a value costs in memory besides its texts.
constexpr uint64_t kVisitCost = 16;
constexpr uint64_t kLeafCost = 96;
constexpr uint64_t kTensorCost = 256;
// A storage's checksum covers all of it: with more tensors over one storage, only the first has it checked.
constexpr size_t kMaxCheckedViews = 4;

// (scheme, scale, zero) of a quantized tensor, or (scheme, scales, zeros, axis) with tensors in the middle.
constexpr std::string_view kPerTensor[] = {"qscheme", "scale", "zero_point"};
constexpr std::string_view kPerChannel[] = {"qscheme", "scales", "zero_points", "axis"};

class ObjectReader {
 public:
  ObjectReader(const TorchTreeRequest& request, Findings& findings)
      : request_(request),
        tree_(request.tree),
        findings_(findings),
        budget_(request.limits.description),
        payload_budget_(request.limits.payloads) {}

  Result<TorchObject> read() {
    BALLAST_CHECK(visit(tree_.root()));
    while (!frames_.empty()) BALLAST_CHECK(advance());
    BALLAST_CHECK(check_names());
    note_sharing();
    mark_ties(object_.tensors, object_.extents);
    return std::move(object_);
  }

 private:
  // A container that is being walked.
  struct Frame {
    PickleValue container;
    size_t path_size;
    bool named;                               // false for the outermost: names begin with its keys
    std::span<const std::string_view> names;  // of a tuple's fields, where they have some
    size_t next = 0;
  };

  std::string location(std::string_view what) const {
    return fmt::format("{}: {} \"{}\"", request_.where, what, path_);
  }

  Status spend(uint64_t cost) {
    if (cost <= budget_) {
      budget_ -= cost;
      return {};
    }
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("{}: the object has more values than are read of a file of this size", request_.where));
  }

  // ---------------------------------------------------------------- walking

  Status advance() {
    Frame& frame = frames_.back();
    path_.resize(frame.path_size);
    const auto items = tree_.items(frame.container);
    if (frame.next == items.size()) {
      frames_.pop_back();
      return {};
    }
    const bool is_dict = tree_.is(frame.container, PickleKind::kDict);
    const size_t at = frame.next;
    frame.next += is_dict ? 2 : 1;
    std::string name = frame.names.empty() ? std::to_string(at) : std::string(frame.names[at]);
    if (is_dict) BALLAST_CHECK(assign(name, key_of(items[at])));
    BALLAST_CHECK(spend(kVisitCost + name.size()));
    if (frame.named) path_ += '.';
    path_ += name;
    return visit(items[is_dict ? at + 1 : at]);
  }

  Result<std::string> key_of(PickleValue value) const {
    auto key = torch_key(tree_, value, static_cast<size_t>(std::min<uint64_t>(budget_, SIZE_MAX)));
    if (!key) return std::move(key).error().with_context(location("a key in"));
    return key;
  }

  Status visit(PickleValue value) {
    if (is_torch_tensor(tree_, value)) return add_tensor(value);
    const PickleKind kind = tree_.kind(value);
    const bool is_container = kind == PickleKind::kList || kind == PickleKind::kTuple || kind == PickleKind::kDict;
    if (!is_container || is_one_text(value)) return add_leaf(value);
    const bool named = !is_outermost_;
    if (const auto state = tree_.state(value)) BALLAST_CHECK(enter_module_metadata(*state, named));
    return enter(value, named);
  }

  // Empty containers, but for the whole object, and long lists of plain values.
  bool is_one_text(PickleValue value) const {
    const auto items = tree_.items(value);
    if (items.empty()) return !is_outermost_ && !tree_.state(value);
    return items.size() > kLongList && !tree_.is(value, PickleKind::kDict) &&
           std::ranges::all_of(items, [&](PickleValue item) { return is_torch_scalar(tree_, item); });
  }

  Status enter(PickleValue container, bool named, std::span<const std::string_view> names = {}) {
    if (frames_.size() >= kMaxNesting) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} is nested more than {} deep, or inside itself",
                                                             location("the container"), kMaxNesting));
    }
    frames_.push_back({container, path_.size(), named, names});
    is_outermost_ = false;
    return {};
  }

  // What a module's state dict has beside its items: {"_metadata": {path of a module: {"version": number}}}. It comes
  // behind them.
  Status enter_module_metadata(PickleValue state, bool named) {
    const auto items = tree_.is(state, PickleKind::kDict) ? tree_.items(state) : std::span<const PickleValue>();
    if (items.size() != 2 || !tree_.is(items[0], PickleKind::kText) || tree_.text(items[0]) != "_metadata") {
      return make_error(
          ErrorCode::kUnsupported,
          fmt::format("{} has attributes other than _metadata, which are not read", location("the dict")));
    }
    return enter(state, named);
  }

  // ---------------------------------------------------------------- leaves

  Status add_leaf(PickleValue value) {
    std::string key = is_outermost_ ? "value" : path_;
    auto leaf = torch_leaf(tree_, value, static_cast<size_t>(std::min<uint64_t>(budget_, SIZE_MAX)));
    if (!leaf) {
      Error error = std::move(leaf).error();
      return findings_.error("value", request_.pickle_offset, "",
                             fmt::format("{}: {}", location("value"), error.message), error.code);
    }
    const auto* text = std::get_if<std::string>(&*leaf);
    BALLAST_CHECK(spend(kLeafCost + key.size() + (text == nullptr ? 0 : text->size())));
    object_.metadata.push_back({std::move(key), *std::move(leaf)});
    return {};
  }

  // ---------------------------------------------------------------- tensors

  Status add_tensor(PickleValue value) {
    if (is_outermost_) path_ = "tensor";
    BALLAST_CHECK(spend(kTensorCost + path_.size()));
    auto tensor = read_within_budget(value);
    if (!tensor) {
      Error error = std::move(tensor).error();
      const uint64_t offset = tree_.offset(value);
      return findings_.error(
          error.code == ErrorCode::kUnsupported ? "unsupported" : "tensor", request_.pickle_offset + offset, path_,
          fmt::format("{} (byte {} of the pickle): {}", location("tensor"), offset, error.message), error.code);
    }
    tensor->info.name = path_;
    object_.tensors.push_back(std::move(tensor->info));
    object_.extents.push_back(std::move(tensor->extent));
    storages_.push_back(tensor->storage);
    if (tensor->attributes) BALLAST_CHECK(enter(*tensor->attributes, true));
    if (!tensor->quantization) return {};
    const bool per_tensor = tree_.items(*tensor->quantization).size() == std::size(kPerTensor);
    return enter(*tensor->quantization, true, per_tensor ? std::span<const std::string_view>(kPerTensor) : kPerChannel);
  }

  Result<TorchTensor> read_within_budget(PickleValue value) {
    BALLAST_TRY(TorchTensor tensor, read_torch_tensor(tree_, request_.storages, request_.big_endian, value));
    if (object_.tensors.size() == kMaxTensors) {
      return make_error(ErrorCode::kUnsupported, fmt::format("there are more than {} tensors", kMaxTensors));
    }
    if (tensor.info.byte_size > payload_budget_) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("its {} bytes, with those of the tensors before it, are far more than the file "
                                    "holds: views that repeat what is stored once",
                                    tensor.info.byte_size));
    }
    payload_budget_ -= tensor.info.byte_size;
    return tensor;
  }

  // ---------------------------------------------------------------- the whole

  // {"a.b": x} and {"a": {"b": x}} are one name.
  Status check_names() {
    for (const size_t twin : find_duplicate_names(object_.tensors)) {
      const std::string& name = object_.tensors[twin].name;
      BALLAST_CHECK(findings_.error("duplicate_name", request_.pickle_offset, name,
                                    fmt::format("{}: two tensors are called \"{}\"", request_.where, name)));
    }
    std::vector<std::string_view> keys;
    keys.reserve(object_.metadata.size());
    for (const MetaEntry& entry : object_.metadata) keys.push_back(entry.key);
    std::ranges::sort(keys);
    for (auto twin = std::ranges::adjacent_find(keys); twin != keys.end();
         twin = std::adjacent_find(twin + 1, keys.end())) {
      BALLAST_CHECK(findings_.error("duplicate_name", request_.pickle_offset, "",
                                    fmt::format("{}: two values are called \"{}\"", request_.where, *twin)));
    }
    return {};
  }

  // Says which tensors are views of one storage, and leaves the checksum of a storage that many of them share to the
  // first: it covers the storage, so that checking it for each would read the storage as often.
  void note_sharing() {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < storages_.size(); ++i) {
      if (object_.tensors[i].byte_size != 0) order.push_back(i);
    }
    sort_positions(order, [&](uint32_t a, uint32_t b) { return storages_[a] < storages_[b]; });
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin + 1;
      while (end < order.size() && storages_[order[end]] == storages_[order[begin]]) ++end;
      if (end - begin > 1) note_group(std::span(order).subspan(begin, end - begin));
      begin = end;
    }
  }

  void note_group(std::span<const uint32_t> tensors) {
    if (tensors.size() > kMaxCheckedViews) {
      for (const uint32_t i : tensors.subspan(1)) object_.extents[i].crc32.reset();
    }
    const TorchStorage& storage = request_.storages.all()[storages_[tensors.front()]];
    findings_.note("shared_storage", storage.record.offset, "", [&] {
      constexpr size_t kShown = 8;
      std::string names;
      for (const uint32_t i : tensors.first(std::min(tensors.size(), kShown))) {
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", object_.tensors[i].name);
      }
      return fmt::format("{}: {} tensors are views of storage {}: {}{}", request_.where, tensors.size(), storage.key,
                         names, tensors.size() > kShown ? ", ..." : "");
    });
  }

  const TorchTreeRequest& request_;
  const PickleTree& tree_;
  Findings& findings_;
  uint64_t budget_;
  uint64_t payload_budget_;
  TorchObject object_;
  std::vector<uint32_t> storages_;  // of each tensor
  std::vector<Frame> frames_;
  std::string path_;
  bool is_outermost_ = true;  // nothing was entered yet
};

}  // namespace

TorchLimits::TorchLimits(uint64_t file_size)
    : pickle_values(std::min((uint64_t{1} << 17) + file_size / 16, uint64_t{1} << 24)),
      inflated_pickle(std::min((uint64_t{4} << 20) + file_size, kMaxTorchPickle)),
      description((uint64_t{4} << 20) + file_size),
      payloads(checked_add(checked_mul(file_size, 64).value_or(UINT64_MAX), uint64_t{64} << 20).value_or(UINT64_MAX)) {}

PickleOptions torch_pickle_options(const TorchLimits& limits, std::string where) {
  return {.find_global = find_torch_global,
          .where = std::move(where),
          .advice =
              "Only tensors, numbers, texts and plain containers are read: save the weights alone, with "
              "torch.save(model.state_dict(), path)",
          .max_values = limits.pickle_values};
}

Result<TorchObject> read_torch_object(const TorchTreeRequest& request, Findings& findings) {
  return ObjectReader(request, findings).read();
}

}  // namespace ballast
