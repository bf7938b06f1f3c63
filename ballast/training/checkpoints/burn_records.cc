#include "ballast/training/checkpoints/burn_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "ballast/archive/open.h"
#include "ballast/base/json.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

constexpr std::string_view kRank = "__rank";

Error not_a_record(const std::string& where, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", where, what));
}

std::string name_of(const Archive& archive) {
  return archive.sources().empty() ? "optimizer record" : archive.sources().front()->name();
}

std::optional<uint64_t> parse_id(std::string_view text) {
  uint64_t id = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

struct IdAndField {
  uint64_t id;
  std::string_view field;
};
std::optional<IdAndField> split_name(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  const auto id = parse_id(name.substr(0, dot));
  if (!id) return std::nullopt;
  return IdAndField{*id, name.substr(dot + 1)};
}

// ---------------------------------------------------------------- the optimizer record

// Entries in the order in which their ids first appear.
class OptimizerReader {
 public:
  explicit OptimizerReader(const Archive& archive) : archive_(archive), where_(name_of(archive)) {}

  Result<BurnOptimizerRecord> run() {
    for (size_t i = 0; i < archive_.tensors().size(); ++i) BALLAST_CHECK(read_tensor(i));
    for (const MetaEntry& entry : archive_.description().metadata) BALLAST_CHECK(read_metadata(entry));
    for (const BurnOptimizerEntry& entry : record_.entries) {
      if (entry.parameter.empty()) {
        return not_a_record(where_, fmt::format("says nothing of which parameter {} is", entry.param_id));
      }
    }
    return std::move(record_);
  }

 private:
  BurnOptimizerEntry& entry_of(uint64_t id) {
    const auto [found, is_new] = positions_.try_emplace(id, record_.entries.size());
    if (is_new) record_.entries.emplace_back().param_id = id;
    return record_.entries[found->second];
  }

  Status read_tensor(size_t index) {
    const TensorInfo& info = archive_.tensors()[index];
    const auto name = split_name(info.name);
    if (!name) return not_a_record(where_, fmt::format("tensor \"{}\" is not called <id>.<field>", info.name));
    if (info.param_id && *info.param_id != name->id) {
      return not_a_record(where_, fmt::format("tensor \"{}\" carries the id {}", info.name, *info.param_id));
    }
    BALLAST_TRY(const Payload payload, archive_.payload(index));
    const ByteSpan bytes = payload.bytes();
    record_.memory.emplace_back(bytes.begin(), bytes.end());
    SnapshotTensor tensor{info, record_.memory.back()};
    tensor.info.name = name->field;
    tensor.info.param_id = name->id;
    entry_of(name->id).tensors.push_back(std::move(tensor));
    return {};
  }

  Status read_metadata(const MetaEntry& entry) {
    if (const auto* path = std::get_if<std::string>(&entry.value)) {
      const auto id = parse_id(entry.key);
      if (!id) return not_a_record(where_, fmt::format("metadata \"{}\" is no parameter id", entry.key));
      entry_of(*id).parameter = *path;
      return {};
    }
    const auto name = split_name(entry.key);
    if (std::holds_alternative<MetaArray>(entry.value)) {
      return not_a_record(where_, fmt::format("metadata \"{}\" is a list", entry.key));
    }
    if (!name) return not_a_record(where_, fmt::format("scalar \"{}\" is not called <id>.<field>", entry.key));
    if (name->field != kRank) {
      entry_of(name->id).scalars.push_back({std::string(name->field), entry.value});
      return {};
    }
    const auto* rank = std::get_if<uint64_t>(&entry.value);
    if (rank == nullptr) return not_a_record(where_, fmt::format("scalar \"{}\" is no unsigned number", entry.key));
    entry_of(name->id).rank = *rank;
    return {};
  }

  const Archive& archive_;
  std::string where_;
  std::map<uint64_t, size_t> positions_;
  BurnOptimizerRecord record_;
};

// ---------------------------------------------------------------- scalars in state_json

void write_scalar(JsonWriter& json, const MetaValue& value) {
  json.begin_object();
  if (const auto* text = std::get_if<std::string>(&value)) json.key("text").string(*text);
  else if (const auto* number = std::get_if<int64_t>(&value)) json.key("i64").signed_number(*number);
  else if (const auto* count = std::get_if<uint64_t>(&value)) json.key("u64").number(*count);
  else if (const auto* real = std::get_if<double>(&value)) json.key("f64").real(*real);
  else if (const auto* truth = std::get_if<bool>(&value)) json.key("bool").boolean(*truth);
  json.end_object();
}

Result<MetaValue> read_scalar(JsonReader& json) {
  std::string type;
  BALLAST_CHECK(json.enter_object());
  BALLAST_TRY(const bool any, json.next_key(type));
  std::optional<MetaValue> value;
  if (any && type == "text") BALLAST_CHECK(assign(value, json.read_string()));
  else if (any && type == "i64") BALLAST_CHECK(assign(value, json.read_i64()));
  else if (any && type == "u64") BALLAST_CHECK(assign(value, json.read_u64()));
  else if (any && type == "f64") BALLAST_CHECK(assign(value, json.read_double()));
  else if (any && type == "bool") BALLAST_CHECK(assign(value, json.read_bool()));
  if (!value) return json.error_here("a scalar is one of text, i64, u64, f64, bool");
  BALLAST_TRY(const bool more, json.next_key(type));
  if (more) return json.error_here("a scalar has one value");
  return *value;
}

void write_scalars(JsonWriter& json, const std::vector<MetaEntry>& scalars) {
  json.begin_object();
  for (const MetaEntry& scalar : scalars) write_scalar(json.key(scalar.key), scalar.value);
  json.end_object();
}

Status read_scalars(JsonReader& json, std::vector<MetaEntry>& scalars) {
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    BALLAST_TRY(MetaValue value, read_scalar(json));
    scalars.push_back({key, std::move(value)});
  }
}

