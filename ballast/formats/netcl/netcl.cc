#include "ballast/formats/netcl/netcl.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"

namespace ballast {

namespace {

constexpr std::string_view kMetaMember = "__netcl_meta__.npy";
constexpr uint64_t kMaxInflatedMeta = 8 << 20;

// ---------------------------------------------------------------- the metadata member

struct TextType {
  bool is_utf32 = true;
  bool big_endian = false;
};

// What a text array's descriptor (`<U10`, `|S10`) says; nullopt for anything that is no text.
std::optional<TextType> text_type(std::string_view descr) {
  if (descr.size() < 2 || (descr[1] != 'U' && descr[1] != 'S')) return std::nullopt;
  return TextType{descr[1] == 'U', descr[0] == '>'};
}

uint32_t load_code_unit(const std::byte* at, bool big_endian) {
  const auto value = load_le<uint32_t>(at);
  return big_endian ? byte_swapped(value) : value;
}

// NumPy pads text with zeros, which do not belong to it.
std::optional<std::string> decode_text(ByteSpan bytes, TextType type) {
  if (!type.is_utf32) {
    std::string_view text = as_text(bytes);
    while (text.ends_with('\0')) text.remove_suffix(1);
    return is_valid_utf8(text) ? std::optional<std::string>(text) : std::nullopt;
  }
  std::string text;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    const uint32_t code_point = load_code_unit(bytes.data() + at, type.big_endian);
    if (!is_code_point(code_point)) return std::nullopt;
    append_utf8(text, code_point);
  }
  while (text.ends_with('\0')) text.pop_back();
  return text;
}

std::string encode_text(std::string_view text, TextType type) {
  if (!type.is_utf32) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const uint32_t code_point = take_code_point(text, at).value_or(0xFFFD);
    append_le<uint32_t>(out, type.big_endian ? byte_swapped(code_point) : code_point);
  }
  return out;
}

TensorInfo default_meta_tensor(uint64_t payload_size) {
  TensorInfo meta;
  meta.name = kNetclMetaName;
  meta.dtype = DType::kOpaque;
  meta.byte_size = payload_size;
  meta.set_scheme(fmt::format("<U{}", payload_size / 4));
  return meta;
}

// How a file differs from what netcl writes: "numpy compressed;meta-at=0;meta=<spelling of its NPY header>".
struct NetclForm {
  NpzForm npz{.numpy = true};
  std::optional<size_t> meta_position;  // absent: behind all tensors
  std::string meta_spelling;            // empty: as netcl spells it

  std::string to_text() const {
    std::string text = netcl_form_text(npz);
    if (meta_position) text += fmt::format(";{}{}", kPosition, *meta_position);
    if (!meta_spelling.empty()) text += fmt::format(";{}{}", kSpelling, meta_spelling);
    return text;
  }

  static NetclForm from_text(std::string_view text) {
    NetclForm form;
    form.npz = netcl_form_from_text(text.substr(0, text.find(';')));
    if (const size_t at = text.find(kSpelling); at != std::string_view::npos) {
      form.meta_spelling = text.substr(at + kSpelling.size());
      text = text.substr(0, at);
    }
    if (const size_t at = text.find(kPosition); at != std::string_view::npos) {
      size_t position = 0;
      const char* begin = text.data() + at + kPosition.size();
      if (std::from_chars(begin, text.data() + text.size(), position).ec == std::errc()) form.meta_position = position;
    }
    return form;
  }

 private:
  static constexpr std::string_view kPosition = "meta-at=";
  static constexpr std::string_view kSpelling = "meta=";
};

// ---------------------------------------------------------------- reading

SniffMatch sniff_netcl(const SniffInput& input) {
  if (!looks_like_zip(input.head)) return SniffMatch::kNo;
  bool found = false;
  for_each_zip_name(*input.source, [&](std::string_view name) {
    found = name == kMetaMember;
    return !found;
  });
  return found ? SniffMatch::kCertain : SniffMatch::kNo;
}

std::string spelling_of(const TensorInfo& meta) {
  if (!meta.stored_form().empty()) return meta.stored_form();
  const auto layout = npy_layout(meta, {});
  return layout ? npy_spelling(layout->header) : std::string();
}

struct Metadata {
  std::string text;
  NetclForm form;
};

// Takes the metadata member out of the contents.
Result<Metadata> take_metadata(const std::shared_ptr<const ByteSource>& source, NpzContents& contents) {
  const auto fail = [&](std::string_view what) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} {}", source->name(), kNetclMetaName, what));
  };
  const auto found = std::ranges::find(contents.tensors, kNetclMetaName, &TensorInfo::name);
  if (found == contents.tensors.end()) return fail("is missing, so this is no netcl model");
  const auto index = static_cast<size_t>(found - contents.tensors.begin());
  const auto type = found->dtype == DType::kOpaque ? text_type(found->scheme()) : std::nullopt;
  if (!type || found->shape.element_count() != 1) {
    return fail(fmt::format("must be one text; it is {} of shape {}", found->type_name(), found->shape.to_string()));
  }
  BALLAST_TRY(const ByteVector payload, read_npz_payload(source, contents, index, kMaxInflatedMeta));
  auto text = decode_text(payload, *type);
  if (!text) return fail("holds something that is not text");

  Metadata metadata;
  metadata.text = *std::move(text);
  metadata.form.npz = contents.form;
  if (index + 1 != contents.tensors.size()) metadata.form.meta_position = index;
  const TensorInfo expected = default_meta_tensor(encode_text(metadata.text, {}).size());
  if (spelling_of(*found) != spelling_of(expected)) metadata.form.meta_spelling = spelling_of(*found);
  contents.erase(index);
  return metadata;
}

