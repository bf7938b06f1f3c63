#include "ballast/archive/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/utf8.h"
#include "ballast/formats/container/zip.h"

namespace ballast {

namespace {

using namespace std::string_view_literals;

constexpr size_t kHead = 4096;

// A signature at a fixed place, and what it means.
struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view kind;
  std::string_view what;
  std::string_view cause;
  std::string_view advice;
};

constexpr std::string_view kCompressedCause = "the file was compressed for transport and not unpacked again";
constexpr std::string_view kOtherFormat = "it is a weight file of a format that is not read here";
constexpr std::string_view kNoWeights = "it is another kind of file, or was saved under the wrong name";

constexpr std::array kSignatures = {
    Signature{0, "version https://git-lfs.github.com/spec/"sv, "git_lfs_pointer", "a Git LFS pointer",
              "the repository was cloned without Git LFS, so that this text stands where the weights should be", ""},
    Signature{0, "/annex/objects/"sv, "git_annex_pointer", "a git-annex pointer",
              "the repository holds the file's key only; its content was not fetched", "git annex get FILE"},
    Signature{0, "lmgg"sv, "ggml", "an old GGML file (llama.cpp)", kOtherFormat,
              "get the original weights as safetensors"},
    Signature{0, "tjgg"sv, "ggml", "an old GGML file (llama.cpp)", kOtherFormat,
              "get the original weights as safetensors"},
    Signature{0, "\x89HDF\r\n\x1a\n"sv, "hdf5", "an HDF5 file (Keras .h5, PyTables)", kOtherFormat,
              "in Python: h5py.File(...) and numpy.savez, or safetensors.numpy.save_file"},
    Signature{4, "TFL3"sv, "tflite", "a TensorFlow Lite model", kOtherFormat,
              "in Python: tf.lite.Interpreter(...).get_tensor and numpy.savez"},
    Signature{0, "\x1f\x8b"sv, "gzip", "gzip data", kCompressedCause, "gunzip it, or pipe it: gunzip -c FILE |"},
    Signature{0, "\x28\xb5\x2f\xfd"sv, "zstd", "Zstandard data", kCompressedCause,
              "unzstd it, or pipe it: zstd -dc FILE |"},
    Signature{0, "\xfd\x37\x7a\x58\x5a\x00"sv, "xz", "xz data", kCompressedCause, "unxz it, or pipe it: xz -dc FILE |"},
    Signature{0, "BZh"sv, "bzip2", "bzip2 data", kCompressedCause, "bunzip2 it, or pipe it: bzip2 -dc FILE |"},
    Signature{0, "\x04\x22\x4d\x18"sv, "lz4", "LZ4 data", kCompressedCause, "unlz4 it, or pipe it: lz4 -dc FILE |"},
    Signature{0, "7z\xbc\xaf\x27\x1c"sv, "7z", "a 7-Zip archive", kCompressedCause, "unpack it with 7z x"},
    Signature{257, "ustar"sv, "tar", "a tar archive", "the weights were packed together with other files",
              "tar -xf FILE, then look at what it held"},
    Signature{0, "\x83\xa8metadata"sv, "burn_mpk", "a Burn record (MessagePack, .mpk)",
              "it was saved with one of Burn's recorders, not as a Burnpack",
              "load it in Burn and save it with BurnpackStore"},
    Signature{0, "PAR1"sv, "parquet", "a Parquet table", kNoWeights, "look for the weight files beside it"},
    Signature{0, "ARROW1"sv, "arrow", "an Arrow table", kNoWeights, "look for the weight files beside it"},
    Signature{0, "SQLite format 3"sv, "sqlite", "an SQLite database", kNoWeights,
              "look for the weight files beside it"},
    Signature{0, "%PDF-"sv, "pdf", "a PDF document", kNoWeights, "download the weights again, by their own address"},
    Signature{0, "\x89PNG"sv, "png", "a picture (PNG)", kNoWeights, "download the weights again, by their own address"},
    Signature{0, "\xff\xd8\xff"sv, "jpeg", "a picture (JPEG)", kNoWeights,
              "download the weights again, by their own address"},
    Signature{0,
              "\x7f"
              "ELF"sv,
              "elf", "a program or library (ELF)", kNoWeights, "look for the weight files beside it"},
};

ForeignContent make(std::string_view kind, std::string_view what, std::string_view cause, std::string_view advice) {
  return {std::string(kind), std::string(what), std::string(cause), std::string(advice)};
}

// ---------------------------------------------------------------- texts

// The value behind `key` in a pointer's lines.
std::string_view pointer_field(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + key.size());
  return rest.substr(0, rest.find_first_of("\r\n"));
}

std::string lfs_advice(std::string_view text) {
  const std::string_view size = pointer_field(text, "\nsize ");
  const bool digits =
      !size.empty() && size.size() <= 20 && size.find_first_not_of("0123456789") == std::string_view::npos;
  return fmt::format("git lfs install && git lfs pull{}",
                     digits ? fmt::format("; the real file has {} bytes", size) : std::string());
}

bool starts_with_ignoring_case(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() &&
         std::ranges::equal(text.substr(0, beginning.size()), beginning, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
}

bool is_plain_text(std::string_view text) {
  // The head may end inside a character.
  for (int cut = 0; cut < 4 && !text.empty() && !is_valid_utf8(text); ++cut) text.remove_suffix(1);
  return !text.empty() && is_valid_utf8(text) && std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
  });
}

