#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "ballast/formats/container/deflate.h"
#include "ballast/formats/container/zip.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/torch/torch_container.h"
#include "ballast/formats/torch/torch_tree.h"

namespace ballast {

namespace {

constexpr uint64_t kMaxSmallMember = 64;  // `version`, `byteorder`
constexpr uint64_t kNewestVersion = 10;   // that PyTorch reads

char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool less_without_case(std::string_view a, std::string_view b) {
  return std::ranges::lexicographical_compare(a, b, {}, lower_case, lower_case);
}

class TorchZipReader {
 public:
  TorchZipReader(const ByteSource& source, Findings& findings)
      : source_(source), findings_(findings), limits_(source.size()) {}

  Result<TorchObject> read() {
    BALLAST_TRY(ZipDirectory directory, read_zip_directory(source_, findings_));
    members_ = std::move(directory.members);
    std::erase_if(members_, [](const ZipMember& member) { return member.name.ends_with('/'); });
    BALLAST_CHECK(check_members());
    if (find("constants.pkl") != nullptr) return torchscript();
    BALLAST_CHECK(read_version());
    BALLAST_TRY(const bool big_endian, read_byte_order());
    const ZipMember* pickle = find(kTorchPickleName);
    if (pickle == nullptr) return broken(fmt::format("there is no member {}", full_name(kTorchPickleName)));
    const uint64_t limit = pickle->deflated ? limits_.inflated_pickle : kMaxTorchPickle;
    BALLAST_TRY(const BytesOrView bytes, read_member(*pickle, limit));
    BALLAST_TRY(const Pickle object, read_object_pickle(*pickle, bytes.bytes()));
    BALLAST_TRY(TorchStorages storages, TorchStorages::collect(object.tree, /*with_views=*/false, source_.name()));
    for (TorchStorage& storage : storages.all()) BALLAST_CHECK(find_record(storage));
    note_unused(storages);
    return read_torch_object({.tree = object.tree,
                              .storages = storages,
                              .limits = limits_,
                              .big_endian = big_endian,
                              .pickle_offset = pickle->data_offset,
                              .where = source_.name()},
                             findings_);
  }

  const std::string& version() const { return version_; }

 private:
  Error broken(std::string_view what) const {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", source_.name(), what));
  }

  Error torchscript() const {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: this is a TorchScript program (torch.jit.save), not a checkpoint. In Python: "
                                  "torch.save(torch.jit.load(path).state_dict(), other_path)",
                                  source_.name()));
  }

  std::string full_name(std::string_view record) const { return fmt::format("{}/{}", prefix_, record); }

  // ---------------------------------------------------------------- members

  // All of them lie in one folder. PyTorch finds them without regard to case and takes the first of two, so that two
  // names which differ in case alone would show it another content than us.
  Status check_members() {
    if (members_.empty()) return broken("the zip file has no members");
    const std::string& first = members_.front().name;
    prefix_ = first.substr(0, first.find('/'));
    for (const ZipMember& member : members_) {
      const bool inside = member.name.size() > prefix_.size() + 1 && member.name.starts_with(prefix_) &&
                          member.name[prefix_.size()] == '/' && !prefix_.empty();
      if (inside) continue;
      return broken(
          fmt::format("member \"{}\" does not lie in the folder \"{}\" of the first one", member.name, prefix_));
    }
    std::ranges::sort(members_, less_without_case, &ZipMember::name);
    const auto twin = std::ranges::adjacent_find(members_, [](const ZipMember& a, const ZipMember& b) {
      return !less_without_case(a.name, b.name) && !less_without_case(b.name, a.name);
    });
    if (twin == members_.end()) return {};
    return broken(fmt::format("the names of members \"{}\" and \"{}\" differ at most in upper and lower case",
                              twin->name, (twin + 1)->name));
  }

  const ZipMember* find(std::string_view record) const {
    const std::string name = full_name(record);
    const auto found = std::ranges::lower_bound(members_, name, less_without_case, &ZipMember::name);
    return found != members_.end() && found->name == name ? &*found : nullptr;
  }

  // PyTorch can be told to write no checksums; they are 0 then.
  static std::optional<uint32_t> checksum(const ZipMember& member) {
    return member.crc32 == 0 ? std::nullopt : std::optional(member.crc32);
  }

