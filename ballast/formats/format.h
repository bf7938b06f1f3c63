// The door to the formats: one row per format, one way to open, one way to write.
//
// Opening:  FormatReader::open validates a ByteSource once and gives an Archive.
// Writing:  FormatWriter::plan_write fixes the whole layout, PlannedWrite::emit writes it, one tensor at a time.
// A new format is one file with these functions, one row in format.cc, and its tests: see docs/extending.md.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/byte_source.h"
#include "ballast/formats/archive.h"
#include "ballast/formats/description.h"
#include "ballast/formats/findings.h"

namespace ballast {

// ---------------------------------------------------------------- reading

struct FormatReader;

struct OpenRequest {
  std::shared_ptr<const ByteSource> source;
  // Last component of the path, "" for bytes in memory. Never decides the format on its own.
  std::string file_name;
  // The other file of a pair, where finding the pair already named it; empty: the driver derives it from file_name.
  std::string companion = {};
  SiblingOpener* siblings = nullptr;  // null: the format must fit one source
  // Which formats the shards of an index may have. Empty: that of the reader, or all, where a whole FormatDriver opens.
  std::span<const FormatReader* const> readers = {};
};

// The first bytes of a source (at most kSniffBytes) and its size.
struct SniffInput {
  ByteSpan head;
  uint64_t size;
  std::string_view file_name;
  const ByteSource* source;  // for formats that keep their directory at the end
};
inline constexpr size_t kSniffBytes = 4096;

enum class SniffMatch : uint8_t {
  kNo,
  kLikely,   // consistent with the format, which has no signature
  kCertain,  // carries the format's signature
};

struct FormatReader {
  std::string_view name;
  std::string_view summary;                      // one line for people
  std::span<const std::string_view> extensions;  // with the dot; the first is the default
  SniffMatch (*sniff)(const SniffInput& input);
  // The one validator. Names of the archive are unique: a format whose own reader lets the last of two namesakes win
  // gives that one and reports the other. When collecting, an archive may come back beside error findings; it is then
  // only good for its description, and its payloads must not be read. When rescuing (Findings::rescue), whatever tensor
  // of it no error names may be read; those that errors name, and names that stand twice, are to be left out.
  Result<Archive> (*open)(const OpenRequest& request, Findings& findings);
  bool can_be_shard = false;  // may be one of the files that an index in JSON lists
};

// Which of `readers` these bytes are for, by content. kUnknownFormat where they are for none of them.
Result<const FormatReader*> detect_reader(const OpenRequest& request, std::span<const FormatReader* const> readers);

// Detects, validates and opens with these readers alone: such a program links no other format.
Result<Archive> open_archive(const OpenRequest& request, std::span<const FormatReader* const> readers);

// ---------------------------------------------------------------- writing

struct WriteOptions {
  bool compress = false;    // npz: deflate members
  uint64_t shard_size = 0;  // safetensors: start a new file before exceeding this many payload bytes; 0 = one file
  std::string target;       // burnpack: "burn-0.20" etc.; npz: "numpy" or "aligned"; empty = the format's default
  bool allow_half = false;  // gptrs: write f16 and bf16, which gpt.rs itself refuses
  bool keep_order = false;  // payloads in the given order where the format's own writer would sort them by name
  bool keep_form = true;    // honour stored forms of the same format, so that re-encoding gives the same bytes
};

// Something the target format cannot hold.
struct Loss {
  std::string tensor;  // empty: about the file
  std::string what;    // "dtype c128 has no name in safetensors"
  // What goes on instead when losing is allowed; none of the three: this cannot be written at all.
  std::optional<DType> cast_to = std::nullopt;  // the tensor takes this type
  bool drop = false;                            // the tensor is left out
  bool acceptable = false;                      // the content stays, something said about it goes (a name, metadata)
  Remedies remedies = {};                       // what would avoid the loss
};

// The loss of a dtype, with what stands in for it: the narrowest supported type that holds every value, else the widest
// that comes near; u8 for opaque bytes.
Loss unsupported_dtype_loss(const TensorInfo& tensor, std::string_view format, bool (*supports)(DType));

// The key under which Description::origin travels, where a format's free metadata is a map of texts.
inline constexpr std::string_view kOriginKey = "ballast.origin";

struct WriteRequest {
  const Description& description;  // description.origin, when set, is stored in the format's free metadata
  const WriteOptions& options;
  std::string file_name;  // of the destination, from which names of shards and pairs follow
  // Tensors known to hold the same bytes: for each tensor the position of the first that holds what it holds, its own
  // where there is none before it. Formats that can_tie store the bytes once. Empty: nothing is known.
  std::span<const uint32_t> ties = {};
  // For sets of files. 0: none of them is there yet. Otherwise some are, and are replaced by one rename after the
  // other: a set whose last file names the others puts this number into their names, so that the old set stays whole
  // until that last rename; a set whose names are fixed ties its files together, so that a mixture of old and new is
  // found.
  uint32_t generation = 0;
};

// How a tensor's payload is to be laid down.
struct PayloadForm {
  bool big_endian = false;
  bool fortran_order = false;
};

// Supplies payloads while a plan is carried out. Each tensor is asked for once, in whatever order the layout has; those
// that share the payload of another are not asked for.
class TensorFeed {
 public:
  virtual ~TensorFeed() = default;
  // Writes exactly the tensor's byte_size bytes to `sink`.
  virtual Status emit(size_t tensor_index, PayloadForm form, ByteSink& sink) = 0;
};

struct PlannedFile {
  std::string file_name;         // empty: the destination itself; otherwise a file beside it
  std::optional<uint64_t> size;  // absent where compression decides it
};

// A layout fixed down to the last byte. Files come in the order in which they must become visible, and are emitted in
// it: the last is the commit.
class PlannedWrite {
 public:
  virtual ~PlannedWrite() = default;
  virtual const std::vector<PlannedFile>& files() const = 0;
  virtual Status emit(size_t file_index, ByteSink& sink, TensorFeed& feed) const = 0;
  // Whether emit() replaces bytes that it wrote before: such a file cannot go through a pipe.
  virtual bool patches() const { return false; }
  // Whether the last file names the others, which may then be called anything.
  virtual bool is_indexed() const { return false; }
  // Of an indexed set: what nothing needs any more once it is there. `old_index` is what its last file replaces, null
  // where there is none; `folder` are the names in its folder.
  virtual std::vector<std::string> find_superseded(const ByteSource* /*old_index*/,
                                                   std::span<const std::string> /*folder*/) const {
    return {};
  }
};

// ---------------------------------------------------------------- the table

struct FormatWriter {
  // What would be lost by writing this. Null where the format is only read.
  std::vector<Loss> (*find_losses)(const Description& description, const WriteOptions& options) = nullptr;
  // The plan may refer to the request's description and options, which must outlive it.
  Result<std::unique_ptr<PlannedWrite>> (*plan_write)(const WriteRequest& request) = nullptr;
  std::string_view config_schema = {};  // which ModelConfig::schema the format has a field for
  bool stores_origin = true;            // has room for `ballast.origin`
  // Which WriteOptions mean something here; anything else is refused by the callers of plan_write.
  std::span<const std::string_view> targets = {};
  bool can_compress = false;
  bool can_shard = false;
  bool can_allow_half = false;
  bool can_tie = false;  // stores equal payloads once: see WriteRequest::ties
};

// A row: both halves. A program that opens with a list of readers links neither the writers nor the other formats.
struct FormatDriver : FormatReader, FormatWriter {};

// In the order in which they are tried and listed.
std::span<const FormatDriver* const> all_formats();
std::span<const FormatReader* const> all_readers();
const FormatDriver* find_format(std::string_view name);
// The format whose extension ends `file_name`; null if none. For choosing what to write, never for reading.
const FormatDriver* format_for_extension(std::string_view file_name);
// All of them: .bin is gpt.rs's and PyTorch's.
std::vector<std::string_view> format_names_for_extension(std::string_view file_name);
// Which format a file is written in, as a person or a program says it: the one called `name`; where that is empty, the
// one of the destination's extension. kInvalidArgument says which there are.
Result<const FormatDriver*> choose_format(std::string_view name, std::string_view destination = {});

// Which format these bytes are, by content. kUnknownFormat with the nearest guesses otherwise.
Result<const FormatDriver*> detect_format(const OpenRequest& request);

// Detects, validates and opens.
Result<Archive> open_archive(const OpenRequest& request);

}  // namespace ballast
