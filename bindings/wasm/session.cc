#include "bindings/wasm/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/slice.h"
#include "ballast/tensor/elements.h"

namespace ballast::wasm {

Result<std::shared_ptr<const ByteSource>> SessionSiblings::open_sibling(std::string_view file_name) {
  const auto found = files_.find(file_name);
  if (found != files_.end()) return found->second;
  return make_error(ErrorCode::kNotFound, fmt::format("{}: this file belongs to the set but was not given; choose all "
                                                      "files of the set together",
                                                      file_name));
}

uint32_t Session::add_source(uint64_t size, std::string name) {
  const uint32_t id = ++last_;
  sources_[id] = std::make_shared<RangeSource>(id, size, std::move(name), missing_);
  return id;
}

RangeSource* Session::source(uint32_t id) {
  const auto found = sources_.find(id);
  return found == sources_.end() ? nullptr : found->second.get();
}

void Session::drop_cached() {
  for (const auto& [id, source] : sources_) source->drop_all();
}

uint32_t Session::add_archive(std::unique_ptr<OpenedArchive> archive) {
  archives_[++last_] = std::move(archive);
  return last_;
}

Result<const OpenedArchive*> Session::archive(uint64_t id) const {
  const auto found = archives_.find(static_cast<uint32_t>(id));
  if (found == archives_.end()) return make_error(ErrorCode::kInvalidArgument, "this archive is closed");
  return found->second.get();
}

uint32_t Session::add_work(std::unique_ptr<Work> work) {
  works_[++last_] = std::move(work);
  return last_;
}

Work* Session::work(uint32_t id) {
  const auto found = works_.find(id);
  return found == works_.end() ? nullptr : found->second.get();
}

const RangeSource* Session::range_source(const ByteSource* source) const {
  for (const auto& [id, ours] : sources_) {
    if (ours.get() == source) return ours.get();
  }
  return nullptr;
}

Result<bool> Session::has_range(const Archive& archive, size_t tensor, uint64_t begin, uint64_t length) {
  if (length > kMostAtOnce) {
    return make_error(
        ErrorCode::kOutOfMemory,
        fmt::format("tensor \"{}\": {} bytes are needed at once, and the module holds at most {}: use the "
                    "command for this one",
                    archive.tensors()[tensor].name, length, kMostAtOnce));
  }
  const StoredExtent& extent = archive.extent(tensor);
  const RangeSource* const source = range_source(archive.sources()[extent.source].get());
  return source == nullptr || source->has(extent.offset + begin, length);  // otherwise bytes of the module's own
}

Result<bool> Session::has_stored(const Archive& archive, size_t tensor) {
  const StoredExtent& extent = archive.extent(tensor);
  // A deflated member begins at `offset`, a stored one so many bytes before it; its checksum covers all of it.
  const uint64_t before = extent.deflated ? 0 : std::min(extent.member_prefix, extent.offset);
  const uint64_t after = extent.deflated ? 0 : extent.member_suffix;
  const RangeSource* const source = range_source(archive.sources()[extent.source].get());
  if (source == nullptr) return true;
  BALLAST_TRY(const bool small, has_range(archive, tensor, 0, extent.length));
  const bool rest = (before == 0 || source->has(extent.offset - before, before)) &&
                    (after == 0 || source->has(extent.offset + extent.length, after));
  return small && rest;
}

Result<ChosenTensor> choose_tensor(Session& session, const JsonObject& request, std::string_view archive_key,
                                   std::string_view tensor_key) {
  BALLAST_TRY(const uint64_t id, request.count(archive_key));
  BALLAST_TRY(const uint64_t index, request.count(tensor_key));
  BALLAST_TRY(const OpenedArchive* opened, session.archive(id));
  if (index >= opened->archive->tensors().size()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("the archive has no tensor {}", index));
  }
  return ChosenTensor{&*opened->archive, static_cast<size_t>(index)};
}

Archive alone(const Archive& archive, size_t tensor, const std::string& name) {
  Description description;
  description.format = archive.description().format;
  description.tensors.push_back(archive.tensors()[tensor]);
  description.tensors.front().name = name;
  const auto sources = archive.sources();
  return {std::move(description), {archive.extent(tensor)}, {sources.begin(), sources.end()}};
}

namespace {
// As archive/stats.cc cuts tensors: merged in this order, statistics have the command's bits.
constexpr uint64_t kPiece = uint64_t{2} << 20;
constexpr uint64_t kPiecesPerStep = 8;
}  // namespace

Pieces::Pieces(Session& session, const Archive& archive, size_t tensor)
    : session_(session),
      archive_(archive),
      tensor_(tensor),
      size_(archive.tensors()[tensor].byte_size),
      piece_(kPiece / element_unit(archive.tensors()[tensor].dtype).bytes *
             element_unit(archive.tensors()[tensor].dtype).bytes) {}

Result<bool> Pieces::ready() {
  if (at_end()) return true;
  if (!archive_.extent(tensor_).is_canonical()) return session_.has_stored(archive_, tensor_);
  return session_.has_range(archive_, tensor_, at_, std::min(piece_ * kPiecesPerStep, size_ - at_));
}

Status Pieces::take(const std::function<Status(ByteSpan)>& body) {
  if (at_end()) return {};
  if (!archive_.extent(tensor_).is_canonical()) {
    BALLAST_TRY(const Payload payload, archive_.payload(tensor_));
    const ByteSpan bytes = payload.bytes();
    for (; at_ < size_; at_ += piece_) {
      BALLAST_CHECK(body(bytes.subspan(static_cast<size_t>(at_), static_cast<size_t>(std::min(piece_, size_ - at_)))));
    }
    return {};
  }
  const StoredExtent& extent = archive_.extent(tensor_);
  const ByteSource& source = *archive_.sources()[extent.source];
  for (uint64_t i = 0; i < kPiecesPerStep && at_ < size_; ++i) {
    const uint64_t now = std::min(piece_, size_ - at_);
    BALLAST_TRY(const ByteVector bytes, read_bytes(source, extent.offset + at_, now));
    BALLAST_CHECK(body(bytes));
    at_ += now;
  }
  return {};
}

}  // namespace ballast::wasm
