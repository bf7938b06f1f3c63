// Schemas at random, of everything that they may contain.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace ballast::testing {

class RandomSchema {
 public:
  explicit RandomSchema(unsigned seed) : random_(seed) {}

  std::string make() {
    std::string schema = value(0);
    schema.pop_back();  // }
    schema += std::string(schema.size() == 1 ? "" : ",") + R"("$defs":{"leaf":)" + scalar() +
              R"(,"list":{"type":"object","properties":{"v":)" + scalar() +
              R"(,"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/list"}]}},"required":["v"]}}})";
    return schema;
  }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  template <typename... Texts>
  std::string one_of(const Texts&... texts) {
    const std::string all[] = {std::string(texts)...};
    return all[below(sizeof...(texts))];
  }

  std::string integer() {
    const int least = static_cast<int>(below(4000)) - 2000;
    const std::string low = std::to_string(least), high = std::to_string(least + static_cast<int>(below(300)) + 2);
    return one_of(R"({"type":"integer"})", R"({"type":"integer","minimum":)" + low + "}",
                  R"({"type":"integer","exclusiveMaximum":)" + high + "}",
                  R"({"type":"integer","minimum":)" + low + R"(,"maximum":)" + high + "}",
                  R"({"type":"integer","exclusiveMinimum":)" + low + R"(,"exclusiveMaximum":)" + high + "}",
                  R"({"type":"number","minimum":)" + low + R"(,"exclusiveMaximum":)" + high + "}",
                  R"({"type":"number","exclusiveMinimum":)" + low + "}");
  }
  std::string text() {
    const std::string few = std::to_string(below(4)), more = std::to_string(4 + below(120));
    return one_of(R"({"type":"string"})", R"({"type":"string","minLength":)" + few + R"(,"maxLength":)" + more + "}",
                  R"({"type":"string","maxLength":)" + few + "}", R"({"type":"string","minLength":)" + few + "}",
                  R"({"type":"string","pattern":"^[a-z]{2,5}(-[0-9]+)?$"})",
                  R"({"type":"string","format":"date-time"})", R"({"type":"string","format":"uuid"})",
                  R"({"type":"string","format":"ipv4"})", R"({"type":"string","format":"email"})",
                  R"({"enum":["red","green","\"","grün"]})");
  }
  std::string scalar() {
    return one_of(integer(), text(), R"({"type":"number"})", R"({"type":"boolean"})", R"({"type":"null"})",
                  R"({"const":{"a":[1,2]}})", R"({"type":["integer","null","string"]})",
                  R"({"enum":[1,"1",null,true,[]]})");
  }
  std::string object(int depth) {
    const uint32_t count = below(5);
    std::string properties, required;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string name = one_of("name", "id", "a\\\"b", "é", "x y") + std::to_string(i);
      properties += (i == 0 ? "" : ",") + ("\"" + name + "\":") + value(depth + 1);
      if (below(2) == 0) required += (required.empty() ? "\"" : ",\"") + name + "\"";
    }
    return R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required +
           R"(],"additionalProperties":false})";
  }
  std::string array(int depth) {
    const uint32_t least = below(3);
    const std::string bounds =
        R"(,"minItems":)" + std::to_string(least) + R"(,"maxItems":)" + std::to_string(least + below(4));
    return one_of(
        R"({"type":"array","items":)" + value(depth + 1) + bounds + "}", R"({"type":"array","items":)" + scalar() + "}",
        R"({"type":"array","prefixItems":[)" + scalar() + "," + scalar() + R"(],"items":)" + scalar() + bounds + "}",
        R"({"type":"array","prefixItems":[)" + scalar() + "," + scalar() + "]}");
  }
  std::string value(int depth) {
    if (depth >= 4) return scalar();
    switch (below(9)) {
      case 0:
      case 1:
      case 2: return object(depth);
      case 3:
      case 4: return array(depth);
      case 5: return R"({"anyOf":[)" + value(depth + 1) + "," + value(depth + 1) + "]}";
      case 6: return R"({"$ref":"#/$defs/)" + one_of("leaf", "list") + "\"}";
      case 7: return R"({"type":"object","additionalProperties":)" + scalar() + "}";
      default: return scalar();
    }
  }

  std::mt19937 random_;
};

}  // namespace ballast::testing
