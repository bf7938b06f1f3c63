#include "apps/ballast/flags/constraint_flags.h"

#include <fmt/format.h>

#include "ballast/io/file.h"

namespace ballast::cli {

namespace {

constexpr uint64_t kLargestConstraintFile = uint64_t{1} << 20U;

Result<std::string> read_constraint_file(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
  if (source->size() > kLargestConstraintFile) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: {} bytes are too many for a schema or a grammar", path, source->size()));
  }
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  return std::string(as_text(bytes));
}

// Errors of a file say which.
Result<std::optional<Constraint>> constraint_of_file(const std::string& path,
                                                     Result<Constraint> (*compile)(std::string_view)) {
  BALLAST_TRY(const std::string text, read_constraint_file(path));
  auto constraint = compile(text);
  if (!constraint) return std::move(constraint).error().with_context(path);
  return std::optional(std::move(*constraint));
}

}  // namespace

void add_constraint_flags(Command& command, ConstraintFlags& flags) {
  const Flag object = command.flag("--json-object", flags.json_object, "Write a JSON object");
  const Flag schema = command.text("--json-schema", "FILE", flags.schema, "Write JSON that this JSON Schema accepts");
  const Flag grammar = command.text("--grammar", "FILE", flags.grammar, "Write what this grammar (GBNF) matches");
  Flag regex = command.text("--regex", "REGEX", flags.regex, "Write what this regular expression matches");
  Flag(schema).excludes(object);
  Flag(grammar).excludes(object).excludes(schema);
  regex.excludes(object).excludes(schema).excludes(grammar);
}

Result<std::optional<Constraint>> read_constraint(const ConstraintFlags& flags) {
  if (!flags.schema.empty()) return constraint_of_file(flags.schema, &Constraint::of_schema);
  if (!flags.grammar.empty()) return constraint_of_file(flags.grammar, &Constraint::of_grammar);
  if (!flags.json_object && flags.regex.empty()) return std::optional<Constraint>();
  BALLAST_TRY(Constraint constraint,
              flags.json_object ? Constraint::of_json_object() : Constraint::of_regex(flags.regex));
  return std::optional(std::move(constraint));
}

}  // namespace ballast::cli
