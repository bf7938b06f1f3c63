#include "bindings/python/module/archives.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "ballast/archive/open.h"
#include "ballast/archive/slice.h"
#include "ballast/archive/tied.h"
#include "ballast/io/thread_pool.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/fresh_array.h"
#include "bindings/python/module/metadata.h"
#include "bindings/python/module/native_call.h"
#include "bindings/python/module/progress.h"
#include "bindings/python/module/python_source.h"

namespace ballast::python {

namespace {

using Handle = std::shared_ptr<ArchiveHandle>;

// ---------------------------------------------------------------- opening

FileAccess access_of(const std::string& mode) {
  if (mode == "r") return FileAccess::kMapped;
  if (mode == "c") return FileAccess::kCopyOnWrite;
  if (mode == "read") return FileAccess::kPositional;
  const std::string text = "mode must be \"r\", \"c\" or \"read\", not \"" + mode + "\"";
  throw nb::value_error(text.c_str());
}

Handle open_path(const std::string& path, const std::string& mode) {
  const FileAccess access = access_of(mode);
  auto archive = [&] {
    const GilReleased released;
    return open_archive(path, {.access = access});
  }();
  return std::make_shared<ArchiveHandle>(unwrap(std::move(archive)), path, access == FileAccess::kCopyOnWrite);
}

Handle open_source(std::shared_ptr<const ByteSource> source, const std::string& name) {
  OpenRequest request{.source = std::move(source), .file_name = name};
  auto archive = [&]() -> Result<Archive> {
    const GilReleased released;
    auto opened = open_archive(request);
    if (!opened && opened.error().code == ErrorCode::kUnknownFormat) {
      return explain_unreadable(request, std::move(opened).error());
    }
    return opened;
  }();
  return std::make_shared<ArchiveHandle>(unwrap(std::move(archive)), name, false);
}

// ---------------------------------------------------------------- the mapping

size_t find_index(const ArchiveHandle& self, nb::handle name) {
  const auto archive = self.get();
  const std::string wanted = from_python_text(name);
  const auto index = archive->find(wanted);
  if (!index) raise_error(no_such_tensor(*archive, wanted), Missing::kName);
  return *index;
}

nb::list names_of(const ArchiveHandle& self) {
  nb::list names;
  for (const TensorInfo& tensor : self.get()->tensors()) names.append(to_python_text(tensor.name));
  return names;
}

// A view of collections.abc, which does all that views of dictionaries do.
nb::object mapping_view(const char* kind, nb::handle self) {
  return nb::module_::import_("collections.abc").attr(kind)(self);
}

nb::object config_of(const ArchiveHandle& self) {
  const auto archive = self.get();
  const auto& config = archive->description().config;
  if (!config) return nb::none();
  return nb::module_::import_("json").attr("loads")(to_python_text(config->text));
}

std::string describe_archive(const ArchiveHandle& self) {
  if (self.closed()) return "<ballast.Archive " + self.name() + ", closed>";
  const auto archive = self.get();
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : archive->tensors()) bytes += tensor.byte_size;
  return "<ballast.Archive " + self.name() + ": " + archive->description().format + ", " +
         std::to_string(archive->tensors().size()) + " tensors, " + std::to_string(bytes) + " bytes>";
}

}  // namespace

// ---------------------------------------------------------------- many tensors at once

std::vector<size_t> chosen_tensors(const ArchiveHandle& self, nb::handle names) {
  std::vector<size_t> indices;
  if (names.is_none()) {
    indices.resize(self.get()->tensors().size());
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
    return indices;
  }
  for (nb::handle name : names) indices.push_back(find_index(self, name));
  return indices;
}

namespace {

// Pieces of about this size, so that one large tensor is read by every thread.
constexpr uint64_t kPiece = uint64_t{8} << 20;
struct Piece {
  size_t index;
  uint64_t offset;
  MutableByteSpan out;
};

Status read_pieces(const Archive& archive, const std::vector<Piece>& pieces, unsigned threads,
                   const Progress& progress) {
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.out.size();
  uint64_t done = 0;
  // In rounds, so that Ctrl-C is heard between them.
  constexpr uint64_t kRound = uint64_t{256} << 20;
  ThreadPool pool(total < kPiece ? 1 : threads);
  for (size_t begin = 0; begin < pieces.size();) {
    size_t end = begin;
    uint64_t bytes = 0;
    while (end < pieces.size() && bytes < kRound) bytes += pieces[end++].out.size();
    std::vector<Status> results(end - begin);
    pool.for_ranges(end - begin, 1, [&](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        const Piece& piece = pieces[begin + i];
        const bool whole = piece.out.size() == archive.tensors()[piece.index].byte_size;
        results[i] = whole ? archive.read_into(piece.index, piece.out)
                           : archive.read_range(piece.index, piece.offset, piece.out);
      }
    });
    for (Status& result : results) BALLAST_CHECK(std::move(result));
    done += bytes;
    begin = end;
    BALLAST_CHECK(report_progress(progress, {"reading", done, total}));
  }
  return {};
}

