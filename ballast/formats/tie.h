// Tensors that share their payload: tied weights, stored once.
//
// Formats whose index says where each payload lies can store it once for several tensors. Readers mark such tensors in
// their stored form ("tie=1": all tensors of the file with this number lie at the same place), so that a copy of the
// file, or its way back through another format, has them stored once again. Writers are told by WriteRequest::ties.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/formats/archive.h"

namespace ballast {

// The number in a stored form, and the form without it.
std::optional<uint64_t> tie_number(std::string_view stored_form);
std::string_view form_without_tie(std::string_view stored_form);
// Absent: takes it away.
void set_tie_number(TensorInfo& tensor, std::optional<uint64_t> number);

// True when both are the same bytes of the same file, and any. Slices of one compressed member begin at one offset;
// views of one run are not compared, and count as different.
inline bool share_payload(const StoredExtent& a, const StoredExtent& b) {
  return a.length != 0 && a.offset == b.offset && a.length == b.length && a.source == b.source &&
         a.member_prefix == b.member_prefix && a.member_suffix == b.member_suffix && !a.view && !b.view;
}

// Marks tensors whose extents are equal, numbered from 1 in the order of the tensors. A file with more of them than
// anyone ties is left unmarked: what a file makes us keep must stay in proportion to its size.
void mark_ties(std::span<TensorInfo> tensors, std::span<const StoredExtent> extents);

// The first tensor that `index` shares its payload with, or `index` itself. `ties` as in WriteRequest.
inline size_t payload_owner(std::span<const uint32_t> ties, size_t index) { return ties.empty() ? index : ties[index]; }

}  // namespace ballast
