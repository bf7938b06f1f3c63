#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/numpy/npz.h"

namespace ballast {

namespace {

constexpr uint64_t kPayloadAlignment = 64;

// Passes everything on and keeps its checksum.
class ChecksumSink final : public ByteSink {
 public:
  explicit ChecksumSink(ByteSink& sink) : sink_(sink) {}

  Status write(ByteSpan bytes) override {
    crc_ = crc32_of(bytes, crc_);
    position_ += bytes.size();
    return sink_.write(bytes);
  }
  Status write_zeros(uint64_t count) override {
    crc_ = crc32_of_zeros(count, crc_);
    position_ += count;
    return sink_.write_zeros(count);
  }
  Status patch(uint64_t, ByteSpan) override {
    return make_error(ErrorCode::kInvalidArgument, "bytes under a checksum cannot be patched");
  }
  uint64_t position() const override { return position_; }

  uint32_t crc() const { return crc_; }

 private:
  ByteSink& sink_;
  uint32_t crc_ = 0;
  uint64_t position_ = 0;
};

class NpzWrite final : public PlannedWrite {
 public:
  explicit NpzWrite(NpzLayout layout) : layout_(std::move(layout)), files_{{"", layout_.size()}} {}

  const std::vector<PlannedFile>& files() const override { return files_; }
  Status emit(size_t, ByteSink& sink, TensorFeed& feed) const override { return layout_.emit(sink, feed); }
  bool patches() const override { return true; }  // checksums stand in front of what they cover

 private:
  NpzLayout layout_;
  std::vector<PlannedFile> files_;
};

ZipMember zip_member_at(uint64_t offset, const std::string& name, uint64_t size, bool deflated) {
  ZipMember zip;
  zip.name = name;
  zip.header_offset = offset;
  zip.size = size;
  zip.deflated = deflated;
  zip.stored_size = deflated ? 0 : size;  // what deflate makes of it is known later
  return zip;
}

}  // namespace

NpzExtraMember npz_text_member(std::string_view name, const std::string& text) {
  TensorInfo info;
  info.name = name;
  info.dtype = DType::kU8;
  info.shape = {text.size()};
  info.byte_size = text.size();
  // Stored even among compressed members: opening reads it, and must know what that costs.
  return {std::string(name), npy_layout(info, {}).value().header, text, SIZE_MAX, /*may_deflate=*/false};
}

Result<NpzLayout::Member> NpzLayout::tensor_member(const TensorInfo& tensor, size_t index, bool keep_forms) const {
  Member member;
  member.tensor = index;
  member.payload_size = tensor.byte_size;
  member.deflated = form_.compressed;
  if (keep_forms && tensor.stored_form() == kRawMember) {
    member.name = tensor.name;
    return member;
  }
  member.name = tensor.name + std::string(kNpyEnding);
  const bool follow_spelling = keep_forms && form_.numpy;
  BALLAST_TRY(NpyLayout layout, npy_layout(tensor, follow_spelling ? tensor.stored_form() : std::string()));
  member.prefix = std::move(layout.header);
  member.form = layout.form;
  return member;
}

Result<NpzLayout> NpzLayout::plan(std::span<const TensorInfo> tensors, NpzForm form, bool keep_forms,
                                  std::vector<NpzExtraMember> extras) {
  NpzLayout layout(form);
  layout.members_.reserve(tensors.size() + extras.size());
  auto extra = extras.begin();
  const auto add_extras_before = [&](size_t position) {
    for (; extra != extras.end() && extra->position <= position; ++extra) {
      layout.members_.push_back({.name = extra->name + std::string(kNpyEnding),
                                 .prefix = std::move(extra->header),
                                 .payload_size = extra->payload.size(),
                                 .deflated = form.compressed && extra->may_deflate,
                                 .payload = std::move(extra->payload)});
    }
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    add_extras_before(i);
    BALLAST_TRY(Member member, layout.tensor_member(tensors[i], i, keep_forms));
    layout.members_.push_back(std::move(member));
  }
  add_extras_before(SIZE_MAX);
  BALLAST_CHECK(layout.place_members());
  return layout;
}

// The local header; in the aligned form it is stretched so that the payload behind it begins where it can be mapped.
std::string NpzLayout::local_header(const Member& member, const ZipMember& zip) const {
  std::string header = zip_local_header(zip, style());
  if (form_.numpy) return header;
  const uint64_t payload_offset = zip.header_offset + header.size() + member.prefix.size();
  uint64_t padding = kPayloadAlignment - payload_offset % kPayloadAlignment;
  if (padding == kPayloadAlignment) return header;
  if (padding < kMinZipPadding) padding += kPayloadAlignment;
  return zip_local_header(zip, style(), static_cast<uint16_t>(padding));
}

// Checks every name and, where sizes are known, computes that of the file.
Status NpzLayout::place_members() {
  const bool known = std::ranges::none_of(members_, &Member::deflated);
  std::optional<uint64_t> offset = 0;
  uint64_t directory_size = 0;
  for (const Member& member : members_) {
    const auto problem = unsafe_zip_name(member.name);
    if (!problem.empty() || member.name.size() > kMaxZipName) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("\"{}\" cannot be a member of a zip file: {}", member.name,
                                    problem.empty() ? "its name is longer than 65535 bytes" : problem));
    }
    if (!known) continue;
    const auto content = checked_add(member.prefix.size(), member.payload_size);
    if (!content) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
    const ZipMember zip = zip_member_at(*offset, member.name, *content, /*deflated=*/false);
    directory_size += zip_central_header(zip, style()).size();
    offset = checked_add(*offset + local_header(member, zip).size(), *content);
    if (!offset) return make_error(ErrorCode::kInvalidArgument, "the tensors together exceed 2^64 bytes");
  }
  if (known) size_ = *offset + directory_size + zip_end_records(members_.size(), *offset, directory_size).size();
  return {};
}

