// Conversion between formats: lossless, or not without permission.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/write.h"

namespace ballast {

// A change to what is about to be written: names, types, layouts. It wraps providers and draws nothing yet; `notes` is
// for what the user should hear of it. A tensor whose dtype or shape it changes has no stored form any more.
using PlanEdit = std::function<Status(WritePlan& plan, std::vector<std::string>& notes)>;

// Takes the description that `ballast.origin` holds, where the plan carries one that still fits its content (which is
// drawn once for that); otherwise says in `notes` why not. Converting begins with it.
Status restore_origin(WritePlan& plan, std::vector<std::string>& notes, unsigned threads = 0,
                      const Progress& progress = {});

struct ConvertOptions {
  std::vector<std::string> only;     // keep tensors whose name one of these regular expressions finds; empty = all
  std::vector<std::string> exclude;  // drop tensors whose name one of these finds
  std::vector<PlanEdit> edits;       // applied in this order to the tensors kept
  std::optional<std::string> config_text;  // a model config for targets that need one
  bool allow_lossy = false;
  bool dry_run = false;
  // False: the source is made into something else, so its origin is neither restored nor is there one to remember.
  bool use_origin = true;
  bool keep_order = true;  // false: the order of tensors and metadata is nobody's; no origin remembers it
  bool tie = true;         // tensors that hold the same bytes are stored once, where the format can
  unsigned threads = 0;
  WriteSettings write;
};

struct ConvertReport {
  std::string source_format;
  std::string target_format;
  size_t tensors = 0;
  uint64_t payload_bytes = 0;
  std::vector<std::string> notes;  // what was carried in ballast.origin, restored from it, or found stale
  size_t tied = 0;                 // tensors that share the bytes of another in what was written
  uint64_t tied_bytes = 0;         // what that saved
  std::vector<Loss> losses;        // with allow_lossy or dry_run: what is (would be) lost
  WriteReport written;             // empty for a dry run
};

// Texts that name the tensors of an archive which a later one of the same name hides, so that they were left out when
// it was opened. Reads the header again.
std::vector<std::string> find_left_out(const Archive& archive);

// Fails with kLossy, naming every loss, when something cannot be kept and allow_lossy is off; nothing is written then.
Result<ConvertReport> convert_archive(const Archive& source, const std::string& destination, const FormatDriver& format,
                                      const ConvertOptions& options);

// A conversion up to the point where bytes are written: for those that write by themselves (bindings/wasm).
struct PreparedConversion {
  WritePlan plan;
  WriteOptions format;   // as the format is to be asked for
  ConvertReport report;  // without `written`
};
// Fails as the others do. With ConvertOptions::dry_run losses are accepted, no value is tried and no origin attached.
Result<PreparedConversion> prepare_conversion(WritePlan plan, const std::string& file_name, const FormatDriver& format,
                                              const ConvertOptions& options);

// The same for what was put together from several archives, or from memory: everything but the origin of a source.
// Tensors are tied where the plan says that they are twins (archive/tie_plan.h).
Result<ConvertReport> convert_plan(WritePlan plan, const std::string& destination, const FormatDriver& format,
                                   const ConvertOptions& options);

}  // namespace ballast
