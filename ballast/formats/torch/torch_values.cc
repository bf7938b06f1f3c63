#include "ballast/formats/torch/torch_values.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "ballast/base/utf8.h"
#include "ballast/formats/torch/torch_names.h"

namespace ballast {

namespace {

constexpr int kMaxDepth = 64;

Error odd_value(std::string_view what) { return make_error(ErrorCode::kCorrupt, std::string(what)); }

// The bytes of a text whose characters are all below 256: how protocol 2 writes bytes.
std::optional<std::string> latin1_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const auto code_point = take_code_point(text, at);
    if (!code_point || *code_point > 0xFF) return std::nullopt;
    bytes.push_back(static_cast<char>(*code_point));
  }
  return bytes;
}

bool is_call_of(const PickleTree& tree, PickleValue value, TorchName what) {
  return tree.is(value, PickleKind::kCall) && torch_global(tree.global(value)).what == what;
}

// Bytes as protocol 2 writes them: (text, "latin1").
Result<std::string> encoded_bytes(const PickleTree& tree, std::span<const PickleValue> arguments) {
  if (arguments.size() != 2 || !tree.is(arguments[0], PickleKind::kText) || !tree.is(arguments[1], PickleKind::kText)) {
    return odd_value("bytes are made from something that is no text");
  }
  const std::string_view codec = tree.text(arguments[1]);
  if (codec != "latin1" && codec != "latin-1") return odd_value("bytes are made with another codec than latin1");
  if (auto bytes = latin1_bytes(tree.text(arguments[0]))) return *std::move(bytes);
  return odd_value("bytes are made from characters that are none");
}

// Bytes as a value of their own, or as one of the calls that make them.
Result<std::string> bytes_of(const PickleTree& tree, PickleValue value) {
  if (is_call_of(tree, value, TorchName::kBytes) || is_call_of(tree, value, TorchName::kByteArray)) {
    const auto arguments = tree.items(value);
    if (arguments.empty()) return std::string();
    if (arguments.size() == 2) return encoded_bytes(tree, arguments);
    value = arguments[0];
  }
  if (tree.is(value, PickleKind::kBytes)) return std::string(tree.text(value));
  if (is_call_of(tree, value, TorchName::kEncode)) return encoded_bytes(tree, tree.items(value));
  return odd_value("bytes are expected, and something else stands there");
}

// ---------------------------------------------------------------- NumPy's scalars

// (dtype("f8"), bytes): what a mean or a score often is.
Result<MetaValue> numpy_scalar(const PickleTree& tree, PickleValue value) {
  const auto unread = [] { return make_error(ErrorCode::kUnsupported, "a NumPy scalar of a kind that is not read"); };
  const auto arguments = tree.items(value);
  if (arguments.size() != 2 || !is_call_of(tree, arguments[0], TorchName::kNumpyDType)) return unread();
  const auto described = tree.items(arguments[0]);
  if (described.empty() || !tree.is(described[0], PickleKind::kText)) return unread();
  const auto state = tree.state(arguments[0]);
  if (!state || !tree.is(*state, PickleKind::kTuple) || tree.items(*state).size() < 2) return unread();
  const PickleValue order = tree.items(*state)[1];
  if (!tree.is(order, PickleKind::kText) || (tree.text(order) != "<" && tree.text(order) != "|")) return unread();
  BALLAST_TRY(const std::string bytes, bytes_of(tree, arguments[1]));
  const std::string_view type = tree.text(described[0]);
  if (bytes.empty() || bytes.size() > sizeof(uint64_t) ||
      type != fmt::format("{}{}", type.substr(0, 1), bytes.size())) {
    return unread();
  }
  std::byte padded[sizeof(uint64_t)] = {};
  std::memcpy(padded, bytes.data(), bytes.size());
  const auto raw = load_le<uint64_t>(padded);
  const auto unused_bits = static_cast<unsigned>(64 - 8 * bytes.size());
  switch (type.front()) {
    case 'b': return MetaValue(raw != 0);
    case 'u': return MetaValue(raw);
    case 'i': return MetaValue(static_cast<int64_t>(raw << unused_bits) >> unused_bits);
    case 'f':
      if (bytes.size() == 8) return MetaValue(std::bit_cast<double>(raw));
      if (bytes.size() == 4) return MetaValue(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(raw))));
      return unread();
    default: return unread();
  }
}

