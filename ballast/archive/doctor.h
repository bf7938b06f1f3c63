// Why a file cannot be read, and what of it can be saved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "ballast/formats/findings.h"

namespace ballast {

enum class Verdict : uint8_t {
  kSound,        // nothing is wrong with it
  kFlawed,       // it can be read, but warnings say that something is odd
  kDamaged,      // of a known format, and broken
  kUnreadable,   // of a known format, but the operating system could not read all of it
  kUnsupported,  // of a known format, and of a kind that is not handled
  kForeign,      // something else, which is known
  kUnknown,      // nothing is known about it
};
std::string_view verdict_name(Verdict verdict);  // "sound", "flawed", ...

// What a file is that no format of ours recognises: one of the usual suspects.
struct ForeignContent {
  std::string kind;    // stable word: "html", "git_lfs_pointer", "gzip", ...
  std::string what;    // "a web page"
  std::string cause;   // why such a file stands where weights should
  std::string advice;  // what to do
};

struct LostTensor {
  std::string name;
  std::string code;  // of the finding that tells, or "description"
  std::string why;
};

struct Diagnosis {
  Verdict verdict = Verdict::kUnknown;
  std::string format;   // recognised; for an unknown file the nearest, or ""
  std::string nearest;  // why that is the nearest, where it was not recognised
  std::optional<ForeignContent> foreign;
  std::string what;    // one sentence: what is wrong
  std::string cause;   // the likely cause; "" where none can be named
  std::string advice;  // "" where there is none
  Remedies remedies;   // that the advice names
  uint64_t size = 0;   // of the file
  // Where it breaks, in the file that `broken_file` names, and the bytes around that place.
  std::optional<uint64_t> offset;
  std::string broken_file;
  uint64_t excerpt_offset = 0;
  ByteVector excerpt;
  std::vector<Finding> findings;  // by offset
  // What a rescue would give.
  size_t sound_tensors = 0;
  uint64_t sound_bytes = 0;
  std::vector<LostTensor> lost;  // tensors that the file speaks of and that cannot be had
  bool broken_off = false;       // the file may speak of more tensors, behind what was understood

  // Whether a rescue gives everything that the file held.
  bool is_complete() const { return lost.empty() && !broken_off; }
};

struct DoctorOptions {
  unsigned threads = 0;
  Progress progress;
};

// Reads checksums and headers, positionally. Fails only where there is nothing to look at: no such file, I/O error.
Result<Diagnosis> diagnose(const std::string& path, const DoctorOptions& options = {});
Result<Diagnosis> diagnose(const OpenRequest& request, const DoctorOptions& options = {});

struct RescueReport {
  Diagnosis diagnosis;
  ConvertReport written;
};

// Writes the sound tensors, with metadata and config as far as they were read, to a new file. Where no tensor is
// sound: kCorrupt, or kIo if reading failed.
Result<RescueReport> rescue(const std::string& path, const std::string& destination, const FormatDriver& format,
                            const ConvertOptions& options = {});
Result<RescueReport> rescue(const OpenRequest& request, const std::string& destination, const FormatDriver& format,
                            const ConvertOptions& options = {});

}  // namespace ballast
