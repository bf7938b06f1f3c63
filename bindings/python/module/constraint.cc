#include "bindings/python/module/constraint.h"

#include "bindings/python/module/native_call.h"
#include "bindings/python/module/tokenizer.h"

namespace ballast::python {

namespace {

// A large schema takes a while. The text belongs to a str that the caller holds.
template <Result<Constraint> (*compile)(std::string_view)>
Constraint compiled(nb::handle text) {
  const std::string_view source = utf8_of(text);
  return without_gil([&] { return compile(source); });
}

bool accepts(const Constraint& constraint, nb::handle text) {
  const std::string_view bytes = utf8_of(text);
  return without_gil([&]() -> Result<bool> { return constraint.accepts(bytes); });
}

}  // namespace

void bind_constraint(nb::module_& module) {
  nb::class_<Constraint>(module, "Constraint")
      .def_static("of_json_object", [] { return without_gil([] { return Constraint::of_json_object(); }); })
      .def_static("of_schema", &compiled<&Constraint::of_schema>, nb::arg("json"))
      .def_static("of_grammar", &compiled<&Constraint::of_grammar>, nb::arg("gbnf"))
      .def_static("of_regex", &compiled<&Constraint::of_regex>, nb::arg("expression"))
      .def("accepts", &accepts, nb::arg("text"));
}

}  // namespace ballast::python