// ---------------------------------------------------------------- Python's spelling

std::string real_text(double value) {
  const std::string text = fmt::format("{}", value);
  return std::isfinite(value) && text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void append_quoted(std::string& out, std::string_view text, bool as_bytes) {
  out += as_bytes ? "b'" : "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') out += fmt::format("\\{}", c);
    else if (c == '\n') out += "\\n";
    else if (byte < 0x20 || byte == 0x7f || (as_bytes && byte >= 0x80)) out += fmt::format("\\x{:02x}", byte);
    else out += c;
  }
  out += '\'';
}

class PythonSpeller {
 public:
  PythonSpeller(const PickleTree& tree, size_t max_text) : tree_(tree), max_text_(max_text) {}

  // Calls itself for what containers hold, kMaxDepth deep at most.
  Status append(PickleValue value, int depth = 0) {
    if (out_.size() > max_text_) return make_error(ErrorCode::kUnsupported, "its text is too long");
    if (depth > kMaxDepth) return make_error(ErrorCode::kUnsupported, "it is nested too deeply");
    switch (tree_.kind(value)) {
      case PickleKind::kNone: out_ += "None"; return {};
      case PickleKind::kBool: out_ += tree_.boolean(value) ? "True" : "False"; return {};
      case PickleKind::kInteger: out_ += std::to_string(tree_.integer(value)); return {};
      case PickleKind::kBigInteger: out_ += tree_.digits(value); return {};
      case PickleKind::kReal: out_ += real_text(tree_.real(value)); return {};
      case PickleKind::kText: append_quoted(out_, tree_.text(value), false); return {};
      case PickleKind::kBytes: append_quoted(out_, tree_.text(value), true); return {};
      case PickleKind::kList: return append_items("[", tree_.items(value), "]", depth);
      case PickleKind::kTuple:
        return append_items("(", tree_.items(value), tree_.items(value).size() == 1 ? ",)" : ")", depth);
      case PickleKind::kSet: return append_set(tree_.items(value), depth);
      case PickleKind::kDict: return append_dict(value, depth);
      case PickleKind::kGlobal: append_name(value); return {};
      case PickleKind::kCall: return append_call(value, depth);
      case PickleKind::kPersistent: return odd_value("a storage stands where only plain values are read");
    }
    return {};
  }

  std::string take() { return std::move(out_); }

