#include "apps/ballast/output/tied_output.h"

#include <fmt/format.h>

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/human_size.h"

namespace ballast::cli {

void print_tied(const Archive& archive, std::span<const TiedGroup> groups, Console& console) {
  if (groups.empty()) return;
  console.heading("tied: the same values under several names");
  for (const TiedGroup& group : groups) {
    std::vector<std::string> names;
    for (const size_t i : group.tensors) names.push_back(printable(archive.tensors()[i].name));
    const uint64_t bytes = archive.tensors()[group.tensors.front()].byte_size;
    console.out() += fmt::format("  {}  ", fmt::join(names, " = "));
    append_painted(console.out(), console.output(), Paint::kDim,
                   group.same_extent ? std::string("stored once")
                                     : fmt::format("stored {} times, {} each", names.size(), human_size(bytes)));
    console.out() += '\n';
  }
}

void add_tied(JsonWriter& json, const Archive& archive, std::span<const TiedGroup> groups) {
  json.key("tied").begin_array();
  for (const TiedGroup& group : groups) {
    json.begin_object().key("names").begin_array();
    for (const size_t i : group.tensors) json.string(json_text(archive.tensors()[i].name));
    json.end_array();
    add_boolean(json, "stored_once", group.same_extent);
    json.end_object();
  }
  json.end_array();
}

}  // namespace ballast::cli