std::string state_text(const BurnOptimizerRecord& optimizer, const std::optional<std::vector<MetaEntry>>& scheduler) {
  JsonWriter json;
  json.begin_object().key("burn").begin_object().key("optimizer").begin_object();
  for (const BurnOptimizerEntry& entry : optimizer.entries) write_scalars(json.key(entry.parameter), entry.scalars);
  json.end_object();
  if (scheduler) write_scalars(json.key("scheduler"), *scheduler);
  json.end_object().end_object();
  return json.take();
}

struct BurnState {
  std::map<std::string, std::vector<MetaEntry>> optimizer;  // by parameter
  std::optional<std::vector<MetaEntry>> scheduler;
};

Status read_burn_state(JsonReader& json, BurnState& state) {
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    if (key == "scheduler") {
      BALLAST_CHECK(read_scalars(json, state.scheduler.emplace()));
    } else if (key == "optimizer") {
      std::string parameter;
      BALLAST_CHECK(json.enter_object());
      for (;;) {
        BALLAST_TRY(const bool another, json.next_key(parameter));
        if (!another) break;
        BALLAST_CHECK(read_scalars(json, state.optimizer[parameter]));
      }
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
}

Result<BurnState> parse_state(const std::string& text) {
  JsonReader json(text, "state of the snapshot");
  BurnState state;
  std::string key;
  BALLAST_CHECK(json.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "burn") BALLAST_CHECK(read_burn_state(json, state));
    else BALLAST_CHECK(json.skip_value());
  }
  BALLAST_CHECK(json.finish());
  return state;
}

// ---------------------------------------------------------------- import

Status import_module(const std::string& path, ImportedBurnRecords& imported) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    BALLAST_TRY(const Payload payload, archive.payload(i));
    const ByteSpan bytes = payload.bytes();
    imported.memory.emplace_back(bytes.begin(), bytes.end());
    imported.snapshot.weights.push_back({archive.tensors()[i], imported.memory.back()});
  }
  return {};
}

Status check_parameters(const std::string& path, const BurnOptimizerRecord& record,
                        const std::vector<SnapshotTensor>& weights) {
  for (const BurnOptimizerEntry& entry : record.entries) {
    const bool known = std::ranges::any_of(
        weights, [&](const SnapshotTensor& weight) { return weight.info.param_id == entry.param_id; });
    if (known || weights.empty()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: has state for the parameter {} (\"{}\"), which the module record does not hold; "
                                  "are the two from one run?",
                                  path, entry.param_id, entry.parameter));
  }
  return {};
}

Result<BurnOptimizerRecord> import_optimizer(const std::string& path, ImportedBurnRecords& imported) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  BALLAST_TRY(BurnOptimizerRecord record, read_burn_optimizer(archive));
  BALLAST_CHECK(check_parameters(path, record, imported.snapshot.weights));
  for (const BurnOptimizerEntry& entry : record.entries) {
    for (const SnapshotTensor& tensor : entry.tensors) {
      imported.snapshot.state.push_back(tensor);
      imported.snapshot.state.back().info.name = fmt::format("{}.{}", entry.parameter, tensor.info.name);
    }
  }
  // Moving a vector leaves its bytes where they are.
  std::ranges::move(record.memory, std::back_inserter(imported.memory));
  return record;
}

// ---------------------------------------------------------------- export

// The weight that a state tensor belongs to: by its id, which is how Burn finds it.
Result<const TensorInfo*> weight_of(const TrainingSnapshot& snapshot, const TensorInfo& state) {
  for (const SnapshotTensor& weight : snapshot.weights) {
    if (state.param_id && weight.info.param_id == state.param_id) return &weight.info;
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("state tensor \"{}\" carries no id of a weight, by which Burn would find it", state.name));
}

