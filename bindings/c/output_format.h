// Options that say what file is written, and how.
#pragma once

#include "ballast/archive/convert.h"
#include "ballast/formats/format.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

// ballast_write_options, ballast_convert_options
template <typename Options>
WriteOptions format_options(const Options& given) {
  WriteOptions options;
  options.compress = given.compress;
  options.shard_size = given.shard_size;
  options.target = text_or_empty(given.target);
  return options;
}

template <typename Options>
Result<ConvertOptions> written_as(const Options& given) {
  ConvertOptions options;
  options.allow_lossy = given.allow_lossy;
  options.threads = given.threads;
  options.write.format = format_options(given);
  options.write.commit.overwrite = given.overwrite;
  options.write.commit.sync = !given.no_sync;
  BALLAST_TRY(options.write.progress, given_progress(given));
  return options;
}

}  // namespace ballast::c
