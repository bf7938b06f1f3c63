#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/numpy/npz.h"

namespace ballast {

namespace {

constexpr std::string_view kWindows = "windows";
constexpr std::string_view kNumpy = "numpy";
constexpr std::string_view kCompressed = "compressed";

// A compressed header's text is kept only when short: what a file makes us keep must stay in proportion to its size.
constexpr size_t kMaxDeflatedSpelling = 160;
constexpr uint64_t kMaxInflatedOrigin = 8 << 20;

class NpzReader {
 public:
  NpzReader(std::shared_ptr<const ByteSource> source, Findings& findings)
      : source_(std::move(source)), findings_(findings) {}

  Result<NpzContents> read() {
    BALLAST_TRY(const ZipDirectory directory, read_zip_directory(*source_, findings_));
    contents_.tensors.reserve(directory.members.size());
    contents_.extents.reserve(directory.members.size());
    contents_.positions.reserve(directory.members.size());
    for (size_t i = 0; i < directory.members.size(); ++i) BALLAST_CHECK(add_member(directory.members[i], i));
    if (npy_members_ == 0 && !directory.members.empty()) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{}: none of the {} members of this zip file is a .npy array", source_->name(),
                                    directory.members.size()));
    }
    BALLAST_TRY(contents_.origin, take_text(kOriginKey));
    BALLAST_TRY(contents_.pair, take_text(kPairKey));
    BALLAST_CHECK(check_names());
    contents_.form = find_form(directory);
    return std::move(contents_);
  }

 private:
  Status add_member(const ZipMember& member, size_t position) {
    if (member.name.ends_with('/')) {
      findings_.note("folder", member.header_offset, member.name, [&] {
        return fmt::format("{}: member \"{}\" is a folder and holds no tensor", source_->name(), member.name);
      });
      return {};
    }
    if (!member.name.ends_with(kNpyEnding)) {
      add_raw(member, position);
      return {};
    }
    ++npy_members_;
    const std::string name = member.name.substr(0, member.name.size() - kNpyEnding.size());
    const std::string where = fmt::format("{}: tensor \"{}\"", source_->name(), name);
    const auto read_prefix = [&](uint64_t length) { return read_member_prefix(member, length); };
    auto header =
        read_npy_header(read_prefix, member.size, member.deflated ? kMaxDeflatedNpyHeader : kMaxNpyHeader, where);
    if (!header) {
      Error error = std::move(header).error();
      return findings_.error(error.code == ErrorCode::kUnsupported ? "unsupported" : "npy_header", member.data_offset,
                             name, std::move(error.message), error.code);
    }
    add_array(member, name, *header, position);
    return {};
  }

  Result<BytesOrView> read_member_prefix(const ZipMember& member, uint64_t length) const {
    if (!member.deflated) return BytesOrView::of(*source_, member.data_offset, length);
    BALLAST_TRY(ByteVector bytes, make_bytes(*source_, length));
    BALLAST_CHECK(inflate(*source_, member.data_offset, member.stored_size, bytes, /*whole=*/false));
    return BytesOrView(std::move(bytes));
  }

  void add_array(const ZipMember& member, std::string name, const NpyHeader& header, size_t position) {
    TensorInfo tensor = npy_tensor(std::move(name), header);
    const bool keeps_spelling = !member.deflated || header.spelling.size() <= kMaxDeflatedSpelling;
    if (!header.is_canonical && keeps_spelling) tensor.set_stored_form(header.spelling);
    StoredExtent extent{.offset = member.data_offset,
                        .length = member.stored_size,
                        .member_prefix = header.length,
                        .crc32 = member.crc32,
                        .deflated = member.deflated,
                        .big_endian = header.type.big_endian,
                        .fortran_order = header.fortran_order};
    if (!member.deflated) {
      extent.offset += header.length;
      extent.length -= header.length;
    }
    contents_.npy_version = std::max(contents_.npy_version, header.version);
    add(std::move(tensor), extent, position);
  }

  // NumPy gives the bytes of such a member; so do we.
  void add_raw(const ZipMember& member, size_t position) {
    findings_.warning("not_an_array", member.data_offset, member.name, [&] {
      return fmt::format("{}: member \"{}\" is no .npy array; its {} bytes are taken as they are", source_->name(),
                         member.name, member.size);
    });
    TensorInfo tensor;
    tensor.name = member.name;
    tensor.dtype = DType::kU8;
    tensor.shape = {member.size};
    tensor.byte_size = member.size;
    tensor.set_stored_form(std::string(kRawMember));
    add(std::move(tensor),
        {.offset = member.data_offset,
         .length = member.stored_size,
         .crc32 = member.crc32,
         .deflated = member.deflated},
        position);
  }

  void add(TensorInfo tensor, const StoredExtent& extent, size_t position) {
    contents_.tensors.push_back(std::move(tensor));
    contents_.extents.push_back(extent);
    contents_.positions.push_back(static_cast<uint32_t>(position));
  }

  // Only what our writer makes counts: UTF-8 text in a one-dimensional u8 array.
  Result<std::optional<std::string>> take_text(std::string_view name) {
    std::optional<std::string> text;
    const auto found = std::ranges::find(contents_.tensors, name, &TensorInfo::name);
    if (found == contents_.tensors.end() || found->dtype != DType::kU8 || found->shape.rank() != 1) return text;
    if (found->stored_form() == kRawMember) return text;
    const auto index = static_cast<size_t>(found - contents_.tensors.begin());
    auto payload = read_npz_payload(source_, contents_, index, kMaxInflatedOrigin);
    if (!payload) {
      Error error = std::move(payload).error();
      BALLAST_CHECK(findings_.error(name == kOriginKey ? "origin" : "pair", contents_.extents[index].offset,
                                    std::string(name), std::move(error.message), error.code));
      return text;
    }
    if (!is_valid_utf8(as_text(*payload))) return text;
    text = std::string(as_text(*payload));
    contents_.erase(index);
    return text;
  }

  // `x` and `x.npy` are different members but the same tensor.
  Status check_names() {
    for (const size_t twin : find_duplicate_names(contents_.tensors)) {
      const std::string& name = contents_.tensors[twin].name;
      BALLAST_CHECK(findings_.error("duplicate_name", contents_.extents[twin].offset, name,
                                    fmt::format("{}: two members are called \"{}\"", source_->name(), name)));
    }
    return {};
  }

  NpzForm find_form(const ZipDirectory& directory) const {
    if (!directory.is_numpy_form) return {};
    const auto& extents = contents_.extents;
    const auto deflated = static_cast<size_t>(std::ranges::count(extents, true, &StoredExtent::deflated));
    if (deflated != 0 && deflated != extents.size()) return {};
    return {.numpy = true, .windows = directory.style.windows, .compressed = deflated != 0};
  }

  std::shared_ptr<const ByteSource> source_;
  Findings& findings_;
  NpzContents contents_;
  size_t npy_members_ = 0;
};

}  // namespace

