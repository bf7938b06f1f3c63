// NPY: magic | version | header length | Python dictionary in text form | payload. See docs/formats.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ballast/base/byte_source.h"
#include "ballast/formats/format.h"

namespace ballast {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// What a dtype descriptor ('<f4', or a list of fields) says.
struct NpyType {
  DType dtype = DType::kOpaque;
  bool big_endian = false;  // only where the canonical payload differs: never for opaque bytes
  uint64_t item_size = 0;
  std::string descr;  // as NumPy would spell it: `<f4`, or `[('a', '<f4')]` for records
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;  // only where it matters: two or more dimensions
  Shape shape;
  uint32_t length = 0;        // bytes before the payload
  uint64_t payload_size = 0;  // shape * item size
  std::string version;        // "1.0"
  // NumPy itself would write this header for the canonical payload.
  bool is_canonical = false;
  // Otherwise: the header as text, with its version and padding, so that the same bytes can be written again.
  std::string spelling;
};

// Gives the first `length` bytes of the file or member; asked for no more than it has.
using NpyPrefixReader = std::function<Result<BytesOrView>(uint64_t length)>;

// Reads and checks the header of an NPY file of `size` bytes: exactly header and payload, nothing else. `where` begins
// every error text. Headers longer than `max_header` are refused. Errors of kind kUnsupported are sound files we do
// not read: object arrays above all, whose payload is a pickle, which runs code when loaded.
Result<NpyHeader> read_npy_header(const NpyPrefixReader& read_prefix, uint64_t size, uint32_t max_header,
                                  const std::string& where);
inline constexpr uint32_t kMaxNpyHeader = 1 << 20;          // of bytes that are in the file
inline constexpr uint32_t kMaxDeflatedNpyHeader = 1 << 16;  // of bytes a compressed member claims to have

// The tensor a header describes, and where its payload is to be found behind it.
TensorInfo npy_tensor(std::string name, const NpyHeader& header);

// The header to write for a tensor, and the form of the payload behind it. `spelling` (may be empty) is followed where
// it describes the same tensor. Fails for types NPY has no word for.
struct NpyLayout {
  std::string header;
  PayloadForm form;
};
Result<NpyLayout> npy_layout(const TensorInfo& tensor, std::string_view spelling);

// The spelling of a header and back: see NpyHeader::spelling. An error where a text is none.
std::string npy_spelling(std::string_view header);
Result<std::string> npy_header_bytes(std::string_view spelling);
Result<NpyHeader> parse_npy_spelling(std::string_view spelling);

// Adds the tensors whose type NPY has no word for.
void find_npy_type_losses(const Description& description, std::string_view format, std::vector<Loss>& losses);

}  // namespace ballast
