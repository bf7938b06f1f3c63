// PyTorch's checkpoints (torch.save), read only: writing them would mean writing pickles. See docs/formats.md.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/formats/container/zip.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/torch/torch_container.h"

namespace ballast {

namespace {

bool is_pickle_member(std::string_view name) {
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && name.substr(slash + 1) == kTorchPickleName;
}

SniffMatch sniff_torch_zip(const SniffInput& input) {
  bool found = false;
  const bool listed = for_each_zip_name(*input.source, [&](std::string_view name) {
    found = is_pickle_member(name);
    return !found;
  });
  if (!listed) found = is_pickle_member(first_zip_name(input.head));
  return found ? SniffMatch::kCertain : SniffMatch::kNo;
}

// What PyTorch wrote before 0.1.10.
bool looks_like_torch_tar(ByteSpan head) {
  constexpr size_t kMarkAt = 257;
  const std::string_view text = as_text(head);
  if (text.size() < kMarkAt || !text.substr(kMarkAt).starts_with("ustar")) return false;
  std::string_view name = text.substr(0, std::min(text.find('\0'), size_t{100}));
  if (name.starts_with("./")) name.remove_prefix(2);
  return name == "storages" || name == "tensors" || name == "pickle";
}

SniffMatch sniff_torch(const SniffInput& input) {
  if (looks_like_zip(input.head)) return sniff_torch_zip(input);
  if (looks_like_torch_tar(input.head)) return SniffMatch::kCertain;
  // Behind PROTO, and FRAME in protocol 4 and later. Other pickles are no files of tensors.
  constexpr size_t kFurthest = 16;
  const std::string_view front = as_text(input.head).substr(0, kFurthest + kTorchLegacyMagic.size());
  const bool found = front.starts_with('\x80') && front.find(kTorchLegacyMagic) != std::string_view::npos;
  return found ? SniffMatch::kCertain : SniffMatch::kNo;
}

Result<Archive> open_torch(const OpenRequest& request, Findings& findings) {
  constexpr uint64_t kHead = 512;
  const ByteSource& source = *request.source;
  BALLAST_TRY(const BytesOrView head, BytesOrView::of(source, 0, std::min(source.size(), kHead)));
  if (looks_like_zip(head.bytes())) return open_torch_zip(request, findings);
  if (looks_like_torch_tar(head.bytes())) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: a tar file as PyTorch wrote it before version 0.1.10; load it with PyTorch and "
                                  "save the state dict again",
                                  source.name()));
  }
  return open_torch_legacy(request, findings);
}

constexpr std::string_view kTorchExtensions[] = {".pt", ".pth", ".ckpt", ".bin"};

}  // namespace

constexpr FormatReader kTorchReader = {
    .name = "torch",
    .summary = "PyTorch checkpoints (torch.save), read without running anything",
    .extensions = kTorchExtensions,
    .sniff = sniff_torch,
    .open = open_torch,
    .can_be_shard = true,
};

const FormatDriver kTorchDriver = {kTorchReader, {.stores_origin = false}};

}  // namespace ballast