std::optional<ForeignContent> look_at_text(std::string_view head) {
  std::string_view text = head;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  for (const std::string_view page : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv}) {
    if (!starts_with_ignoring_case(text, page)) continue;
    return make(
        "html", "a web page (HTML)",
        "the download gave an error page, a login page or a page about the file instead of the file",
        "download it again, by the address of the file itself (on Hugging Face \"resolve\", not \"blob\"), with a "
        "token where one is needed");
  }
  if (text.starts_with("<?xml") || text.starts_with("<Error")) {
    return make("xml", "an XML document", "a storage service answered the download with an error text",
                "read it; download again with leave to do so");
  }
  if (!is_plain_text(text)) return std::nullopt;
  if (text.starts_with('{') || text.starts_with('[')) {
    return make("json", "JSON text", "it is a config or an index, or a service answered the download with an error",
                "the weights are in another file beside it");
  }
  return make("text", "plain text", "it is another kind of file, or an error message was saved in place of the weights",
              "read it; download the weights again");
}

// ---------------------------------------------------------------- binaries

std::optional<ForeignContent> look_at_signature(ByteSpan head) {
  const std::string_view text = as_text(head);
  for (const Signature& row : kSignatures) {
    if (text.size() < row.offset || !text.substr(row.offset).starts_with(row.bytes)) continue;
    ForeignContent found = make(row.kind, row.what, row.cause, row.advice);
    if (row.kind == "git_lfs_pointer") found.advice = lfs_advice(text);
    return found;
  }
  return std::nullopt;
}

std::optional<ForeignContent> look_at_zip(const ByteSource& source) {
  bool keras = false;
  for_each_zip_name(source, [&](std::string_view name) {
    keras = name == "model.weights.h5";
    return !keras;
  });
  if (keras) {
    return make("keras", "a Keras 3 model (HDF5 in a zip)", kOtherFormat,
                "in Python: load it with Keras and save the weights with numpy.savez");
  }
  return make("zip", "a zip archive without arrays",
              "the weights were packed together with other files, or it is "
              "another kind of archive",
              "unzip it, then look at what it held");
}

// The first field of an ONNX model is ir_version, a small number; the second a text or another number.
bool looks_like_onnx(ByteSpan head) {
  const auto byte = [&](size_t i) { return i < head.size() ? std::to_integer<int>(head[i]) : 0; };
  return byte(0) == 0x08 && byte(1) >= 1 && byte(1) <= 20 && (byte(2) == 0x12 || byte(2) == 0x1a || byte(2) == 0x3a);
}

std::optional<ForeignContent> look_at_pickle(ByteSpan head) {
  const auto byte = [&](size_t i) { return i < head.size() ? std::to_integer<int>(head[i]) : 0; };
  if (byte(0) != 0x80 || byte(1) < 2 || byte(1) > 5) return std::nullopt;
  return make("pickle", "a Python pickle (joblib, pickle.dump)",
              "pickles are programs: reading one can do anything, so it is not read here",
              "in Python: load it where you trust it, and save the arrays with safetensors or numpy.savez");
}

// ---------------------------------------------------------------- nothing at all

// How many of the first bytes are zero, up to a limit.
Result<uint64_t> count_zeros(const ByteSource& source) {
  constexpr uint64_t kLimit = uint64_t{64} << 20;
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const uint64_t end = std::min(source.size(), kLimit);
  for (uint64_t at = 0; at < end; at += kPiece) {
    BALLAST_TRY(const ByteVector piece, read_bytes(source, at, std::min(kPiece, end - at)));
    const auto other = std::ranges::find_if(piece, [](std::byte b) { return b != std::byte{0}; });
    if (other != piece.end()) return at + static_cast<uint64_t>(other - piece.begin());
  }
  return end;
}

Result<std::optional<ForeignContent>> look_at_zeros(const ByteSource& source) {
  BALLAST_TRY(const uint64_t zeros, count_zeros(source));
  constexpr uint64_t kTelling = 64;  // no format begins with as many
  if (zeros < std::min(source.size(), kTelling)) return std::optional<ForeignContent>();
  return std::optional(
      make("zeros",
           zeros == source.size() ? fmt::format("{} zero bytes and nothing else", zeros)
                                  : fmt::format("{} zero bytes before anything else", zeros),
           "a download or copy reserved the room and was interrupted, or the disk lost what was written",
           "download or copy it again"));
}

}  // namespace

Result<std::optional<ForeignContent>> find_foreign_content(const ByteSource& source) {
  using Found = std::optional<ForeignContent>;
  if (source.size() == 0) {
    return Found(make("empty", "empty", "its writer or download was interrupted before the first byte",
                      "make or download it again"));
  }
  BALLAST_TRY(const ByteVector head, read_bytes(source, 0, std::min<uint64_t>(source.size(), kHead)));
  if (Found found = look_at_signature(head)) return found;
  if (looks_like_zip(head)) return look_at_zip(source);
  if (Found found = look_at_pickle(head)) return found;
  BALLAST_TRY(Found zeros, look_at_zeros(source));
  if (zeros) return zeros;
  if (looks_like_onnx(head)) {
    return Found(make("onnx", "an ONNX model (protobuf)", kOtherFormat,
                      "in Python: onnx.numpy_helper.to_array over graph.initializer, then numpy.savez"));
  }
  return look_at_text(as_text(head));
}

}  // namespace ballast
