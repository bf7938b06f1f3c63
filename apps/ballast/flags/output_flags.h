// Flags of the commands that write an archive other than convert: where to, which format, how.
#pragma once

#include <functional>
#include <string>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/convert.h"

namespace ballast::cli {

struct OutputFlags {
  std::string path;
  std::string format;
  std::string config_path;
  bool no_sync = false;
  bool no_tie = false;
  bool container_only = false;
  ConvertOptions options;
};

// --to, --allow-lossy, --dry-run, --overwrite, --compress, --target, --allow-half, --no-tie, --no-sync and --threads;
// the command itself declares -o, because what it may be differs.
void add_output_flags(Command& command, OutputFlags& flags);

// Puts what the flags say into flags.options, as the last step before writing. `output` and `bar` outlive the write.
Status finish_options(OutputFlags& flags, const Output& output, ProgressBar& bar);

// Runs `work`, which writes to the output that the flags name, and gives the exit code: of a failure, unless it is only
// that the reader of a pipe has seen enough.
int write_through(const OutputFlags& flags, bool json, Console& console,
                  const std::function<Status(const Output&)>& work);

// kExists when writing would replace the file that is being read without leave to.
Status refuse_same_file(const std::string& source, const OutputFlags& flags);

}  // namespace ballast::cli