Result<Archive> open_netcl(const OpenRequest& request, Findings& findings) {
  BALLAST_TRY(NpzContents contents, read_npz(request.source, findings));
  BALLAST_TRY(Metadata metadata, take_metadata(request.source, contents));
  const std::string where = fmt::format("{}: {}", request.source->name(), kNetclMetaName);
  BALLAST_TRY(const NetclModel model, check_netcl_model(metadata.text, where, contents.tensors, findings));
  Description description;
  description.format = kNetclReader.name;
  description.version = model.version;
  description.producer = netcl_producer(model);
  description.config = ModelConfig{std::string(kNetclSchema), std::move(metadata.text)};
  description.stored_form = metadata.form.to_text();
  description.origin = std::move(contents.origin);
  description.tensors = std::move(contents.tensors);
  return Archive(std::move(description), std::move(contents.extents), {request.source});
}

// ---------------------------------------------------------------- writing

std::vector<Loss> find_netcl_losses(const Description& description, const WriteOptions&) {
  std::vector<Loss> losses;
  find_npz_losses(description, kNetclReader.name, losses);
  return losses;
}

Result<NpzExtraMember> meta_member(const std::string& text, const NetclForm& form) {
  NpzExtraMember member{.name = std::string(kNetclMetaName), .position = form.meta_position.value_or(SIZE_MAX)};
  if (const auto spelled = parse_npy_spelling(form.meta_spelling)) {
    const auto type = text_type(spelled->type.descr);
    std::string payload = type ? encode_text(text, *type) : std::string();
    if (type && payload.size() <= spelled->payload_size && spelled->shape.element_count() == 1) {
      payload.resize(static_cast<size_t>(spelled->payload_size), '\0');
      BALLAST_TRY(member.header, npy_header_bytes(form.meta_spelling));
      member.payload = std::move(payload);
      return member;
    }
  }
  member.payload = encode_text(text, {});
  BALLAST_TRY(NpyLayout layout, npy_layout(default_meta_tensor(member.payload.size()), {}));
  member.header = std::move(layout.header);
  return member;
}

Result<std::unique_ptr<PlannedWrite>> plan_netcl(const WriteRequest& request) {
  const Description& description = request.description;
  const bool same_format = description.format == kNetclReader.name;
  BALLAST_TRY(std::string text, netcl_config_text(description, kNetclReader.name));
  if (!same_format) {
    BALLAST_TRY(text, netcl_config_as_version_2(text, description.tensors));
  }
  const bool keep_forms = same_format && request.options.keep_form;
  const NetclForm form = keep_forms ? NetclForm::from_text(description.stored_form) : NetclForm{};
  BALLAST_TRY(NpzExtraMember meta, meta_member(text, form));
  std::vector<NpzExtraMember> extras = {std::move(meta)};
  if (description.origin) extras.push_back(npz_text_member(kOriginKey, *description.origin));
  BALLAST_TRY(NpzLayout layout, NpzLayout::plan(description.tensors, form.npz, keep_forms, std::move(extras)));
  return make_npz_write(std::move(layout));
}

constexpr std::string_view kNetclExtensions[] = {".netcl"};

}  // namespace

std::string netcl_form_text(const NpzForm& form) {
  const std::string text = form.to_text();
  return text == NpzForm{.numpy = true}.to_text() ? std::string() : text;
}

NpzForm netcl_form_from_text(std::string_view text) {
  const NpzForm form = NpzForm::from_text(text);
  return form.numpy ? form : NpzForm{.numpy = true};
}

Result<std::string> netcl_config_text(const Description& description, std::string_view format) {
  const auto& config = description.config;
  if (!config || config->schema != kNetclSchema) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} files say which layers the model has, and {} does not: give netcl's JSON", format,
                                  config ? "a " + config->schema + " config" : "the source"),
                      Remedy::kGiveConfig);
  }
  const auto model = parse_netcl_config(config->text, "the model config");
  if (!model) return make_error(ErrorCode::kInvalidArgument, model.error().message);
  return config->text;
}

constexpr FormatReader kNetclReader = {
    .name = "netcl",
    .summary = "netcl model file, version 2: one NPZ with its layers as JSON",
    .extensions = kNetclExtensions,
    .sniff = sniff_netcl,
    .open = open_netcl,
};

constexpr FormatWriter kNetclWriter = {
    .find_losses = find_netcl_losses,
    .plan_write = plan_netcl,
    .config_schema = kNetclSchema,
};

const FormatDriver kNetclDriver = {kNetclReader, kNetclWriter};

}  // namespace ballast