nb::dict copied_arrays(const ArchiveHandle& self, const std::vector<size_t>& indices, unsigned threads,
                       nb::object progress) {
  const auto archive = self.get();
  nb::dict arrays;
  std::vector<Piece> pieces;
  for (const size_t index : indices) {
    const TensorInfo& info = archive->tensors()[index];
    const bool has_type = find_array_type(info.dtype) != nullptr;
    FreshArray fresh(has_type ? info.dtype : DType::kU8, stored_shape(info.dtype, info.shape, info.byte_size));
    // Only what can be read in part is cut, and what has a checksum is read as a whole.
    const StoredExtent& extent = archive->extent(index);
    const bool cut = extent.is_canonical() && !extent.crc32;
    const uint64_t step = cut ? kPiece : std::max<uint64_t>(info.byte_size, 1);
    for (uint64_t at = 0; at < info.byte_size; at += step) {
      const uint64_t length = std::min(step, info.byte_size - at);
      pieces.push_back({index, at, fresh.bytes().subspan(static_cast<size_t>(at), static_cast<size_t>(length))});
    }
    arrays[to_python_text(info.name)] = fresh.take();
  }
  run_long(std::move(progress), [&](Watch& watch) { return read_pieces(*archive, pieces, threads, watch.progress()); });
  return arrays;
}

nb::dict all_arrays(const Handle& self, nb::object names, bool copy, unsigned threads, nb::object progress) {
  const std::vector<size_t> indices = chosen_tensors(*self, names);
  return copy ? copied_arrays(*self, indices, threads, std::move(progress)) : tensor_arrays(self, indices);
}

nb::list tied_names(const ArchiveHandle& self) {
  const auto archive = self.get();
  nb::list groups;
  for (const TiedGroup& group : tied_by_extent(*archive)) {
    nb::list names;
    for (const size_t index : group.tensors) names.append(to_python_text(archive->tensors()[index].name));
    groups.append(nb::object(names));
  }
  return groups;
}

}  // namespace

// ---------------------------------------------------------------- texts

nb::str to_python_text(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (made == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

std::string from_python_text(nb::handle text) {
  if (!PyUnicode_Check(text.ptr())) {
    const std::string message = std::string("expected str, not ") + nb::str(text.type()).c_str();
    throw nb::type_error(message.c_str());
  }
  Py_ssize_t size = 0;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size))
    return std::string(utf8, static_cast<size_t>(size));
  PyErr_Clear();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!bytes.is_valid()) throw nb::python_error();
  const auto encoded = nb::cast<nb::bytes>(bytes);
  return std::string(encoded.c_str(), encoded.size());
}

// ---------------------------------------------------------------- the handle

ArchiveHandle::ArchiveHandle(Archive archive, std::string name, bool writable)
    : archive_(std::make_shared<const Archive>(std::move(archive))),
      buffers_(archive_->sources().size()),
      name_(std::move(name)),
      writable_(writable) {}

std::shared_ptr<const Archive> ArchiveHandle::get() const {
  std::shared_ptr<const Archive> archive;
  {
    const std::lock_guard<std::mutex> one_at_a_time(mutex_);
    archive = archive_;
  }
  if (archive == nullptr) raise_closed(name_);
  return archive;
}

bool ArchiveHandle::closed() const {
  const std::lock_guard<std::mutex> one_at_a_time(mutex_);
  return archive_ == nullptr;
}

void ArchiveHandle::close() {
  std::vector<nb::object> buffers;
  std::shared_ptr<const Archive> archive;
  {
    const std::lock_guard<std::mutex> one_at_a_time(mutex_);
    buffers.swap(buffers_);
    archive.swap(archive_);
  }
  // What they hold is released here, without the lock.
}