Result<BurnOptimizerRecord> collect_optimizer(const TrainingSnapshot& snapshot, BurnState& state) {
  BurnOptimizerRecord record;
  for (const SnapshotTensor& tensor : snapshot.state) {
    BALLAST_TRY(const TensorInfo* weight, weight_of(snapshot, tensor.info));
    const std::string prefix = weight->name + ".";
    if (!tensor.info.name.starts_with(prefix)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("state tensor \"{}\" of the weight \"{}\" is not called \"{}<field>\"",
                                    tensor.info.name, weight->name, prefix));
    }
    auto entry = std::ranges::find(record.entries, *weight->param_id, &BurnOptimizerEntry::param_id);
    if (entry == record.entries.end()) {
      record.entries.push_back({weight->name, *weight->param_id, weight->shape.rank(), {}, {}});
      entry = record.entries.end() - 1;
      if (const auto found = state.optimizer.find(weight->name); found != state.optimizer.end()) {
        entry->scalars = std::move(found->second);
      }
    }
    entry->tensors.push_back(tensor);
    entry->tensors.back().info.name.erase(0, prefix.size());
  }
  return record;
}

WritePlan plan_module(const TrainingSnapshot& snapshot) {
  WritePlan plan;
  for (const SnapshotTensor& weight : snapshot.weights) {
    TensorInfo info = weight.info;
    info.requires_grad.reset();  // Burnpack has no field for it
    plan.add_tensor(std::move(info), weight.bytes);
  }
  return plan;
}

Status add_record(AtomicFiles& set, const std::string& path, const WritePlan& plan, const CommitOptions& commit) {
  WriteSettings settings;
  settings.commit = commit;
  settings.format.keep_order = true;
  settings.set = &set;
  BALLAST_CHECK(write_archive(path, *find_format("burnpack"), plan, settings));
  return {};
}

}  // namespace

Result<BurnOptimizerRecord> read_burn_optimizer(const Archive& archive) {
  return guarded([&] { return OptimizerReader(archive).run(); });
}

Result<WritePlan> plan_burn_optimizer(const BurnOptimizerRecord& record) {
  WritePlan plan;
  std::map<uint64_t, const BurnOptimizerEntry*> seen;
  for (const BurnOptimizerEntry& entry : record.entries) {
    const auto [other, is_new] = seen.try_emplace(entry.param_id, &entry);
    if (!is_new) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the parameters \"{}\" and \"{}\" have the same id {}", other->second->parameter,
                                    entry.parameter, entry.param_id));
    }
    for (const SnapshotTensor& tensor : entry.tensors) {
      TensorInfo info = tensor.info;
      info.name = fmt::format("{}.{}", entry.param_id, tensor.info.name);
      info.param_id = entry.param_id;
      info.requires_grad.reset();
      plan.add_tensor(std::move(info), tensor.bytes);
    }
    auto& metadata = plan.description.metadata;
    metadata.push_back({std::to_string(entry.param_id), entry.parameter});
    metadata.push_back({fmt::format("{}.{}", entry.param_id, kRank), entry.rank});
    for (const MetaEntry& scalar : entry.scalars) {
      metadata.push_back({fmt::format("{}.{}", entry.param_id, scalar.key), scalar.value});
    }
  }
  return plan;
}

Result<ImportedBurnRecords> import_burn_records(const BurnRecordFiles& files) {
  return guarded([&]() -> Result<ImportedBurnRecords> {
    ImportedBurnRecords imported;
    BurnOptimizerRecord optimizer;
    std::optional<std::vector<MetaEntry>> scheduler;
    if (!files.module.empty()) BALLAST_CHECK(import_module(files.module, imported));
    if (!files.optimizer.empty()) BALLAST_CHECK(assign(optimizer, import_optimizer(files.optimizer, imported)));
    if (!files.scheduler.empty()) {
      BALLAST_TRY(const Archive archive, open_archive(files.scheduler));
      if (!archive.tensors().empty()) {
        return not_a_record(files.scheduler, "holds tensors, which no scheduler record does");
      }
      scheduler = archive.description().metadata;
    }
    imported.snapshot.state_json = state_text(optimizer, scheduler);
    return imported;
  });
}

Status export_burn_records(const TrainingSnapshot& snapshot, const BurnRecordFiles& files,
                           const CommitOptions& commit) {
  return guarded([&]() -> Status {
    BALLAST_TRY(BurnState state, parse_state(snapshot.state_json));
    AtomicFiles set(commit);
    if (!files.module.empty()) BALLAST_CHECK(add_record(set, files.module, plan_module(snapshot), commit));
    if (!files.optimizer.empty()) {
      BALLAST_TRY(const BurnOptimizerRecord record, collect_optimizer(snapshot, state));
      BALLAST_TRY(const WritePlan plan, plan_burn_optimizer(record));
      BALLAST_CHECK(add_record(set, files.optimizer, plan, commit));
    }
    if (!files.scheduler.empty()) {
      if (!state.scheduler) {
        return make_error(ErrorCode::kInvalidArgument,
                          "a scheduler record was asked for, and the snapshot's state has no burn.scheduler");
      }
      WritePlan plan;
      plan.description.metadata = *state.scheduler;
      BALLAST_CHECK(add_record(set, files.scheduler, plan, commit));
    }
    return set.commit();
  });
}

}  // namespace ballast