  // The whole member, checked.
  Result<BytesOrView> read_member(const ZipMember& member, uint64_t limit) const {
    if (member.size > limit) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: member \"{}\" has {} bytes; {} are the most that are read of a file of this "
                                    "size",
                                    source_.name(), member.name, member.size, limit));
    }
    BALLAST_TRY(BytesOrView bytes,
                member.deflated ? inflated(member) : BytesOrView::of(source_, member.data_offset, member.size));
    const auto expected = checksum(member);
    if (!expected || crc32_of(bytes.bytes()) == *expected) return bytes;
    return broken(fmt::format("the checksum of member \"{}\" is wrong; its bytes were damaged", member.name));
  }

  Result<BytesOrView> inflated(const ZipMember& member) const {
    BALLAST_TRY(ByteVector bytes, make_bytes(source_, member.size));
    BALLAST_CHECK(inflate(source_, member.data_offset, member.stored_size, bytes, /*whole=*/true));
    return BytesOrView(std::move(bytes));
  }

  Status read_version() {
    const ZipMember* member = find("version");
    if (member == nullptr) return broken(fmt::format("there is no member {}", full_name("version")));
    BALLAST_TRY(const BytesOrView bytes, read_member(*member, kMaxSmallMember));
    std::string_view text = as_text(bytes.bytes());
    if (text.ends_with('\n')) text.remove_suffix(1);
    uint64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || end != text.data() + text.size() || number == 0 || number > kNewestVersion) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{}: version \"{}\" is not known; 1 to {} are",
                                                             source_.name(), text, kNewestVersion));
    }
    version_ = text;
    return {};
  }

  Result<bool> read_byte_order() const {
    const ZipMember* member = find("byteorder");
    if (member == nullptr) return false;
    BALLAST_TRY(const BytesOrView bytes, read_member(*member, kMaxSmallMember));
    const std::string_view text = as_text(bytes.bytes());
    if (text == "little") return false;
    if (text == "big") return true;
    return broken(fmt::format("byteorder is \"{}\" instead of little or big", text));
  }

  Result<Pickle> read_object_pickle(const ZipMember& member, ByteSpan bytes) const {
    const std::string where = fmt::format("{}: {}", source_.name(), member.name);
    BALLAST_TRY(Pickle object, read_pickle(bytes, torch_pickle_options(limits_, where)));
    if (object.length == bytes.size()) return object;
    return broken(
        fmt::format("{} bytes follow the end of the pickle in \"{}\"", bytes.size() - object.length, member.name));
  }

  // ---------------------------------------------------------------- storages

  Status find_record(TorchStorage& storage) const {
    const ZipMember* member = find(fmt::format("data/{}", storage.key));
    if (member == nullptr) {
      return broken(fmt::format("storage {} (byte {} of the pickle) has no member {}", storage.key, storage.offset,
                                full_name(fmt::format("data/{}", storage.key))));
    }
    if (member->size != storage.bytes()) {
      return broken(fmt::format("storage {} should have {} elements of {} bytes, and member \"{}\" has {} bytes",
                                storage.key, storage.count, storage.type.bytes, member->name, member->size));
    }
    if (member->deflated && member->size > limits_.payloads) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{}: member \"{}\" inflates to {} bytes, far more than a "
                                                             "file of this size should hold",
                                                             source_.name(), member->name, member->size));
    }
    storage.record = {.offset = member->data_offset,
                      .stored_size = member->stored_size,
                      .crc32 = checksum(*member),
                      .deflated = member->deflated};
    return {};
  }

  void note_unused(const TorchStorages& storages) {
    const std::string folder = full_name("data/");
    for (const ZipMember& member : members_) {
      if (!member.name.starts_with(folder)) continue;
      const std::string_view key = std::string_view(member.name).substr(folder.size());
      if (std::ranges::binary_search(storages.all(), key, {}, &TorchStorage::key)) continue;
      findings_.warning("unused_storage", member.data_offset, "", [&] {
        return fmt::format("{}: no tensor uses the {} bytes of member \"{}\"", source_.name(), member.size,
                           member.name);
      });
    }
  }

  const ByteSource& source_;
  Findings& findings_;
  TorchLimits limits_;
  std::vector<ZipMember> members_;  // in the order of their names, without regard to case
  std::string prefix_;
  std::string version_;
};

}  // namespace

Result<Archive> open_torch_zip(const OpenRequest& request, Findings& findings) {
  TorchZipReader reader(*request.source, findings);
  BALLAST_TRY(TorchObject object, reader.read());
  Description description;
  description.format = kTorchDriver.name;
  description.version = reader.version();
  description.producer = "PyTorch";
  description.metadata = std::move(object.metadata);
  description.tensors = std::move(object.tensors);
  return Archive(std::move(description), std::move(object.extents), {request.source});
}

}  // namespace ballast
