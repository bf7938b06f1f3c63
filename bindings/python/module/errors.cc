#include "bindings/python/module/errors.h"

namespace ballast::python {

namespace {

// Never freed: exceptions may be raised while the interpreter shuts down.
PyObject* format_error = nullptr;
PyObject* cancelled_error = nullptr;

PyObject* type_of(ErrorCode code, Missing missing) {
  switch (code) {
    case ErrorCode::kNotFound: return missing == Missing::kName ? PyExc_KeyError : PyExc_FileNotFoundError;
    case ErrorCode::kUnknownFormat:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
    case ErrorCode::kLossy: return format_error;
    case ErrorCode::kInvalidArgument: return PyExc_ValueError;
    case ErrorCode::kExists: return PyExc_FileExistsError;
    case ErrorCode::kIo: return PyExc_OSError;
    case ErrorCode::kOutOfMemory: return PyExc_MemoryError;
    case ErrorCode::kCancelled: return cancelled_error;
  }
  return PyExc_RuntimeError;
}

// Messages may hold names out of damaged files, which need not be UTF-8.
nb::object message_text(const std::string& message) {
  return nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
}

[[noreturn]] void raise_as(PyObject* type, const std::string& message, std::string_view code) {
  nb::object exception = nb::handle(type)(message_text(message));
  exception.attr("code") = nb::str(code.data(), code.size());
  PyErr_SetObject(type, exception.ptr());
  throw nb::python_error();
}

PyObject* make_exception(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string qualified = std::string("ballast.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::handle(type);
  return type;
}

}  // namespace

void raise_error(const Error& error, Missing missing) {
  // Work that a signal ended: its handler decides what is raised.
  if (error.code == ErrorCode::kCancelled && PyErr_CheckSignals() != 0) throw nb::python_error();
  raise_as(type_of(error.code, missing), error.message, error_code_name(error.code));
}

void raise_closed(const std::string& what) { raise_as(PyExc_ValueError, what + " is closed", "closed"); }

void bind_errors(nb::module_& module) {
  format_error = make_exception(module, "FormatError",
                                "A file is damaged, of no known format, or holds what cannot be read or written.\n\n"
                                "``code`` is \"corrupt\", \"unknown_format\", \"unsupported\" or \"lossy\".",
                                PyExc_ValueError);
  cancelled_error = make_exception(
      module, "CancelledError", "Work ended early because its progress callback returned False.", PyExc_RuntimeError);
}

}  // namespace ballast::python
