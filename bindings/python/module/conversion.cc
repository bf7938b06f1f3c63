#include "bindings/python/module/conversion.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ballast/edit/quantize.h"
#include "ballast/exchange/write_model.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/progress.h"

namespace ballast::python {

namespace {

using Names = std::vector<std::string>;

std::optional<DType> dtype_called(nb::handle given) {
  if (given.is_none()) return std::nullopt;
  if (const auto dtype = dtype_from_python(given)) return dtype;
  const std::string text = std::string("no type is called ") + nb::str(given).c_str();
  throw nb::value_error(text.c_str());
}

nb::dict report_dict(const ConvertReport& report) {
  nb::dict made;
  made["source_format"] = report.source_format;
  made["format"] = report.target_format;
  made["tensors"] = report.tensors;
  made["payload_bytes"] = report.payload_bytes;
  made["tied"] = report.tied;
  made["tied_bytes"] = report.tied_bytes;
  made["bytes"] = report.written.bytes;
  nb::list notes, losses, files;
  for (const std::string& note : report.notes) notes.append(to_python_text(note));
  for (const Loss& loss : report.losses) {
    losses.append(nb::make_tuple(to_python_text(loss.tensor), to_python_text(loss.what)));
  }
  for (const std::string& file : report.written.files) files.append(to_python_text(file));
  made["notes"] = notes;
  made["losses"] = losses;
  made["files"] = files;
  return made;
}

struct Common {
  std::string source;
  std::string destination;
  ConvertModelOptions options;
};

ConvertReport run(Common& task, nb::object progress) {
  return run_long(std::move(progress), [&](Watch& watch) {
    task.options.convert.write.progress = watch.progress();
    return convert_model(task.source, task.destination, task.options);
  });
}

nb::dict convert(std::string source, std::string destination, std::string format, Names only, Names exclude,
                 nb::handle dtype, nb::handle dequantize, std::optional<std::string> config, bool allow_lossy,
                 bool dry_run, bool overwrite, bool sync, bool tie, bool compress, uint64_t shard_size,
                 std::string target, bool container_only, unsigned threads, nb::object progress) {
  Common task{std::move(source), std::move(destination), {}};
  ConvertModelOptions& options = task.options;
  options.format = std::move(format);
  options.dtype = dtype_called(dtype);
  options.dequantize = dtype_called(dequantize);
  options.container_only = container_only;
  ConvertOptions& how = options.convert;
  how.only = std::move(only);
  how.exclude = std::move(exclude);
  how.config_text = std::move(config);
  how.allow_lossy = allow_lossy;
  how.dry_run = dry_run;
  how.tie = tie;
  how.threads = threads;
  how.write.commit.overwrite = overwrite;
  how.write.commit.sync = sync;
  how.write.format.compress = compress;
  how.write.format.shard_size = shard_size;
  how.write.format.target = std::move(target);
  return report_dict(run(task, std::move(progress)));
}

nb::list quantization_rows(const QuantizationLog& log) {
  nb::list rows;
  for (const TensorQuantization& tensor : log.tensors()) {
    nb::dict row;
    row["name"] = to_python_text(tensor.name);
    row["shape"] = shape_tuple(tensor.shape);
    row["from"] = to_python_text(dtype_name(tensor.from));
    row["to"] = to_python_text(dtype_name(tensor.to));
    row["bytes_before"] = tensor.bytes_before;
    row["bytes_after"] = tensor.bytes_after;
    row["note"] = to_python_text(tensor.note);
    row["rmse"] = tensor.error ? nb::object(nb::float_(tensor.error->rmse())) : nb::object(nb::none());
    row["max_abs"] = tensor.error ? nb::object(nb::float_(tensor.error->max_abs)) : nb::object(nb::none());
    row["relative"] = tensor.error ? nb::object(nb::float_(tensor.error->relative())) : nb::object(nb::none());
    rows.append(row);
  }
  return rows;
}

nb::dict quantize(std::string source, std::string destination, const std::string& type, std::string format, bool pure,
                  const Names& rules, bool dry_run, bool overwrite, bool container_only, unsigned threads,
                  nb::object progress) {
  const QuantizationPreset* preset = unwrap(find_quantization_preset(type));
  QuantizeOptions edit{.type = preset->base, .preset = pure ? nullptr : preset, .threads = threads};
  for (const std::string& rule : rules) edit.rules.push_back(unwrap(parse_type_rule(rule)));
  const auto log = std::make_shared<QuantizationLog>();
  Common task{std::move(source), std::move(destination), {}};
  task.options.format = std::move(format);
  task.options.container_only = container_only;
  task.options.convert.dry_run = dry_run;
  task.options.convert.threads = threads;
  task.options.convert.write.commit.overwrite = overwrite;
  task.options.convert.edits = {quantize_tensors(std::move(edit), log)};
  nb::dict made = report_dict(run(task, std::move(progress)));
  made["type"] = to_python_text(preset->name);
  made["quantized"] = quantization_rows(*log);
  return made;
}

}  // namespace

void bind_conversion(nb::module_& module) {
  module.def("convert", &convert, nb::arg("source"), nb::arg("destination"), nb::kw_only(), nb::arg("format"),
             nb::arg("only"), nb::arg("exclude"), nb::arg("dtype").none(), nb::arg("dequantize").none(),
             nb::arg("config").none(), nb::arg("allow_lossy"), nb::arg("dry_run"), nb::arg("overwrite"),
             nb::arg("sync"), nb::arg("tie"), nb::arg("compress"), nb::arg("shard_size"), nb::arg("target"),
             nb::arg("container_only"), nb::arg("threads"), nb::arg("progress").none());
  module.def("quantize", &quantize, nb::arg("source"), nb::arg("destination"), nb::arg("type"), nb::kw_only(),
             nb::arg("format"), nb::arg("pure"), nb::arg("rules"), nb::arg("dry_run"), nb::arg("overwrite"),
             nb::arg("container_only"), nb::arg("threads"), nb::arg("progress").none());
  module.def("quantization_types", [] {
    nb::dict made;
    for (const QuantizationPreset& preset : all_quantization_presets()) {
      made[to_python_text(preset.name)] = to_python_text(preset.summary);
    }
    return made;
  });
}

}  // namespace ballast::python
