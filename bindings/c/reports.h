// Reports that several functions give, and what the functions that make them have in common.
#pragma once

#include "ballast/archive/convert.h"
#include "ballast/archive/verify.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_conversion> {
  using Object = ConvertReport;
  static constexpr HandleKind kKind = HandleKind::kConversion;
  static constexpr const char* kName = "conversion";
};
template <>
struct HandleTraits<ballast_findings> {
  using Object = VerifyReport;
  static constexpr HandleKind kKind = HandleKind::kFindings;
  static constexpr const char* kName = "list of findings";
};

// Of functions that give what number `index` is.
template <typename Item>
Result<const Item*> item_at(const std::vector<Item>& items, size_t index) {
  if (index < items.size()) return &items[index];
  return make_error(ErrorCode::kInvalidArgument, "there is no entry " + std::to_string(index) + ": there are " +
                                                     std::to_string(items.size()) + ", and they number from 0");
}

// VerifyOptions, DiffOptions, DigestOptions, DoctorOptions, StatsOptions
template <typename Options>
Result<Options> work_options(const ballast_work_options* given) {
  BALLAST_TRY(const ballast_work_options work, given_options(given));
  Options options;
  options.threads = work.threads;
  BALLAST_TRY(options.progress, given_progress(work));
  return options;
}

}  // namespace ballast::c
