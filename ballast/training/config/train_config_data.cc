// [data] and [eval.data]
#include <fmt/format.h>

#include "ballast/training/config/train_config_sections.h"

namespace ballast::train_config {

namespace {

Status read_arrays(ConfigSection& section, DataSpec& data) {
  BALLAST_TRY(data.target, section.choice("target", data.target, {"auto", "classes", "one_hot", "values"}));
  BALLAST_TRY(data.classes, section.count("classes", data.classes, 0, kMostSide));
  if (!section.has("shape")) return {};
  BALLAST_TRY(const std::vector<uint64_t> dims, section.counts("shape", 1));
  if (dims.empty()) return section.error("shape", "is empty; it must be the dimensions of one example");
  data.shape = Shape(dims);
  if (data.shape->element_count()) return {};
  return section.error("shape", fmt::format("{} has too many elements", data.shape->to_string()));
}

Status read_table(ConfigSection& section, DataSpec& data) {
  BALLAST_TRY(data.text, section.text("text", ""));
  if (data.kind == "csv") {
    BALLAST_TRY(data.delimiter, section.text("delimiter", data.delimiter));
    BALLAST_TRY(data.header, section.truth("header", data.header));
    if (data.delimiter.size() != 1 || data.delimiter == "\"" || data.delimiter == "\n")
      return section.error("delimiter", "must be one character, such as \",\" or \";\" or \"\\t\"");
  }
  data.y.clear();
  if (!data.text.empty()) {
    for (const std::string_view key : {"x", "y", "target", "classes", "divide_by", "drop_last"})
      section.foreign(key, "columns of numbers, and this learns the text of a column");
    return {};
  }
  BALLAST_TRY(data.columns, section.texts("x"));
  BALLAST_TRY(data.y, section.text("y", ""));
  BALLAST_TRY(data.target, section.choice("target", data.target, {"auto", "classes", "values"}));
  BALLAST_TRY(data.classes, section.count("classes", data.classes, 0, kMostSide));
  return {};
}

Status read_data_kind(ConfigSection& section, DataSpec& data) {
  if (data.kind == "npz") {
    BALLAST_TRY(data.x, section.text("x", data.x));
    BALLAST_TRY(data.y, section.text("y", data.y));
  }
  if (data.kind == "idx") {
    BALLAST_TRY(data.labels, section.path("labels"));
  }
  if (data.kind == "npz" || data.kind == "idx") BALLAST_CHECK(read_arrays(section, data));
  if (data.kind == "images") {
    BALLAST_TRY(data.size, section.count("size", data.size, 1, 4096));
    BALLAST_TRY(data.channels, section.count("channels", data.channels, 1, 3));
    if (data.channels == 2) return section.error("channels", "is 2; it must be 1 (grey) or 3 (colours)");
    data.divide_by = 255;
  }
  if (data.is_table()) BALLAST_CHECK(read_table(section, data));
  if (!data.is_text()) {
    for (const std::string_view key : {"tokenizer", "separator"}) {
      if (data.is_table()) section.foreign(key, "text, the column to learn to write");
    }
    BALLAST_TRY(data.divide_by, section.real("divide_by", data.divide_by, kPositive));
    BALLAST_TRY(data.drop_last, section.truth("drop_last", data.drop_last));
    return {};
  }
  BALLAST_TRY(const std::string word, section.text("tokenizer", "bytes"));
  BALLAST_TRY(data.tokenizer, section.path("tokenizer"));
  if (word == "bytes") data.tokenizer = word;
  BALLAST_TRY(data.separator, section.text("separator", ""));
  return {};
}

}  // namespace

Status read_data(ConfigSection& section, DataSpec& data, bool for_training) {
  BALLAST_TRY(data.kind, section.choice("kind", "", {"npz", "idx", "csv", "jsonl", "images", "text"}));
  BALLAST_TRY(data.paths, section.paths("path"));
  if (data.paths.empty()) return section.error("path", "is missing; it says where the data is");
  if (data.paths.size() > 1 && data.kind != "text")
    return section.error("path", fmt::format("holds {} paths; only text takes several", data.paths.size()));
  declare_foreign(section, "kind", data.kind,
                  {{"x", {"npz", "csv", "jsonl"}},
                   {"y", {"npz", "csv", "jsonl"}},
                   {"labels", {"idx"}},
                   {"text", {"csv", "jsonl"}},
                   {"delimiter", {"csv"}},
                   {"header", {"csv"}},
                   {"target", {"npz", "idx", "csv", "jsonl"}},
                   {"classes", {"npz", "idx", "csv", "jsonl"}},
                   {"shape", {"npz", "idx"}},
                   {"divide_by", {"npz", "idx", "images", "csv", "jsonl"}},
                   {"size", {"images"}},
                   {"channels", {"images"}},
                   {"tokenizer", {"text", "csv", "jsonl"}},
                   {"separator", {"text", "csv", "jsonl"}},
                   {"drop_last", {"npz", "idx", "images", "csv", "jsonl"}}});
  section.also_called("type", "kind");
  section.also_called("file", "path");
  section.also_called("files", "path");
  section.also_called("paths", "path");
  section.also_called("image_size", "size");
  section.also_called("scale", "divide_by");
  section.also_called("validation", "held_out");
  BALLAST_CHECK(read_data_kind(section, data));
  if (for_training) {
    BALLAST_TRY(data.held_out, section.real("held_out", data.held_out, kPart));
    BALLAST_TRY(data.shuffle, section.truth("shuffle", data.shuffle));
  } else {
    data.shuffle = false;
    section.foreign("held_out", "[data]");
    section.foreign("shuffle", "[data]");
  }
  return section.finish();
}

}  // namespace ballast::train_config