 private:
  Status append_items(std::string_view open, std::span<const PickleValue> items, std::string_view close, int depth) {
    out_ += open;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      BALLAST_CHECK(append(items[i], depth + 1));
    }
    out_ += close;
    return {};
  }

  Status append_set(std::span<const PickleValue> items, int depth) {
    if (items.empty()) return append_items("set(", items, ")", depth);
    return append_items("{", items, "}", depth);
  }

  Status append_dict(PickleValue value, int depth) {
    const auto items = tree_.items(value);
    out_ += "{";
    for (size_t i = 0; i < items.size(); i += 2) {
      if (i > 0) out_ += ", ";
      BALLAST_CHECK(append(items[i], depth + 1));
      out_ += ": ";
      BALLAST_CHECK(append(items[i + 1], depth + 1));
    }
    out_ += "}";
    return {};
  }

  void append_name(PickleValue value) {
    const TorchGlobal& global = torch_global(tree_.global(value));
    out_ += fmt::format("{}.{}", global.module, global.name);
  }

  Status append_call(PickleValue value, int depth) {
    const auto arguments = tree_.items(value);
    const auto is_one = [&](PickleKind kind) { return arguments.size() == 1 && tree_.is(arguments[0], kind); };
    switch (torch_global(tree_.global(value)).what) {
      case TorchName::kEncode:
      case TorchName::kBytes:
      case TorchName::kByteArray: {
        BALLAST_TRY(const std::string bytes, bytes_of(tree_, value));
        append_quoted(out_, bytes, true);
        return {};
      }
      case TorchName::kSet:
        if (is_one(PickleKind::kList)) return append_set(tree_.items(arguments[0]), depth);
        break;
      case TorchName::kSize:
        if (!is_one(PickleKind::kTuple)) break;
        return append_items("torch.Size([", tree_.items(arguments[0]), "])", depth);
      case TorchName::kLayout:
        if (!is_one(PickleKind::kText)) break;
        out_ += tree_.text(arguments[0]);
        return {};
      case TorchName::kDevice: return append_device(arguments);
      case TorchName::kComplex: return append_complex(arguments);
      default: break;
    }
    return odd_value("a value is made from arguments that do not fit");
  }

  // "cuda:0"
  Status append_device(std::span<const PickleValue> arguments) {
    if (arguments.empty() || arguments.size() > 2 || !tree_.is(arguments[0], PickleKind::kText) ||
        (arguments.size() == 2 && !tree_.is(arguments[1], PickleKind::kInteger))) {
      return odd_value("a device is neither a text nor a text and a number");
    }
    out_ += tree_.text(arguments[0]);
    if (arguments.size() == 2) out_ += fmt::format(":{}", tree_.integer(arguments[1]));
    return {};
  }

  // "(1.5-2.0j)"
  Status append_complex(std::span<const PickleValue> arguments) {
    if (arguments.size() != 2 || !tree_.is(arguments[0], PickleKind::kReal) ||
        !tree_.is(arguments[1], PickleKind::kReal)) {
      return odd_value("a complex number is not made from two numbers");
    }
    const double imaginary = tree_.real(arguments[1]);
    out_ += fmt::format("({}{}{}j)", real_text(tree_.real(arguments[0])), std::signbit(imaginary) ? "" : "+",
                        real_text(imaginary));
    return {};
  }

  const PickleTree& tree_;
  size_t max_text_;
  std::string out_;
};

Result<std::string> spelled(const PickleTree& tree, PickleValue value, size_t max_text) {
  PythonSpeller speller(tree, max_text);
  BALLAST_CHECK(speller.append(value));
  std::string text = speller.take();
  if (text.size() > max_text) return make_error(ErrorCode::kUnsupported, "its text is too long");
  return text;
}

// Integers between 2^63 and 2^64 still fit without a sign.
std::optional<uint64_t> as_unsigned(const PickleTree& tree, PickleValue value) {
  const std::string_view bytes = tree.text(value);
  if (bytes.size() != sizeof(uint64_t) + 1 || bytes.back() != 0) return std::nullopt;
  return load_le<uint64_t>(as_bytes(bytes).data());
}

}  // namespace

Result<MetaValue> torch_leaf(const PickleTree& tree, PickleValue value, size_t max_text) {
  switch (tree.kind(value)) {
    case PickleKind::kBool: return MetaValue(tree.boolean(value));
    case PickleKind::kInteger: return MetaValue(tree.integer(value));
    case PickleKind::kReal: return MetaValue(tree.real(value));
    case PickleKind::kText:
      if (tree.text(value).size() > max_text) return make_error(ErrorCode::kUnsupported, "its text is too long");
      return MetaValue(std::string(tree.text(value)));
    case PickleKind::kBigInteger:
      if (const auto number = as_unsigned(tree, value)) return MetaValue(*number);
      break;
    case PickleKind::kCall:
      if (is_call_of(tree, value, TorchName::kNumpyScalar)) return numpy_scalar(tree, value);
      break;
    default: break;
  }
  BALLAST_TRY(std::string text, spelled(tree, value, max_text));
  return MetaValue(std::move(text));
}

Result<std::string> torch_key(const PickleTree& tree, PickleValue value, size_t max_text) {
  if (!tree.is(value, PickleKind::kText)) return spelled(tree, value, max_text);
  if (tree.text(value).size() > max_text) return make_error(ErrorCode::kUnsupported, "its text is too long");
  return std::string(tree.text(value));
}

bool is_torch_scalar(const PickleTree& tree, PickleValue value) {
  switch (tree.kind(value)) {
    case PickleKind::kNone:
    case PickleKind::kBool:
    case PickleKind::kInteger:
    case PickleKind::kBigInteger:
    case PickleKind::kReal:
    case PickleKind::kText: return true;
    default: return false;
  }
}

}  // namespace ballast
