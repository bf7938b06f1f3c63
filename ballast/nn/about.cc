#include "ballast/nn/about.h"

#include <cmath>

#include "ballast/base/json.h"

namespace ballast::nn {

namespace {

Status read_input(JsonReader& json, About::Input& input) {
  BALLAST_CHECK(json.enter_object());
  for (std::string key;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    if (key == "divide_by") {
      BALLAST_TRY(const double divisor, json.read_double());
      if (!std::isfinite(divisor) || divisor <= 0) return json.error_here("\"divide_by\" must be a number above 0");
      input.divide_by = divisor;
    } else if (key == "shape") {
      BALLAST_CHECK(json.enter_array());
      for (;;) {
        BALLAST_TRY(const bool another, json.next_element());
        if (!another) break;
        BALLAST_TRY(const uint64_t side, json.read_u64());
        input.shape.push_back(side);
      }
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
}

Status read_classes(JsonReader& json, std::vector<std::string>& classes) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(std::string name, json.read_string());
    classes.push_back(std::move(name));
  }
}

}  // namespace

std::string about_json(const About& about) {
  if (!about.input && about.classes.empty()) return "";
  JsonWriter json;
  json.begin_object();
  if (about.input) {
    json.key("input").begin_object().key("shape").numbers(about.input->shape);
    if (about.input->divide_by) json.key("divide_by").real(*about.input->divide_by);
    json.end_object();
  }
  if (!about.classes.empty()) {
    json.key("classes").begin_array();
    for (const std::string& name : about.classes) json.string(name);
    json.end_array();
  }
  json.end_object();
  return json.take();
}

Result<About> parse_about(std::string_view text) {
  About about;
  if (text.empty() || text == "null") return about;
  JsonReader json(text, "what the model says of itself", 0, JsonReader::Dialect::kPython);
  BALLAST_CHECK(json.enter_object());
  for (std::string key;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    if (key == "input") BALLAST_CHECK(read_input(json, about.input.emplace()));
    else if (key == "classes") BALLAST_CHECK(read_classes(json, about.classes));
    else BALLAST_CHECK(json.skip_value());
  }
  BALLAST_CHECK(json.finish());
  return about;
}

}  // namespace ballast::nn
