// Archives and their tensors as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/archive.h"

namespace ballast::python {

namespace nb = nanobind;

// An archive that Python can close. What is in use when it closes (arrays, a running conversion) keeps the file; what
// is asked for afterwards is a ValueError.
class ArchiveHandle {
 public:
  ArchiveHandle(Archive archive, std::string name, bool writable);

  // The archive, or ValueError once closed. Any thread.
  std::shared_ptr<const Archive> get() const;
  bool closed() const;
  void close();

  // What errors and repr call it.
  const std::string& name() const { return name_; }
  // Whether views may be written to: changes stay in this process.
  bool writable() const { return writable_; }

  // The whole of one of the archive's sources, which arrays are views of; None where it cannot be viewed. With the GIL.
  nb::object source_buffer(const std::shared_ptr<const Archive>& archive, size_t source);

 private:
  // Held for a moment only, and never while a Python object is made or destroyed: that may have to wait until all other
  // threads pause, and one that waits for this lock does not.
  mutable std::mutex mutex_;
  std::shared_ptr<const Archive> archive_;
  std::vector<nb::object> buffers_;  // one per source, made when first asked for
  std::string name_;
  bool writable_;
};

// One tensor of it. Nothing is read before it is asked for.
struct LazyTensor {
  std::shared_ptr<ArchiveHandle> file;
  size_t index = 0;
};

// Names out of files need not be UTF-8: bytes that are not become surrogates, and come back as they were.
nb::str to_python_text(std::string_view text);
std::string from_python_text(nb::handle text);

// Where the tensors of these names are; of all where they are None. KeyError names the first that is not there, and
// what it may be meant to be.
std::vector<size_t> chosen_tensors(const ArchiveHandle& self, nb::handle names);

// All of it as an array: a view of the file where that can be had and `copy` is false. Block types are bytes here.
nb::object tensor_array(const LazyTensor& tensor, bool copy);
// The same of many, by their names, without copies where that can be: the system is asked once for each file.
nb::dict tensor_arrays(const std::shared_ptr<ArchiveHandle>& file, std::span<const size_t> indices);

void bind_archives(nb::module_& module);

}  // namespace ballast::python
