#include "ballast/formats/gptrs/gptrs_config.h"

#include "ballast/base/json.h"

namespace ballast {

namespace {

constexpr std::string_view kOriginName = "ballast.origin";
constexpr std::string_view kOriginKeyText = "\"ballast.origin\":";

// One pass over the top level of the object.
struct Survey {
  size_t keys = 0;
  bool kind_is_string = false;
  bool kind_is_other = false;
  // The last key, when it is the origin's: its text from the opening quote of the key to the end of the value.
  std::optional<std::string_view> origin_member;
  size_t closing_brace = 0;
};

Result<Survey> survey_config(std::string_view text, const std::string& where, uint64_t base_offset) {
  Survey survey;
  JsonReader json(text, where, base_offset);
  const auto position = [&] { return static_cast<size_t>(json.offset() - base_offset); };
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    ++survey.keys;
    const size_t value_begin = position();
    BALLAST_TRY(const JsonType type, json.peek());
    BALLAST_CHECK(json.skip_value());
    survey.origin_member.reset();
    if (key == "kind") {  // of two, the last counts, as for gpt.rs
      survey.kind_is_string = type == JsonType::kString;
      survey.kind_is_other = !survey.kind_is_string;
    } else if (key == kOriginName && value_begin >= kOriginKeyText.size()) {
      const size_t begin = value_begin - kOriginKeyText.size();
      survey.origin_member = text.substr(begin, position() - begin);
    }
  }
  survey.closing_brace = position() - 1;
  BALLAST_CHECK(json.finish());
  if (survey.kind_is_other) return json.error_here("\"kind\" is not a string");
  return survey;
}

std::string origin_member_text(std::string_view origin, size_t size_hint) {
  std::string member;
  member.reserve(size_hint);
  member += kOriginKeyText;
  append_json_string(member, origin);
  return member;
}

// The origin's value, only when the member is spelled and placed exactly as splice_gptrs_origin does: otherwise taking
// it out would not give the original text back.
std::optional<std::string> spliced_origin(std::string_view text, const Survey& survey) {
  if (!survey.origin_member) return std::nullopt;
  const std::string_view member = *survey.origin_member;
  const size_t begin = static_cast<size_t>(member.data() - text.data());
  const bool in_place = begin + member.size() == survey.closing_brace && (survey.keys == 1 || text[begin - 1] == ',');
  if (!in_place || !member.starts_with(kOriginKeyText)) return std::nullopt;
  JsonReader value(member.substr(kOriginKeyText.size()), "ballast.origin");
  auto origin = value.read_string();
  // The shortest spelling is ours, so that no other one is shorter than the member.
  if (!origin || origin_member_text(*origin, member.size()) != member) return std::nullopt;
  return std::move(*origin);
}

}  // namespace

Result<GptrsConfig> parse_gptrs_config(std::string stored, const std::string& where, uint64_t base_offset) {
  BALLAST_TRY(const Survey survey, survey_config(stored, where, base_offset));
  GptrsConfig config;
  config.tagged = survey.kind_is_string;
  config.origin = spliced_origin(stored, survey);
  if (config.origin) {
    const size_t comma = survey.keys > 1 ? 1 : 0;
    const size_t length = survey.origin_member->size() + comma;
    stored.erase(survey.closing_brace - length, length);
  }
  config.text = std::move(stored);
  return config;
}

std::string splice_gptrs_origin(std::string text, std::string_view origin) {
  const size_t brace = text.find_last_of('}');
  const bool empty = text.find_last_not_of(" \t\r\n", brace - 1) == text.find_first_of('{');
  text.insert(brace, (empty ? "" : ",") + origin_member_text(origin, kOriginKeyText.size() + origin.size() + 2));
  return text;
}

}  // namespace ballast
