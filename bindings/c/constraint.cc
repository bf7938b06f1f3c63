#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

using Compile = Result<Constraint> (*)(std::string_view);

ballast_error* compile_constraint(Compile compile, const char* text, size_t size, const char* what,
                                  ballast_constraint** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const std::string_view given, given_text(text, size, what));
    BALLAST_TRY(Constraint constraint, compile(given));
    *out = hand_out<ballast_constraint>(std::make_shared<Constraint>(std::move(constraint)));
    return {};
  });
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_constraint_of_json_object(ballast_constraint** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(Constraint constraint, Constraint::of_json_object());
    *out = hand_out<ballast_constraint>(std::make_shared<Constraint>(std::move(constraint)));
    return {};
  });
}
ballast_error* ballast_constraint_of_schema(const char* json, size_t size, ballast_constraint** out) {
  return compile_constraint(&Constraint::of_schema, json, size, "the schema", out);
}
ballast_error* ballast_constraint_of_grammar(const char* gbnf, size_t size, ballast_constraint** out) {
  return compile_constraint(&Constraint::of_grammar, gbnf, size, "the grammar", out);
}
ballast_error* ballast_constraint_of_regex(const char* expression, size_t size, ballast_constraint** out) {
  return compile_constraint(&Constraint::of_regex, expression, size, "the regular expression", out);
}
bool ballast_constraint_accepts(const ballast_constraint* constraint, const char* text, size_t size) {
  return ask(constraint, false, [&](const Constraint& object) {
    const auto given = given_text(text, size, "the text");
    return given && object.accepts(*given);
  });
}
void ballast_constraint_close(ballast_constraint* constraint) { drop(constraint); }

}  // extern "C"
