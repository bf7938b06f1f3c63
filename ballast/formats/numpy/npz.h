// NPZ: a zip file whose members are NPY files. Read and laid out here for the npz driver and for netcl's files, which
// are NPZ with something more.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/formats/container/zip.h"
#include "ballast/formats/format.h"
#include "ballast/formats/numpy/npy.h"

namespace ballast {

inline constexpr std::string_view kNpyEnding = ".npy";

// How the zip around the arrays is spelled. As text in Description::stored_form: the words that hold, in this order,
// separated by spaces: "numpy windows compressed".
struct NpzForm {
  bool numpy = false;  // byte by byte as numpy.savez does; otherwise payloads begin at multiples of 64 bytes
  bool windows = false;
  bool compressed = false;  // as numpy.savez_compressed does; only with `numpy`

  std::string to_text() const;
  static NpzForm from_text(std::string_view text);
};

// ---------------------------------------------------------------- reading

struct NpzContents {
  std::vector<TensorInfo> tensors;
  std::vector<StoredExtent> extents;  // of source 0
  std::vector<uint32_t> positions;    // in the directory, of each tensor; for what is taken out later
  std::optional<std::string> origin;  // the text of member ballast.origin, which is not among the tensors
  std::optional<std::string> pair;    // the same of ballast.pair
  NpzForm form;
  std::string npy_version = "1.0";  // the highest of the members

  void erase(size_t index);  // one of the tensors
};

// The stored form of a tensor that is a member without NPY header.
inline constexpr std::string_view kRawMember = "raw";

// Members that are no NPY files are given as u8 tensors under their whole name; folders are passed over.
Result<NpzContents> read_npz(const std::shared_ptr<const ByteSource>& source, Findings& findings);

// The payload of one of the contents' tensors, its checksum checked. `max_inflated` bounds what a compressed member
// may claim.
Result<ByteVector> read_npz_payload(const std::shared_ptr<const ByteSource>& source, const NpzContents& contents,
                                    size_t index, uint64_t max_inflated);

// ---------------------------------------------------------------- writing

// A member whose content is not a tensor of the description.
struct NpzExtraMember {
  std::string name;         // without ".npy"
  std::string header = {};  // NPY header
  std::string payload = {};
  size_t position = SIZE_MAX;  // before this tensor; any larger number: behind all
  bool may_deflate = true;     // false: stored even in a compressed file
};
// The member that says which JSON belongs to the NPZ half of a netcl pair: its digest.
inline constexpr std::string_view kPairKey = "ballast.pair";
// `text` as the member `name`, which readers of NumPy's files take for an array of bytes.
NpzExtraMember npz_text_member(std::string_view name, const std::string& text);

// The layout of one NPZ file.
class NpzLayout {
 public:
  // `keep_forms`: follow the tensors' stored forms. Their spelling (byte order, column-major, header text) is followed
  // in the numpy form only; the aligned one is for mapping and always canonical.
  static Result<NpzLayout> plan(std::span<const TensorInfo> tensors, NpzForm form, bool keep_forms,
                                std::vector<NpzExtraMember> extras);

  // Of the file; absent where compression decides.
  std::optional<uint64_t> size() const { return size_; }
  Status emit(ByteSink& sink, TensorFeed& feed) const;

 private:
  struct Member {
    std::string name;
    std::string prefix;  // what precedes the payload: the NPY header
    uint64_t payload_size = 0;
    PayloadForm form = {};
    bool deflated = false;
    std::optional<size_t> tensor = std::nullopt;  // absent: `payload` is the content
    std::string payload = {};
  };

  explicit NpzLayout(NpzForm form) : form_(form) {}
  Result<Member> tensor_member(const TensorInfo& tensor, size_t index, bool keep_forms) const;
  Status place_members();
  ZipStyle style() const { return {.always_zip64 = form_.numpy, .windows = form_.windows}; }
  std::string local_header(const Member& member, const ZipMember& zip) const;
  Result<ZipMember> emit_member(const Member& member, uint64_t start, ByteSink& sink, TensorFeed& feed) const;

  NpzForm form_;
  std::vector<Member> members_;
  std::optional<uint64_t> size_;
};

// A plan whose only file this is.
std::unique_ptr<PlannedWrite> make_npz_write(NpzLayout layout);

// Adds what no NPZ of this format can hold: types, and names that cannot be members or mean something else there.
void find_npz_losses(const Description& description, std::string_view format, std::vector<Loss>& losses);

// The member that makes an NPZ a netcl model file.
inline constexpr std::string_view kNetclMetaName = "__netcl_meta__";

}  // namespace ballast
