#include "bindings/python/module/saving.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ballast/archive/convert.h"
#include "ballast/archive/write.h"
#include "ballast/formats/format.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/metadata.h"
#include "bindings/python/module/progress.h"

namespace ballast::python {

namespace {

// A plan, and the Python objects whose memory it refers to. Made and destroyed with the GIL held.
struct HeldPlan {
  WritePlan plan;
  std::vector<nb::object> owners;
  std::vector<std::unique_ptr<ArrayView>> views;
  std::vector<std::shared_ptr<const Archive>> archives;
};

void add_lazy(HeldPlan& held, const std::string& name, const LazyTensor& tensor) {
  const auto archive = tensor.file->get();
  TensorInfo info = archive->tensors()[tensor.index];
  info.name = name;
  held.archives.push_back(archive);
  held.plan.add_tensor(std::move(info), [source = archive.get(), index = tensor.index](ByteSink& sink) -> Status {
    if (source->extent(index).deflated) return source->stream_deflated(index, sink);
    BALLAST_TRY(const Payload payload, source->payload(index));
    return sink.write(payload.bytes());
  });
}

// Strided or big-endian memory is put in order when it is its turn: one tensor's worth at a time.
Status emit_in_order(const ArrayView& view, ByteSink& sink) {
  ArrayView ordered;
  try {
    nb::gil_scoped_acquire held;
    ordered = canonical_view(view);
  } catch (nb::python_error& error) {
    return make_error(ErrorCode::kOutOfMemory, error.what());
  }
  Status written = sink.write(ordered.bytes());
  nb::gil_scoped_acquire held;
  ordered.owner.reset();
  return written;
}

void add_array(HeldPlan& held, const std::string& name, nb::handle array) {
  const ArrayView view = view_array(array);
  TensorInfo info;
  info.name = name;
  info.dtype = view.dtype;
  info.shape = view.shape;
  info.byte_size = view.byte_size;
  held.owners.push_back(view.owner);
  if (view.canonical) {
    held.plan.add_tensor(std::move(info), view.bytes());
    return;
  }
  // Providers may be copied and dropped without the GIL, so they hold no Python object themselves: `views` does.
  held.views.push_back(std::make_unique<ArrayView>(view));
  const ArrayView* shared = held.views.back().get();
  held.plan.add_tensor(std::move(info), [shared](ByteSink& sink) { return emit_in_order(*shared, sink); });
}

HeldPlan plan_of(nb::handle tensors, nb::handle metadata, nb::handle config, const FormatDriver& format) {
  HeldPlan held;
  for (nb::handle item : tensors) {
    const std::string name = from_python_text(item[0]);
    const nb::object value = item[1];
    if (nb::isinstance<LazyTensor>(value)) add_lazy(held, name, nb::cast<const LazyTensor&>(value));
    else add_array(held, name, value);
  }
  held.plan.description.metadata = metadata_from(metadata);
  if (!config.is_none()) {
    held.plan.description.config = ModelConfig{std::string(format.config_schema), from_python_text(config)};
  }
  return held;
}

WriteOptions write_options(bool compress, uint64_t shard_size, const std::string& target) {
  WriteOptions options;
  options.compress = compress;
  options.shard_size = shard_size;
  options.target = target;
  return options;
}

// What a loss-free write refuses, a lossy one casts or leaves out.
Result<WriteReport> write_lossy(WritePlan plan, const std::string& path, const FormatDriver& format,
                                WriteSettings settings) {
  ConvertOptions options;
  options.allow_lossy = true;
  options.use_origin = false;
  options.write = std::move(settings);
  BALLAST_TRY(ConvertReport report, convert_plan(std::move(plan), path, format, options));
  return std::move(report.written);
}

nb::tuple save_path(const std::string& path, nb::handle tensors, const std::string& format_name, nb::handle metadata,
                    nb::handle config, bool overwrite, bool sync, bool allow_lossy, bool compress, uint64_t shard_size,
                    const std::string& target, nb::object progress) {
  const FormatDriver& format = *unwrap(choose_format(format_name));
  HeldPlan held = plan_of(tensors, metadata, config, format);
  WriteSettings settings;
  settings.format = write_options(compress, shard_size, target);
  settings.commit.overwrite = overwrite;
  settings.commit.sync = sync;
  const WriteReport report = run_long(std::move(progress), [&](Watch& watch) {
    settings.progress = watch.progress();
    return allow_lossy ? write_lossy(held.plan, path, format, settings)
                       : write_archive(path, format, held.plan, settings);
  });
  nb::list files;
  for (const std::string& file : report.files) files.append(to_python_text(file));
  return nb::make_tuple(files, report.bytes);
}

nb::bytes save_bytes(nb::handle tensors, const std::string& format_name, nb::handle metadata, nb::handle config,
                     bool compress, const std::string& target) {
  const FormatDriver& format = *unwrap(choose_format(format_name));
  HeldPlan held = plan_of(tensors, metadata, config, format);
  const WriteOptions options = write_options(compress, 0, target);
  const ByteVector bytes =
      run_long(nb::none(), [&](Watch&) { return write_archive_bytes(format, held.plan, options); });
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_saving(nb::module_& module) {
  module.def("save_path", &save_path, nb::arg("path"), nb::arg("tensors"), nb::arg("format"),
             nb::arg("metadata") = nb::none(), nb::arg("config") = nb::none(), nb::arg("overwrite") = true,
             nb::arg("sync") = true, nb::arg("allow_lossy") = false, nb::arg("compress") = false,
             nb::arg("shard_size") = 0, nb::arg("target") = "", nb::arg("progress") = nb::none());
  module.def("save_bytes", &save_bytes, nb::arg("tensors"), nb::arg("format"), nb::arg("metadata") = nb::none(),
             nb::arg("config") = nb::none(), nb::arg("compress") = false, nb::arg("target") = "");
  module.def("format_for_path", [](const std::string& path) -> nb::object {
    const FormatDriver* format = format_for_extension(path);
    return format == nullptr ? nb::object(nb::none()) : nb::object(nb::str(format->name.data(), format->name.size()));
  });
  module.def("formats", [] {
    nb::list rows;
    for (const FormatDriver* format : all_formats()) {
      nb::list extensions;
      for (const std::string_view extension : format->extensions) extensions.append(to_python_text(extension));
      rows.append(nb::make_tuple(to_python_text(format->name), to_python_text(format->summary), extensions,
                                 format->plan_write != nullptr));
    }
    return rows;
  });
}

}  // namespace ballast::python
