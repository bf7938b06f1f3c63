#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/ballast/commands/inspect.h"
#include "apps/ballast/models/running_memory.h"
#include "apps/ballast/output/numpy_text.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/tied_output.h"
#include "apps/ballast/output/tree.h"
#include "ballast/archive/model_summary.h"
#include "ballast/archive/origin.h"
#include "ballast/base/human_size.h"
#include "ballast/base/json.h"

namespace ballast::cli {

namespace {

constexpr size_t kLongestValue = 160;  // of metadata and config; --json has everything
constexpr size_t kMostConfigRows = 40;
constexpr size_t kMostListed = 16;  // of a list in the metadata

Table field_table() { return Table({{""}, {"", Align::kLeft, true}}); }

void add_field(Table& table, std::string_view key, std::string_view value) {
  table.add_row(Cell(shorten(printable(key), kLongestValue), Paint::kDim), shorten(printable(value), kLongestValue));
}

struct ValueText {
  size_t most_elements;

  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(uint64_t value) const { return std::to_string(value); }
  // What is a float is shown as one: 1e-05, not 9.999999747378752e-06.
  std::string operator()(double value) const {
    const auto narrow = static_cast<float>(value);
    return static_cast<double>(narrow) == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const MetaArray& value) const { return value.to_text(most_elements); }
};

// ---------------------------------------------------------------- the head

std::string size_text(const Archive& archive) {
  const uint64_t bytes = archive.stored_size();
  std::string text = human_size(bytes);
  if (bytes >= 1024) text += fmt::format(" ({} bytes)", grouped(bytes));
  if (archive.sources().size() > 1) text += fmt::format(" in {} files", archive.sources().size());
  return text;
}

void print_head(const Inspection& inspection, Console& console) {
  const Description& description = inspection.archive.description();
  console.heading(printable(inspection.path));
  Table table = field_table();
  add_field(table, "format",
            description.version.empty() ? description.format
                                        : fmt::format("{}, version {}", description.format, description.version));
  if (!description.producer.empty()) add_field(table, "written by", description.producer);
  add_field(table, "size", size_text(inspection.archive));
  if (description.origin) add_field(table, "origin", origin_summary(*description.origin));
  if (inspection.hashed) {
    add_field(table, "digest", to_hex(archive_digest(inspection.archive.tensors(), inspection.digests)));
  }
  table.append_to(console.out(), console.output());
}

// ---------------------------------------------------------------- the model

// "q4_0 93.1 %, f32 6.9 %"
std::string shares_text(const ModelSummary& model) {
  uint64_t all = 0;
  for (const TypeShare& share : model.types) all += share.bytes;
  std::string text;
  for (const TypeShare& share : model.types) {
    const double percent = all == 0 ? 0 : 100.0 * static_cast<double>(share.bytes) / static_cast<double>(all);
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", dtype_name(share.dtype), percent);
  }
  return text;
}

std::string attention_text(const ModelSummary& model) {
  if (!model.heads) return "";
  if (!model.kv_heads || model.kv_heads == model.heads) return counted(*model.heads, "head");
  return fmt::format("{}, {} for keys and values", counted(*model.heads, "head"), *model.kv_heads);
}

std::string memory_text(const Inspection& inspection, const ModelSummary& model) {
  const uint64_t tokens = inspection.context != 0 ? inspection.context : model.context.value_or(0);
  const auto memory = running_memory(inspection.archive.description(), model, tokens);
  if (!memory || tokens == 0) return "";
  return fmt::format("{} with {} in the cache (f32), which takes {} of it", human_size(memory->total),
                     counted(tokens, "token"), human_size(memory->cache));
}

void print_model(const Inspection& inspection, Console& console) {
  const auto model = model_of(inspection);
  if (!model) return;
  console.heading("model");
  Table table = field_table();
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) add_field(table, key, value);
  };
  const auto add_count = [&](std::string_view key, const std::optional<uint64_t>& count) {
    if (count) add_field(table, key, grouped(*count));
  };
  add("name", model->name);
  add("architecture", model->architecture);
  if (model->parameters != 0) add("parameters", grouped(model->parameters));
  add_count("context", model->context);
  add_count("layers", model->layers);
  add_count("width", model->width);
  add("attention", attention_text(*model));
  add_count("experts", model->experts);
  add("file type", model->file_type);
  add("share of bytes", shares_text(*model));
  add("memory to run", memory_text(inspection, *model));
  add("tokenizer", model->tokenizer);
  add_count("vocabulary", model->vocabulary);
  add("chat template", model->has_chat_template ? "yes" : "no");
  table.append_to(console.out(), console.output());
}

