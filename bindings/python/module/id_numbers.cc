#include "bindings/python/module/id_numbers.h"

namespace ballast::python {

namespace {

#ifdef Py_GIL_DISABLED
constexpr bool kSharesNumbers = false;
#else
constexpr bool kSharesNumbers = true;
#endif

// Of a list that nobody else has seen; takes the reference over.
void set_item(nb::list& list, size_t at, PyObject* item) {
#ifdef Py_LIMITED_API
  PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(at), item);
#else
  PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(at), item);
#endif
}

}  // namespace

// Where the last owner is not an object of Python's, there are no numbers yet.
IdNumbers::~IdNumbers() {
  for (PyObject* const number : known_) Py_XDECREF(number);
}

PyObject* IdNumbers::number(uint32_t id) {
  if (!kSharesNumbers || id >= size_) return PyLong_FromUnsignedLong(id);
  PyObject*& known = known_[id];
  if (known == nullptr) known = PyLong_FromUnsignedLong(id);
  Py_XINCREF(known);
  return known;
}

nb::list IdNumbers::list_of(std::span<const uint32_t> ids) {
  nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(ids.size())));
  if (!list.is_valid()) nb::raise_python_error();
  if (kSharesNumbers && known_.empty()) known_.resize(size_);
  for (size_t i = 0; i < ids.size(); ++i) {
    PyObject* const item = number(ids[i]);
    if (item == nullptr) nb::raise_python_error();
    set_item(list, i, item);
  }
  return list;
}

}  // namespace ballast::python