Result<ZipMember> NpzLayout::emit_member(const Member& member, uint64_t start, ByteSink& sink, TensorFeed& feed) const {
  ZipMember zip =
      zip_member_at(sink.position() - start, member.name, member.prefix.size() + member.payload_size, member.deflated);
  BALLAST_CHECK(sink.write_text(local_header(member, zip)));
  const uint64_t data_start = sink.position();
  std::optional<DeflateSink> deflater;
  if (member.deflated) deflater.emplace(sink);
  ChecksumSink content(deflater ? static_cast<ByteSink&>(*deflater) : sink);
  BALLAST_CHECK(content.write_text(member.prefix));
  if (member.tensor) BALLAST_CHECK(feed.emit(*member.tensor, member.form, content));
  else BALLAST_CHECK(content.write_text(member.payload));
  if (content.position() != zip.size) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("member \"{}\": {} bytes were planned, {} written",
                                                               member.name, zip.size, content.position()));
  }
  if (deflater) BALLAST_CHECK(deflater->finish());
  zip.stored_size = sink.position() - data_start;
  zip.crc32 = content.crc();
  BALLAST_CHECK(sink.patch(start + zip.header_offset, as_bytes(local_header(member, zip))));
  return zip;
}

Status NpzLayout::emit(ByteSink& sink, TensorFeed& feed) const {
  const uint64_t start = sink.position();
  std::string directory;
  for (const Member& member : members_) {
    BALLAST_TRY(const ZipMember zip, emit_member(member, start, sink, feed));
    directory += zip_central_header(zip, style());
  }
  const uint64_t directory_offset = sink.position() - start;
  directory += zip_end_records(members_.size(), directory_offset, directory.size());
  return sink.write_text(directory);
}

std::unique_ptr<PlannedWrite> make_npz_write(NpzLayout layout) { return std::make_unique<NpzWrite>(std::move(layout)); }

void find_npz_losses(const Description& description, std::string_view format, std::vector<Loss>& losses) {
  for (const TensorInfo& tensor : description.tensors) {
    const std::string member = tensor.name + std::string(kNpyEnding);
    std::string_view problem = unsafe_zip_name(member);
    if (member.size() > kMaxZipName) problem = "its name is too long for a zip file";
    if (tensor.name == kOriginKey || tensor.name == kPairKey || tensor.name == kNetclMetaName)
      problem = "its name has another meaning there";
    if (problem.empty()) continue;
    losses.push_back(
        {.tensor = tensor.name,
         .what = fmt::format("{} cannot hold it, because {}; the tensor would be left out", format, problem),
         .drop = true});
  }
  find_npy_type_losses(description, format, losses);
}

}  // namespace ballast
