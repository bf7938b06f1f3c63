// Where the payloads of a GGUF file lie: aligned, inside the file, and no two on the same bytes.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/base/sort_positions.h"
#include "ballast/formats/gguf/gguf.h"
#include "ballast/formats/payload_order.h"

namespace ballast {

namespace {

class GgufPlacement {
 public:
  GgufPlacement(const ByteSource& source, GgufTable table, Findings& findings)
      : source_(source),
        findings_(findings),
        tensors_(std::move(table.tensors)),
        places_(std::move(table.places)),
        table_end_(table.end),
        alignment_(table.alignment) {}

  Status run(GgufFile& file) {
    data_start_ = checked_align_up(table_end_, alignment_).value_or(UINT64_MAX);
    for (size_t i = 0; i < tensors_.size(); ++i) BALLAST_CHECK(check_place(i));
    BALLAST_CHECK(check_names());
    sort_by_offset();
    BALLAST_CHECK(check_neighbours());
    check_end(file.form);
    file.description.tensors = std::move(tensors_);
    return take_extents(file);
  }

 private:
  Status check_place(size_t index) {
    const TensorInfo& tensor = tensors_[index];
    const uint64_t offset = places_[index].offset;
    if (offset % alignment_ != 0) {
      BALLAST_CHECK(findings_.error("unaligned", places_[index].table_offset, tensor.name,
                                    fmt::format("{}: tensor \"{}\" begins at byte {} of the data, which is no multiple "
                                                "of the alignment {}",
                                                source_.name(), tensor.name, offset, alignment_)));
    }
    const auto begin = checked_add(data_start_, offset);
    if (begin && range_fits(*begin, tensor.byte_size, source_.size())) return {};
    return findings_.error(
        "truncated", source_.size(), tensor.name,
        fmt::format("{}: tensor \"{}\" takes {} bytes from byte {} of the data, which begins at {}, "
                    "but the file ends at {}; it was probably cut short",
                    source_.name(), tensor.name, tensor.byte_size, offset, data_start_, source_.size()));
  }

  Status check_names() {
    for (const size_t index : find_duplicate_names(tensors_)) {
      BALLAST_CHECK(
          findings_.error("duplicate_name", places_[index].table_offset, tensors_[index].name,
                          fmt::format("{}: tensor name \"{}\" stands twice", source_.name(), tensors_[index].name)));
    }
    return {};
  }

  void sort_by_offset() {
    if (std::ranges::is_sorted(places_, {}, &GgufTable::Place::offset)) return;
    findings_.warning("order", table_end_, "", [&] {
      return fmt::format("{}: the tensors lie in another order than the table names them: llama.cpp refuses the file",
                         source_.name());
    });
    std::vector<uint32_t> order = all_positions(places_.size());
    sort_positions(order, [&](uint32_t a, uint32_t b) { return places_[a].offset < places_[b].offset; });
    std::vector<TensorInfo> tensors;
    std::vector<GgufTable::Place> places;
    for (const uint32_t i : order) {
      tensors.push_back(std::move(tensors_[i]));
      places.push_back(places_[i]);
    }
    tensors_ = std::move(tensors);
    places_ = std::move(places);
  }

  // No two share bytes; what belongs to nobody is said.
  Status check_neighbours() {
    uint64_t end = 0;       // of what came before, in the data
    uint64_t previous = 0;  // where the last tensor with bytes begins
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const uint64_t offset = places_[i].offset;
      const uint64_t size = tensors_[i].byte_size;
      if (size != 0 && offset < end) {
        BALLAST_CHECK(report_overlap(i, end, offset == previous && offset + size == end));
      } else if (offset > checked_align_up(end, alignment_).value_or(UINT64_MAX)) {
        findings_.warning("hole", data_start_ + offset, tensors_[i].name, [&] {
          return fmt::format(
              "{}: tensor \"{}\" begins at byte {} of the data, leaving a hole after {}: llama.cpp refuses "
              "the file",
              source_.name(), tensors_[i].name, offset, end);
        });
      }
      if (size != 0) previous = offset;
      end = std::max(end, checked_add(offset, size).value_or(UINT64_MAX));
    }
    data_end_ = checked_add(data_start_, end).value_or(UINT64_MAX);
    return {};
  }

  Status report_overlap(size_t index, uint64_t end, bool tied) {
    std::string text = fmt::format(
        "{}: tensor \"{}\" begins at byte {} of the data, inside the tensor before it, which "
        "ends at {}",
        source_.name(), tensors_[index].name, places_[index].offset, end);
    const uint64_t at = places_[index].table_offset;
    // Of two that share all their bytes, each is what it says.
    return tied ? findings_.layout_error("overlap", at, tensors_[index].name, std::move(text))
                : findings_.error("overlap", at, tensors_[index].name, std::move(text));
  }

  void check_end(GgufForm& form) {
    const bool empty = tensors_.empty();
    const uint64_t end = empty ? table_end_ : data_end_;
    if (end > source_.size()) return;
    const uint64_t tail = source_.size() - end;
    const uint64_t padding = checked_align_up(end, alignment_).value_or(end) - end;
    if (padding != 0 && tail == (empty ? padding : 0)) {
      form.tail = empty ? GgufForm::Tail::kPadded : GgufForm::Tail::kBare;
    }
    if (!empty && padding != 0 && tail == 0) {
      findings_.note("padding", end, "", [&] {
        return fmt::format("{}: the last tensor is not padded to the alignment, as usual writers do", source_.name());
      });
    } else if (tail != 0 && tail != padding) {
      findings_.warning("trailing_bytes", end, "", [&] {
        return fmt::format("{}: {} bytes follow the last tensor instead of {} of padding; readers ignore them",
                           source_.name(), tail, empty ? 0 : padding);
      });
    }
  }

  Status take_extents(GgufFile& file) {
    for (size_t i = 0; i < places_.size(); ++i) {
      const TensorInfo& tensor = file.description.tensors[i];
      const bool swapped = file.form.order == ByteOrder::kBig && !is_byte_order_free(tensor.dtype);
      if (swapped && !can_swap_byte_order(tensor.dtype)) {
        BALLAST_CHECK(findings_.error("big_endian", places_[i].table_offset, tensor.name,
                                      fmt::format("{}: tensor \"{}\" is big-endian {}, which cannot be read: programs "
                                                  "disagree on which bytes of its blocks are swapped",
                                                  source_.name(), tensor.name, dtype_name(tensor.dtype)),
                                      ErrorCode::kUnsupported));
      }
      StoredExtent& extent = file.extents.emplace_back();
      extent.offset = checked_add(data_start_, places_[i].offset).value_or(UINT64_MAX);
      extent.length = tensor.byte_size;
      extent.big_endian = swapped;
    }
    return {};
  }

  const ByteSource& source_;
  Findings& findings_;
  std::vector<TensorInfo> tensors_;
  std::vector<GgufTable::Place> places_;
  uint64_t table_end_;
  uint64_t alignment_;
  uint64_t data_start_ = 0;
  uint64_t data_end_ = 0;
};

}  // namespace

Status place_gguf_tensors(const ByteSource& source, GgufTable table, Findings& findings, GgufFile& file) {
  return GgufPlacement(source, std::move(table), findings).run(file);
}

}  // namespace ballast
