// JSON Schema as a grammar.
#pragma once

#include <memory>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

class Grammar;  // text/constraint/grammar.h

// Every text of the grammar is JSON that the schema accepts; where a schema leaves more open than a grammar can say
// (properties that it does not name, say), the grammar has less. Keywords that cannot be enforced are kUnsupported,
// with a JSON pointer to the place.
Result<std::shared_ptr<const Grammar>> compile_json_schema(std::string_view schema);

}  // namespace ballast