nb::object ArchiveHandle::source_buffer(const std::shared_ptr<const Archive>& archive, size_t source) {
  {
    const std::lock_guard<std::mutex> one_at_a_time(mutex_);
    if (source < buffers_.size() && buffers_[source].is_valid()) return buffers_[source];
  }
  const ByteSource& bytes = *archive->sources()[source];
  const auto view = bytes.view(0, bytes.size());
  if (!view) return nb::none();
  const std::shared_ptr<const void> owner = archive->sources()[source];
  const MutableByteSpan writable(const_cast<std::byte*>(view->data()), view->size());
  nb::object made = writable_ ? nb::cast(Buffer(owner, writable)) : nb::cast(Buffer(owner, *view));
  // Another thread may have made one meanwhile: the first is kept, and ours goes once the lock is open.
  const std::lock_guard<std::mutex> one_at_a_time(mutex_);
  if (source >= buffers_.size()) return made;  // closed
  if (!buffers_[source].is_valid()) buffers_[source] = made;
  return buffers_[source];
}

void bind_archives(nb::module_& module) {
  module.def("open_path", &open_path, nb::arg("path"), nb::arg("mode"));
  module.def(
      "open_object",
      [](nb::object file, const std::string& name) {
        return open_source(std::make_shared<PythonSource>(file, name), name);
      },
      nb::arg("file"), nb::arg("name"));
  module.def(
      "open_buffer",
      [](nb::object bytes, const std::string& name) {
        return open_source(std::make_shared<BufferSource>(bytes, name), name);
      },
      nb::arg("bytes"), nb::arg("name"));

  nb::class_<ArchiveHandle>(module, "Archive",
                            "An open file of weights: a mapping of names to lazy tensors. Made by ``ballast.open``.")
      .def("__getitem__",
           [](const Handle& self, nb::handle name) {
             return LazyTensor{self, find_index(*self, name)};
           })
      .def("__contains__",
           [](const ArchiveHandle& self, nb::handle name) {
             return nb::isinstance<nb::str>(name) && self.get()->find(from_python_text(name)).has_value();
           })
      .def("__len__", [](const ArchiveHandle& self) { return self.get()->tensors().size(); })
      .def("__bool__", [](const ArchiveHandle&) { return true; })
      .def("__iter__", [](const ArchiveHandle& self) { return nb::iter(names_of(self)); })
      .def("keys", [](nb::handle self) { return mapping_view("KeysView", self); })
      .def("values", [](nb::handle self) { return mapping_view("ValuesView", self); })
      .def("items", [](nb::handle self) { return mapping_view("ItemsView", self); })
      .def(
          "get",
          [](const Handle& self, nb::handle name, nb::object otherwise) -> nb::object {
            const auto index = self->get()->find(from_python_text(name));
            return index ? nb::cast(LazyTensor{self, *index}) : otherwise;
          },
          nb::arg("name"), nb::arg("default") = nb::none())
      .def("arrays", &all_arrays, nb::arg("names") = nb::none(), nb::kw_only(), nb::arg("copy") = false,
           nb::arg("threads") = 0, nb::arg("progress") = nb::none(),
           "All tensors, or those named, as NumPy arrays: views of the file, or with ``copy=True`` memory of their "
           "own,\n"
           "read by several threads. Quantised blocks are bytes.")
      .def_prop_ro(
          "metadata", [](const ArchiveHandle& self) { return metadata_dict(self.get()->description().metadata); },
          "What the file says beside its tensors, in its order.")
      .def_prop_ro("config", &config_of,
                   "The model's configuration, from the file or the config.json beside it, or None.")
      .def_prop_ro(
          "format", [](const ArchiveHandle& self) { return self.get()->description().format; },
          "\"safetensors\", \"gguf\", \"npz\", ...")
      .def_prop_ro(
          "version", [](const ArchiveHandle& self) { return self.get()->description().version; },
          "The version of the file format, as the file says it.")
      .def_prop_ro(
          "producer", [](const ArchiveHandle& self) { return self.get()->description().producer; },
          "The program that wrote it, where that can be told.")
      .def_prop_ro("path", [](const ArchiveHandle& self) { return to_python_text(self.name()); })
      .def_prop_ro(
          "stored_bytes", [](const ArchiveHandle& self) { return self.get()->stored_size(); }, "Size of its files.")
      .def_prop_ro("tied", &tied_names, "Groups of names that share the same bytes of the file.")
      .def_prop_ro("closed", &ArchiveHandle::closed)
      .def("close", &ArchiveHandle::close,
           "Lets go of the file. Arrays that are views of it stay valid; everything else is a ValueError from now on.")
      .def("__enter__",
           [](const Handle& self) {
             self->get();
             return self;
           })
      .def("__exit__", [](ArchiveHandle& self, const nb::args&) { self.close(); })
      .def("__repr__", [](const ArchiveHandle& self) { return to_python_text(describe_archive(self)); })
      .def("_repr_html_",
           [](nb::handle self) { return nb::module_::import_("ballast._html").attr("archive_html")(self); });
}

}  // namespace ballast::python
