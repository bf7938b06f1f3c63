// Options that say what file is written.
#pragma once

#include "ballast/formats/format.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

// The format called `name`, or where that is NULL the one of the path's extension.
Result<const FormatDriver*> choose_format(const char* name, const std::string& path);

template <typename Options>
WriteOptions format_options(const Options& given) {
  WriteOptions options;
  options.compress = given.compress;
  options.shard_size = given.shard_size;
  options.target = text_or_empty(given.target);
  return options;
}

}  // namespace ballast::c