std::string NpzForm::to_text() const {
  std::string text;
  const auto add = [&text](bool holds, std::string_view word) {
    if (!holds) return;
    if (!text.empty()) text += ' ';
    text += word;
  };
  add(numpy, kNumpy);
  add(numpy && windows, kWindows);
  add(numpy && compressed, kCompressed);
  return text;
}

NpzForm NpzForm::from_text(std::string_view text) {
  NpzForm form;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    form.numpy |= word == kNumpy;
    form.windows |= word == kWindows;
    form.compressed |= word == kCompressed;
  }
  return form.numpy ? form : NpzForm{};
}

void NpzContents::erase(size_t index) {
  const auto at = static_cast<ptrdiff_t>(index);
  tensors.erase(tensors.begin() + at);
  extents.erase(extents.begin() + at);
  positions.erase(positions.begin() + at);
}

Result<NpzContents> read_npz(const std::shared_ptr<const ByteSource>& source, Findings& findings) {
  return NpzReader(source, findings).read();
}

Result<ByteVector> read_npz_payload(const std::shared_ptr<const ByteSource>& source, const NpzContents& contents,
                                    size_t index, uint64_t max_inflated) {
  const TensorInfo& tensor = contents.tensors[index];
  if (contents.extents[index].deflated && tensor.byte_size > max_inflated) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: member \"{}\" inflates to {} bytes; at most {} are read", source->name(),
                                  tensor.name, tensor.byte_size, max_inflated));
  }
  Description description;
  description.tensors.push_back(tensor);
  const Archive archive(std::move(description), {contents.extents[index]}, {source});
  BALLAST_TRY(ByteVector bytes, make_bytes(*source, tensor.byte_size));
  BALLAST_CHECK(archive.read_into(0, bytes));
  return bytes;
}

}  // namespace ballast