void print_metadata(const Inspection& inspection, Console& console) {
  const Description& description = inspection.archive.description();
  if (description.metadata.empty()) return;
  console.heading("metadata");
  Table table = field_table();
  for (const MetaEntry& entry : description.metadata) {
    const std::string text = std::visit(ValueText{inspection.full ? SIZE_MAX : kMostListed}, entry.value);
    if (inspection.full) table.add_row(Cell(printable(entry.key), Paint::kDim), printable(text));
    else add_field(table, entry.key, text);
  }
  table.append_to(console.out(), console.output());
}

// ---------------------------------------------------------------- the config

// A list as it would be written without line breaks.
std::string on_one_line(std::string_view json) {
  std::string out;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_text = !in_text;
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (in_text || !blank) out += c;
    if (in_text && c == '\\' && i + 1 < json.size()) out += json[++i];
    if (!in_text && (c == ',' || c == ':')) out += ' ';
  }
  return out;
}

// Members of nested objects, one per row: "config.vocab_size  320". Other values stand as they are written.
Status add_config_rows(std::string_view text, Table& table) {
  JsonReader reader(text, "config", 0, JsonReader::Dialect::kPython);
  std::vector<size_t> prefix_ends = {0};  // of the objects around the present member
  std::string path, key;
  size_t rows = 0;
  BALLAST_CHECK(reader.enter_object());
  while (!prefix_ends.empty()) {
    path.resize(prefix_ends.back());
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) {
      prefix_ends.pop_back();
      continue;
    }
    if (++rows > kMostConfigRows) {
      add_field(table, "...", "more in --json");
      return {};
    }
    path += key;
    BALLAST_TRY(const JsonType type, reader.peek());
    if (type == JsonType::kObject) {
      BALLAST_CHECK(reader.enter_object());
      path += '.';
      prefix_ends.push_back(path.size());
    } else {
      BALLAST_TRY(const std::string_view value, reader.read_raw());
      add_field(table, path, type == JsonType::kArray ? on_one_line(value) : std::string(value));
    }
  }
  return {};
}

void print_config(const Description& description, Console& console) {
  if (!description.config) return;
  console.heading(fmt::format("config ({})", description.config->schema));
  Table table = field_table();
  if (!add_config_rows(description.config->text, table)) {
    table = field_table();
    add_field(table, "text", description.config->text);
  }
  table.append_to(console.out(), console.output());
}

// ---------------------------------------------------------------- totals

struct Total {
  uint64_t tensors = 0, elements = 0, bytes = 0;

  void add(const TensorInfo& tensor) {
    ++tensors;
    elements += tensor.shape.element_count().value_or(0);
    bytes += tensor.byte_size;
  }
};

void print_totals(const Inspection& inspection, Console& console) {
  std::array<Total, 256> by_dtype{};
  Total all;
  for (const size_t index : inspection.shown) {
    const TensorInfo& tensor = inspection.archive.tensors()[index];
    by_dtype[static_cast<size_t>(tensor.dtype)].add(tensor);
    all.add(tensor);
  }
  console.heading("totals");
  Table table({{"dtype"}, {"tensors", Align::kRight}, {"elements", Align::kRight}, {"size", Align::kRight}});
  const auto add_row = [&](std::string_view name, const Total& total) {
    table.add_row(name, grouped(total.tensors), grouped(total.elements), human_size(total.bytes));
  };
  size_t kinds = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    const Total& total = by_dtype[static_cast<size_t>(info.dtype)];
    if (total.tensors == 0) continue;
    add_row(info.name, total);
    ++kinds;
  }
  if (kinds != 1) add_row("all", all);
  table.append_to(console.out(), console.output());
}

