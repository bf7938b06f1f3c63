// Writing an archive: atomic, durable, deterministic, one tensor in memory at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/formats/format.h"
#include "ballast/io/file.h"

namespace ballast {

class PipeSink;  // io/stream.h

// Writes exactly the tensor's byte_size canonical bytes (little-endian, row-major) to the sink when called. Writing
// any other number of bytes aborts the whole write and leaves the destination as it was. write_archive calls each once.
using TensorProvider = std::function<Status(ByteSink& sink)>;

struct WritePlan {
  Description description;
  std::vector<TensorProvider> providers;  // one per description.tensors
  // As WriteRequest::ties. Positions: whoever adds, removes or reorders tensors, or has them drawn from elsewhere,
  // makes it anew; convert_plan does.
  std::vector<uint32_t> ties;

  // Adds a tensor whose bytes the caller keeps alive until the write is done.
  void add_tensor(TensorInfo info, ByteSpan payload);
  void add_tensor(TensorInfo info, TensorProvider provider);
};

// A pipe that takes an archive of one file instead of a path.
struct OutputStream {
  PipeSink* sink;
  std::string spool_folder;  // for a temporary file, where the format goes back to bytes it wrote before
};

struct WriteSettings {
  WriteOptions format;
  CommitOptions commit;
  // Go on where a Loss is only `acceptable`; losses of type or tensors must have been applied to the plan before.
  bool accept_losses = false;
  // Null: files are written. Otherwise the path only gives the archive its name; a set of files is kInvalidArgument.
  const OutputStream* stream = nullptr;
  // Null: the files become visible before the write returns. Otherwise they join this set, which the caller commits.
  AtomicFiles* set = nullptr;
  Progress progress;
};

struct WriteReport {
  std::vector<std::string> files;  // written paths, in order of commit
  uint64_t bytes = 0;
};

// A plan over an existing archive: tensors are drawn from it, nothing is copied up front. `archive` must outlive it.
WritePlan make_plan(const Archive& archive);
WritePlan make_plan(Archive&&) = delete;

// Drops the tensors for which `keep` is false.
void keep_tensors(WritePlan& plan, const std::vector<bool>& keep);

// Refuses (kLossy) what the format cannot hold: see FormatDriver::find_losses. Nothing is visible before everything is.
Result<WriteReport> write_archive(const std::string& path, const FormatDriver& format, const WritePlan& plan,
                                  const WriteSettings& settings = {});
// The same into memory. Formats of several files are refused.
Result<ByteVector> write_archive_bytes(const FormatDriver& format, const WritePlan& plan,
                                       const WriteOptions& options = {});

// kInvalidArgument when an option is set that this format does not have.
Status check_write_options(const FormatDriver& format, const WriteOptions& options);

// kLossy, with a text that names every loss.
Error lossy_error(const FormatDriver& format, const std::vector<Loss>& losses);

// What a reader of `format` would see after this plan was written, found by planning it and opening the planned header
// without drawing any payload.
Result<Description> preview_description(const FormatDriver& format, const Description& description,
                                        const WriteOptions& options, const std::string& file_name,
                                        std::span<const uint32_t> ties = {});

}  // namespace ballast
