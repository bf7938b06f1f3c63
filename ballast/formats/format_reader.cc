// Opening with a list of readers. Apart from the table of all formats, which a small program does not link.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/formats/format.h"

namespace ballast {

namespace {

std::string first_bytes_text(ByteSpan head) {
  constexpr size_t kShown = 8;
  return to_hex(head.first(std::min(head.size(), kShown)));
}

Error unknown_format(const OpenRequest& request, std::span<const FormatReader* const> readers, ByteSpan head) {
  if (head.empty()) {
    return make_error(
        ErrorCode::kUnknownFormat,
        fmt::format("{}: the file is empty; its writer was probably interrupted", request.source->name()));
  }
  std::string known;
  for (const FormatReader* reader : readers) known += fmt::format("{}{}", known.empty() ? "" : ", ", reader->name);
  return make_error(ErrorCode::kUnknownFormat,
                    fmt::format("{}: no known format begins with bytes {} (size {}); known formats: {}",
                                request.source->name(), first_bytes_text(head), request.source->size(), known));
}

}  // namespace

Result<const FormatReader*> detect_reader(const OpenRequest& request, std::span<const FormatReader* const> readers) {
  const uint64_t head_size = std::min<uint64_t>(request.source->size(), kSniffBytes);
  BALLAST_TRY(const BytesOrView head, BytesOrView::of(*request.source, 0, head_size));
  const SniffInput input{head.bytes(), request.source->size(), request.file_name, request.source.get()};
  const FormatReader* likely = nullptr;
  for (const FormatReader* reader : readers) {
    const SniffMatch match = reader->sniff(input);
    if (match == SniffMatch::kCertain) return reader;
    if (match == SniffMatch::kLikely && likely == nullptr) likely = reader;
  }
  if (likely != nullptr) return likely;
  return unknown_format(request, readers, head.bytes());
}

Result<Archive> open_archive(const OpenRequest& request, std::span<const FormatReader* const> readers) {
  BALLAST_TRY(const FormatReader* reader, detect_reader(request, readers));
  OpenRequest among = request;
  if (among.readers.empty()) among.readers = readers;
  Findings findings = Findings::stop_at_first_error();
  return reader->open(among, findings);
}

}  // namespace ballast
