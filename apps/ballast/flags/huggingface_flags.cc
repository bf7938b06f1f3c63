#include "apps/ballast/flags/huggingface_flags.h"

#include <algorithm>
#include <filesystem>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{16} << 20;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The config.json of the folder that holds the weights; "" without one.
std::string path_beside(const std::string& source) {
  const std::filesystem::path path(source);
  std::error_code none;
  const auto folder = std::filesystem::is_directory(path, none) ? path : path.parent_path();
  const auto beside = folder / "config.json";
  return std::filesystem::is_regular_file(beside, none) ? beside.string() : "";
}

Result<std::string> read_small_text(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() > kMostConfigBytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      path + ": too large for a model config; give the right file with --config");
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

}  // namespace

void HuggingFaceConfig::add_flags(Command& command) {
  command.written_file("--write-config", write_path_, "Write config.json here (with --adapt gptrs-to-huggingface)");
}

Status HuggingFaceConfig::prepare(const std::vector<std::string>& adapters, const std::string& source,
                                  const std::string& config_path, std::optional<std::string>& config_text,
                                  AdaptOptions& adapt) {
  adapt.huggingface_report = report_;
  if (!write_path_.empty() && !contains(adapters, "gptrs-to-huggingface")) {
    return make_error(ErrorCode::kInvalidArgument, "--write-config requires --adapt gptrs-to-huggingface");
  }
  adapt.huggingface.config_wanted = !write_path_.empty();
  if (!contains(adapters, "huggingface-to-gptrs")) return {};
  if (config_text) {
    adapt.huggingface.config_text = std::exchange(config_text, std::nullopt);
    adapt.huggingface.config_name = config_path;
    adapt.huggingface.config_was_chosen = true;
    return {};
  }
  const std::string beside = path_beside(source);
  if (beside.empty()) return {};
  adapt.huggingface.config_name = beside;
  return assign(adapt.huggingface.config_text, read_small_text(beside));
}

Status HuggingFaceConfig::open_output(const CommitOptions& commit, bool dry_run) {
  if (write_path_.empty() || dry_run) return {};
  files_ = std::make_unique<AtomicFiles>(commit);
  return assign(sink_, files_->add(write_path_, 0));
}

Result<std::string> HuggingFaceConfig::write_output() {
  if (sink_ == nullptr) return std::string();
  BALLAST_CHECK(sink_->write_text(report_->config_text));
  BALLAST_CHECK(files_->commit());
  return write_path_;
}

void HuggingFaceConfig::add_to(JsonWriter& json) const {
  if (report_->kind.empty()) return add_null(json, "adapted");
  json.key("adapted").begin_object();
  add_text(json, "kind", report_->kind);
  add_boolean(json, "tied", report_->tied);
  json.key("mapped").begin_array();
  for (const MappedNames& row : report_->mapped) {
    json.begin_object();
    add_text(json, "gptrs", row.gptrs);
    add_text(json, "huggingface", row.huggingface);
    add_text(json, "change", row.change);
    add_number(json, "tensors", row.tensors);
    json.end_object();
  }
  json.end_array().key("ignored").begin_array();
  for (const std::string& name : report_->ignored) json.string(json_text(name));
  json.end_array().end_object();
}

}  // namespace ballast::cli
