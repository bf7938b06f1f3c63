// GPTRSCHK: "GPTRSCHK" | u32 version | u32 length, JSON config | u32 length, index | payloads.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ballast/base/checked.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gptrs/gptrs_config.h"
#include "ballast/formats/gptrs/gptrs_index.h"
#include "ballast/formats/tie.h"

namespace ballast {

namespace {

constexpr uint64_t kConfigOffset = kGptrsHeadSize + 4;
constexpr std::string_view kSchema = "gptrs";
constexpr std::string_view kUntaggedForm = "untagged";  // the config is a bare GPT config, without kind

SniffMatch sniff_gptrs_checkpoint(const SniffInput& input) { return sniff_gptrs(kGptrsCheckpoint, input); }

// ---------------------------------------------------------------- reading

Result<std::string> read_config_text(const ByteSource& source) {
  BALLAST_TRY(const uint32_t length, read_gptrs_u32(source, kGptrsHeadSize, "the config's length"));
  if (!range_fits(kConfigOffset, length, source.size())) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: the config claims {} bytes but only {} follow; the file "
                                                       "was probably cut short",
                                                       source.name(), length, source.size() - kConfigOffset));
  }
  std::string text(length, '\0');
  BALLAST_CHECK(source.read_at(kConfigOffset, std::as_writable_bytes(std::span(text))));
  return text;
}

Status read_config(const ByteSource& source, std::string stored, Description& description, Findings& findings) {
  auto config = parse_gptrs_config(std::move(stored), source.name() + ": config", kConfigOffset);
  if (!config) return findings.error("config", kConfigOffset, "", std::move(config.error().message));
  description.config = ModelConfig{std::string(kSchema), std::move(config->text)};
  description.origin = std::move(config->origin);
  if (config->tagged) return {};
  description.stored_form = kUntaggedForm;  // the alignment of payloads may add a word to it
  findings.note("untagged_config", kConfigOffset, "", [&] {
    return fmt::format("{}: the config has no \"kind\": it is an early, bare GPT config, which today's gpt.rs refuses",
                       source.name());
  });
  return {};
}

bool all_ids_are_zero(const std::vector<TensorInfo>& tensors) {
  return !tensors.empty() && std::ranges::all_of(tensors, [](const TensorInfo& t) {
    return form_without_tie(t.stored_form()) == kGptrsZeroIdForm;
  });
}

Result<Archive> open_gptrs_checkpoint(const OpenRequest& request, Findings& findings) {
  const ByteSource& source = *request.source;
  BALLAST_TRY(const uint32_t version, read_gptrs_version(source, kGptrsCheckpoint));
  Description description;
  description.format = kGptrsCheckpoint.format;
  description.version = std::to_string(version);
  BALLAST_TRY(std::string config, read_config_text(source));
  const uint64_t contents_offset = kConfigOffset + config.size();
  BALLAST_CHECK(read_config(source, std::move(config), description, findings));
  BALLAST_TRY(GptrsContents contents,
              parse_gptrs_contents(source, kGptrsCheckpoint, version, contents_offset, findings));
  description.tensors = std::move(contents.tensors);
  if (contents.is_aligned) {
    description.stored_form += (description.stored_form.empty() ? "" : " ") + std::string(kGptrsAlignedForm);
  }
  if (all_ids_are_zero(description.tensors)) description.producer = "gpt.rs (Python exporter)";
  return Archive(std::move(description), std::move(contents.extents), {request.source});
}

// ---------------------------------------------------------------- writing

std::vector<Loss> find_gptrs_checkpoint_losses(const Description& description, const WriteOptions& options) {
  return find_gptrs_losses(kGptrsCheckpoint, description, options);
}

Error gptrs_config_error(std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); }

// The config as it will be stored.
Result<std::string> plan_config(const WriteRequest& request) {
  const Description& description = request.description;
  if (!description.config || description.config->schema != kSchema) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a gptrs-checkpoint holds a model config, and the source has none{}: give one",
                                  description.config ? " of gpt.rs's kind" : ""),
                      Remedy::kGiveConfig);
  }
  auto config = parse_gptrs_config(description.config->text, "model config");
  if (!config) return gptrs_config_error(std::move(config.error().message));
  std::string text = std::move(config->text);
  const bool was_untagged =
      description.format == kGptrsCheckpoint.format && description.stored_form.starts_with(kUntaggedForm);
  if (!config->tagged && !was_untagged) {
    return gptrs_config_error(
        "model config: no \"kind\"; gpt.rs wants {\"kind\":\"gpt\",\"config\":{...}} or another kind of model");
  }
  if (!config->tagged && !request.options.keep_form) {
    text = "{\"kind\":\"gpt\",\"config\":" + text + "}";
  }
  if (description.origin) text = splice_gptrs_origin(std::move(text), *description.origin);
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    return gptrs_config_error(fmt::format("the config would take {} bytes; the format allows 2^32-1", text.size()));
  }
  return text;
}

Result<std::unique_ptr<PlannedWrite>> plan_gptrs_checkpoint(const WriteRequest& request) {
  BALLAST_CHECK(refuse_gptrs_losses(find_gptrs_checkpoint_losses(request.description, request.options)));
  BALLAST_TRY(const std::string config, plan_config(request));
  std::string head(kGptrsCheckpoint.magic);
  append_le<uint32_t>(head, kGptrsIndexed);
  append_le<uint32_t>(head, static_cast<uint32_t>(config.size()));
  head += config;
  return plan_gptrs_write(kGptrsCheckpoint, request, std::move(head));
}

constexpr std::string_view kGptrsCheckpointExtensions[] = {".gptrs", ".bin"};

}  // namespace

constexpr FormatReader kGptrsCheckpointReader = {
    .name = kGptrsCheckpoint.format,
    .summary = "gpt.rs checkpoint (GPTRSCHK): a model's config and its tensors",
    .extensions = kGptrsCheckpointExtensions,
    .sniff = sniff_gptrs_checkpoint,
    .open = open_gptrs_checkpoint,
};

constexpr FormatWriter kGptrsCheckpointWriter = {
    .find_losses = find_gptrs_checkpoint_losses,
    .plan_write = plan_gptrs_checkpoint,
    .config_schema = kSchema,
    .can_allow_half = true,
    .can_tie = true,
};

const FormatDriver kGptrsCheckpointDriver = {kGptrsCheckpointReader, kGptrsCheckpointWriter};

}  // namespace ballast
