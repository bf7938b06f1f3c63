// Schemas at random, of everything that they may contain.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

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

  // Schemas that apply together: allOf, $ref, anyOf and oneOf beside keywords and in each other. Some contradict
  // themselves.
  std::string make_combined() {
    return with(together(kinds_[below(4)], 0), R"("$defs":{"number":)" + plain("number") + R"(,"text":)" +
                                                   plain("text") + R"(,"list":)" + plain("list") + R"(,"object":)" +
                                                   plain("object") + "}");
  }

 private:
  static constexpr std::string_view kinds_[] = {"number", "text", "list", "object"};

  static std::string with(std::string schema, const std::string& members) {
    schema.pop_back();  // }
    return schema + (schema.size() == 1 ? "" : ",") + members + "}";
  }

  // Keywords of one kind of values that say little enough to have values in common.
  std::string plain(std::string_view kind) {
    const std::string few = std::to_string(below(4)), more = std::to_string(3 + below(5));
    if (kind == "number") {
      return one_of(R"({"type":"integer"})", R"({"minimum":)" + few + "}", R"({"maximum":)" + more + "}",
                    R"({"type":"number","exclusiveMinimum":)" + few + "}", R"({"exclusiveMaximum":)" + more + "}",
                    R"({"type":["integer","string"],"minimum":)" + few + R"(,"maxLength":)" + more + "}",
                    R"({"enum":[1,2,3,4,5,6,"x",null]})", R"({"enum":[3,4,5,2.5],"maximum":4})",
                    R"({"type":"integer","nullable":true})", R"({"description":"a number"})");
    }
    if (kind == "text") {
      return one_of(R"({"type":"string"})", R"({"minLength":)" + few + "}", R"({"maxLength":)" + more + "}",
                    R"({"type":"string","minLength":)" + few + R"(,"maxLength":)" + more + "}",
                    R"({"enum":["red","green","grün","",7]})", R"({"type":["string","null"]})",
                    R"({"type":"string","pattern":"^[a-z]{2,5}(-[0-9]+)?$"})", R"({"title":"a text"})",
                    R"({"type":"string","nullable":true,"enum":["red","blue",null]})", R"({"const":"red"})");
    }
    if (kind == "list") {
      return one_of(R"({"type":"array"})", R"({"items":)" + plain("number") + R"(,"maxItems":)" + few + "}",
                    R"({"type":"array","items":)" + plain("number") + "}",
                    R"({"type":"array","maxItems":)" + more + R"(,"minItems":)" + few + "}",
                    R"({"prefixItems":[)" + plain("text") + "," + plain("number") + "]}",
                    R"({"prefixItems":[)" + plain("text") + R"(],"items":)" + plain("number") + "}");
    }
    const std::string name = one_of("a", "b", "c");
    return one_of(R"({"type":"object","properties":{"k":{"type":"string"},"a":)" + plain("number") + "}}",
                  R"({"properties":{"k":{"enum":["x","y"]},"b":)" + plain("text") + R"(},"required":["k"]})",
                  R"({"type":"object","properties":{"a":)" + plain("number") + R"(,"c":)" + plain("number") +
                      R"(},"additionalProperties":)" + one_of("false", "true", plain("text")) + "}",
                  R"({"type":"object","required":[")" + name + R"("]})",
                  R"({"type":"object","additionalProperties":)" + plain(one_of("number", "text")) + "}");
  }

  std::string piece(std::string_view kind, int depth) {
    switch (depth >= 3 ? 0 : below(7)) {
      case 0:
      case 1: return plain(kind);
      case 2: return R"({"$ref":"#/$defs/)" + std::string(kind) + "\"}";
      case 3: return one_of("true", R"({"description":"d"})");
      case 4: return nested(kind, depth + 1);
      default: return together(kind, depth + 1);
    }
  }

  // The same inside values.
  std::string nested(std::string_view kind, int depth) {
    if (kind == "list") {
      return R"({"type":"array","items":)" + together("number", depth) + R"(,"prefixItems":[)" +
             together(kinds_[below(4)], depth) + "]}";
    }
    if (kind != "object") return together(kind, depth);
    return R"({"type":"object","properties":{"k":)" + together("text", depth) + R"(,"a":)" + together("number", depth) +
           R"(,"c":)" + together(kinds_[below(4)], depth) + R"(},"required":[")" + one_of("k", "a") + R"("]})";
  }

  // Two that no value satisfies at once.
  std::string exclusive(std::string_view kind) {
    if (kind == "number") return R"({"type":"integer","maximum":2},{"type":"integer","minimum":3})";
    if (kind == "text") return R"({"enum":["red","green"]},{"type":"string","minLength":6})";
    if (kind == "list") return R"({"type":"array","maxItems":1},{"type":"array","minItems":2})";
    return R"({"type":"object","properties":{"k":{"const":"x"}},"required":["k"]},)"
           R"({"type":"object","properties":{"k":{"const":"y"},"b":{"const":"red"}},"required":["k"]})";
  }

  std::string together(std::string_view kind, int depth) {
    const std::string both = piece(kind, depth) + "," + piece(kind, depth);
    switch (below(7)) {
      case 0: return R"({"allOf":[)" + both + "]}";
      case 1: return with(plain(kind), R"("allOf":[)" + both + "]");
      case 2: return with(plain(kind), R"("anyOf":[)" + both + "]");
      case 3: return with(plain(kind), R"("oneOf":[)" + exclusive(kind) + "]");
      case 4: return with(plain(kind), R"("$ref":"#/$defs/)" + std::string(kind) + "\"");
      case 5: return R"({"allOf":[)" + both + R"(],"anyOf":[)" + piece(kind, depth) + R"(,{"type":"null"}]})";
      default: return R"({"allOf":[{"$ref":"#/$defs/)" + std::string(kind) + R"("},)" + both + "]}";
    }
  }

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