// ---------------------------------------------------------------- tensors

std::string digest_text(const Inspection& inspection, size_t index) {
  return inspection.hashed ? to_hex(inspection.digests[index].blake3) : std::string();
}

void append_flat(const Inspection& inspection, Console& console) {
  Table table({name_column("name"),
               {"dtype"},
               {"shape"},
               spare_column("offset", 2),
               {"size", Align::kRight},
               {inspection.hashed ? "blake3" : ""}});
  table.reserve(inspection.shown.size());
  for (const size_t index : inspection.shown) {
    const TensorInfo& tensor = inspection.archive.tensors()[index];
    table.add_row(printable(tensor.name), printable(shown_type(tensor)), tensor.shape.to_string(),
                  std::to_string(inspection.archive.extent(index).offset), human_size(tensor.byte_size),
                  Cell(digest_text(inspection, index), Paint::kDim));
  }
  table.append_to(console.out(), console.output());
}

TreeOrder tree_order(InspectSort sort) {
  switch (sort) {
    case InspectSort::kSize: return TreeOrder::kBySize;
    case InspectSort::kOffset: return TreeOrder::kByRank;
    default: return TreeOrder::kByName;
  }
}

// Where order or digests matter, every tensor has its line.
bool folds(const Inspection& inspection) {
  return !inspection.all && !inspection.hashed && tree_order(inspection.sort) == TreeOrder::kByName;
}

bool built_alike(const Inspection& inspection, size_t a, size_t b) {
  const auto tensors = inspection.archive.tensors();
  const TensorInfo &one = tensors[inspection.shown[a]], &other = tensors[inspection.shown[b]];
  return one.type_name() == other.type_name() && one.shape == other.shape && one.byte_size == other.byte_size;
}

void append_tree(const Inspection& inspection, Console& console) {
  std::vector<TreeItem> items;
  items.reserve(inspection.shown.size());
  for (const size_t index : inspection.shown) {
    const TensorInfo& tensor = inspection.archive.tensors()[index];
    items.push_back({tensor.name, tensor.byte_size, items.size()});
  }
  Table table({{"name", Align::kLeft, true},
               {"dtype"},
               {"shape"},
               {"size", Align::kRight},
               {inspection.hashed ? "blake3" : ""}});
  std::vector<TreeLine> lines = make_tree(items, tree_order(inspection.sort));
  if (folds(inspection)) lines = fold_repeats(lines, [&](size_t a, size_t b) { return built_alike(inspection, a, b); });
  table.reserve(lines.size());
  for (const TreeLine& line : lines) {
    std::string label(2 * line.depth, ' ');
    label += printable(line.folded.empty() ? line.label : line.folded);
    const std::string times = line.repeats > 1 ? fmt::format("{} x ", line.repeats) : "";
    if (line.item) {
      const size_t index = inspection.shown[*line.item];
      const TensorInfo& tensor = inspection.archive.tensors()[index];
      table.add_row(std::move(label), printable(shown_type(tensor)), times + tensor.shape.to_string(),
                    human_size(line.bytes), Cell(digest_text(inspection, index), Paint::kDim));
    } else {
      table.add_row(Cell(std::move(label), Paint::kCyan), "", Cell(times + counted(line.items, "tensor"), Paint::kDim),
                    Cell(human_size(line.bytes), Paint::kDim), "");
    }
  }
  table.append_to(console.out(), console.output());
}

}  // namespace

void print_inspection(const Inspection& inspection, Console& console) {
  const Description& description = inspection.archive.description();
  print_head(inspection, console);
  print_model(inspection, console);
  print_metadata(inspection, console);
  print_config(description, console);
  if (inspection.shown.empty()) {
    console.out() += description.tensors.empty() ? "\nno tensors\n" : "\nno tensor name matches\n";
    return;
  }
  print_totals(inspection, console);
  console.heading("tensors");
  if (inspection.flat) append_flat(inspection, console);
  else append_tree(inspection, console);
  print_tied(inspection.archive, inspection.tied, console);
}

}  // namespace ballast::cli
