// The extension ballast._core: one file per subject, each with its own bind_ function.
#include <nanobind/nanobind.h>

#include "ballast/base/version.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/checkpoints.h"
#include "bindings/python/module/constraint.h"
#include "bindings/python/module/conversion.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/native_call.h"
#include "bindings/python/module/open_model.h"
#include "bindings/python/module/saving.h"
#include "bindings/python/module/tensors.h"
#include "bindings/python/module/tokenizer.h"
#include "bindings/python/module/tools.h"
#include "bindings/python/module/train.h"

NB_MODULE(_core, module) {
  using namespace ballast::python;
  nb::set_leak_warnings(false);  // arrays and threads that live until the interpreter ends are no fault
  module.attr("__doc__") = "The compiled part of ballast. Import ballast instead.";
  module.attr("__version__") = nb::str(ballast::version().data(), ballast::version().size());
  bind_errors(module);
  bind_arrays(module);
  bind_archives(module);
  bind_tensors(module);
  bind_saving(module);
  bind_tools(module);
  bind_conversion(module);
  bind_native_calls(module);
  bind_tokenizer(module);
  bind_constraint(module);
  bind_generation(module);
  bind_models(module);
  bind_train(module);
  bind_checkpoints(module);
}
