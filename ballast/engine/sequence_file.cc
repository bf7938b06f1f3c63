#include "ballast/engine/sequence_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr std::string_view kSequenceMagic = "BLSTPAST";
constexpr uint32_t kSequenceVersion = 1;
constexpr size_t kTypeNameBytes = 8;
constexpr uint64_t kSizesBytes = 4 * sizeof(uint64_t) + kTypeNameBytes;  // the shape without its windows
constexpr uint64_t kModelOffset = 12;
constexpr uint64_t kShapeOffset = kModelOffset + sizeof(Digest);
constexpr uint64_t kHashStep = uint64_t{1} << 20;

std::string encode_shape(const KvShape& shape) {
  std::string out;
  for (const uint64_t size : {shape.layers, shape.kv_heads, shape.head_dim, shape.most_positions}) {
    append_le(out, size);
  }
  std::string type(dtype_name(shape.dtype));
  type.resize(kTypeNameBytes);
  out += type;
  append_le(out, uint64_t{shape.windows.size()});
  for (const uint64_t window : shape.windows) append_le(out, window);
  return out;
}

// "4 layers, 2 KV heads of 8 f32, context 128", of the bytes of a shape.
std::string describe_sizes(ByteSpan shape) {
  const auto number = [&](size_t i) { return load_le<uint64_t>(shape.data() + i * sizeof(uint64_t)); };
  const std::string_view type = as_text(shape.subspan(4 * sizeof(uint64_t), kTypeNameBytes));
  return fmt::format("{} layers, {} KV heads of {} {}, context {}", number(0), number(1), number(2),
                     type.substr(0, type.find('\0')), number(3));
}

Error damaged_sequence(const ByteSource& file, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: this saved sequence is damaged: {}", file.name(), what));
}

Status check_saved_digest(const ByteSource& file) {
  Blake3 hasher;
  const uint64_t end = file.size() - sizeof(Digest);
  ByteVector buffer(static_cast<size_t>(std::min(end, kHashStep)));
  for (uint64_t offset = 0; offset < end; offset += buffer.size()) {
    const MutableByteSpan piece = MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), end - offset));
    BALLAST_CHECK(file.read_at(offset, piece));
    hasher.update(piece);
  }
  Digest stored{};
  BALLAST_CHECK(file.read_at(end, stored));
  if (stored == hasher.finish()) return {};
  return damaged_sequence(file, "its digest does not match its contents");
}

Status check_saved_version(const ByteSource& file) {
  BALLAST_TRY(const ByteVector bytes, read_bytes(file, kSequenceMagic.size(), sizeof(uint32_t)));
  const auto version = load_le<uint32_t>(bytes.data());
  if (version == kSequenceVersion) return {};
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("{}: a saved sequence of version {}; this version of Ballast reads version {}",
                                file.name(), version, kSequenceVersion));
}

Status check_saved_model(const ByteSource& file, const Digest& model) {
  BALLAST_TRY(const ByteVector stored, read_bytes(file, kModelOffset, sizeof(Digest)));
  if (std::ranges::equal(stored, model)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the sequence was saved with another model or other settings: its digest is {}, "
                                "this model's is {}",
                                file.name(), to_hex(stored), to_hex(model)));
}

// The file has at least the sizes. Gives where the shape ends.
Result<uint64_t> check_saved_shape(const ByteSource& file, const KvShape& shape) {
  const std::string wanted = encode_shape(shape);
  BALLAST_TRY(const ByteVector sizes, read_bytes(file, kShapeOffset, kSizesBytes));
  const std::string wanted_sizes = describe_sizes(as_bytes(wanted));
  if (as_text(sizes) != std::string_view(wanted).substr(0, kSizesBytes)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: keys and values of {}; this model has {}",
                                                               file.name(), describe_sizes(sizes), wanted_sizes));
  }
  const bool is_there = range_fits(kShapeOffset, wanted.size(), file.size());
  BALLAST_TRY(const ByteVector whole, read_bytes(file, kShapeOffset, is_there ? wanted.size() : 0));
  if (as_text(whole) == wanted) return kShapeOffset + wanted.size();
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: keys and values of {}, with other attention windows than this model has",
                                file.name(), wanted_sizes));
}

Status check_saved_beginning(const ByteSource& file) {
  constexpr uint64_t kLeast = kShapeOffset + kSizesBytes + 3 * sizeof(uint64_t) + sizeof(Digest);
  if (file.size() < kLeast) {
    return damaged_sequence(file, fmt::format("it has {} bytes, fewer than any saved sequence", file.size()));
  }
  BALLAST_TRY(const ByteVector magic, read_bytes(file, 0, kSequenceMagic.size()));
  if (as_text(magic) == kSequenceMagic) return {};
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: this is no saved sequence, or its beginning is damaged", file.name()));
}

// Kind and length, and that the file has just the bytes which that length takes.
Result<SequenceHead> read_text_head(const ByteSource& file, uint64_t offset, const KvLayout& layout) {
  BALLAST_TRY(const ByteVector bytes, read_bytes(file, offset, 2 * sizeof(uint64_t)));
  SequenceHead head;
  head.kind = load_le<uint64_t>(bytes.data());
  head.length = load_le<uint64_t>(bytes.data() + sizeof(uint64_t));
  head.tokens_offset = offset + bytes.size();
  if (head.length > layout.shape().most_positions) {
    return damaged_sequence(file, fmt::format("{} positions are more than the model's context of {}", head.length,
                                              layout.shape().most_positions));
  }
  const auto token_bytes = checked_mul(head.length, sizeof(TokenId));
  const auto pages_offset = token_bytes ? checked_add(head.tokens_offset, *token_bytes) : std::nullopt;
  const auto page_bytes = saved_page_bytes(layout, head.length);
  const auto end = pages_offset && page_bytes ? checked_add(*pages_offset, *page_bytes) : std::nullopt;
  if (!end || *end != file.size() - sizeof(Digest)) {
    return damaged_sequence(file, fmt::format("its {} bytes are not those of {} positions", file.size(), head.length));
  }
  head.pages_offset = *pages_offset;
  return head;
}

}  // namespace

std::string encode_sequence_head(const Digest& model, const KvShape& shape, uint64_t kind,
                                 std::span<const TokenId> tokens) {
  std::string out(kSequenceMagic);
  append_le(out, kSequenceVersion);
  out += as_text(model);
  out += encode_shape(shape);
  append_le(out, kind);
  append_le(out, uint64_t{tokens.size()});
  for (const TokenId id : tokens) append_le(out, id);
  return out;
}

std::optional<uint64_t> saved_page_bytes(const KvLayout& layout, uint64_t length) {
  std::optional<uint64_t> sum = 0;
  for (const KvGroup& group : layout.groups()) {
    const auto bytes = checked_mul(kv_pages_for(length) - group.first_page(length), group.page_bytes);
    sum = sum && bytes ? checked_add(*sum, *bytes) : std::nullopt;
  }
  return sum;
}

Result<SequenceHead> check_sequence_file(const ByteSource& file, const Digest& model, const KvLayout& layout) {
  BALLAST_CHECK(check_saved_beginning(file));
  BALLAST_CHECK(check_saved_digest(file));
  BALLAST_CHECK(check_saved_version(file));
  BALLAST_CHECK(check_saved_model(file, model));
  BALLAST_TRY(const uint64_t text_offset, check_saved_shape(file, layout.shape()));
  return read_text_head(file, text_offset, layout);
}

}  // namespace ballast
