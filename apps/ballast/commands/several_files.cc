#include "apps/ballast/commands/several_files.h"

#include <algorithm>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/terminal/streams.h"

namespace ballast::cli {

int look_at_files(const std::vector<std::string>& paths, bool json, Console& console, const LookAtFile& look) {
  if (const Status repeated = refuse_repeated_stream(paths); !repeated) return console.fail(repeated.error(), json);
  const bool several = paths.size() > 1;
  int outcome = kExitYes;
  JsonWriter list;
  list.begin_object().key("files").begin_array();
  for (const std::string& path : paths) {
    if (several && !json && &path != &paths.front()) console.out() += '\n';
    const Result<FileOutcome> found = look(path);
    if (!found && !several) return console.fail(found.error(), json);
    outcome = std::max(outcome, found ? found->exit_code : console.fail(found.error()));
    if (json && !several) console.out() += found->json + '\n';
    if (json && several && found) list.raw(found->json);
    if (json && several && !found) {
      list.begin_object();
      add_text(list, "path", path);
      add_error(list, "error", found.error());
      list.end_object();
    }
    if (!json) console.flush();  // shown before the next file is read
    if (outcome == kExitInterrupted || console.reader_gone()) break;
  }
  list.end_array().end_object();
  if (json && several) console.out() += list.take() + '\n';
  return outcome;
}

}  // namespace ballast::cli
