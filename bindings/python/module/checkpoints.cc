#include "bindings/python/module/checkpoints.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "ballast/training/checkpoint.h"
#include "bindings/python/module/archives.h"
#include "bindings/python/module/arrays.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/fresh_array.h"
#include "bindings/python/module/native_call.h"
#include "bindings/python/module/progress.h"

namespace ballast::python {

namespace {

// How often a wait looks for Ctrl-C.
constexpr std::chrono::milliseconds kLookUp(50);

using Manager = std::shared_ptr<CheckpointManager>;

// Called from one thread at a time: ballast.checkpoint sees to that. Only the end of the program, or a handler of
// signals, may close it while another call is under way, which then keeps what it uses.
class Checkpoints {
 public:
  Checkpoints(std::string folder, Manager manager) : folder_(std::move(folder)), manager_(std::move(manager)) {}

  // With the GIL held; ValueError once closed.
  Manager get() const {
    Manager manager = [&] {
      const std::lock_guard lock(mutex_);
      return manager_;
    }();
    if (manager == nullptr) raise_closed(folder_);
    return manager;
  }

  bool is_writing() const { return !get()->wait_for(std::chrono::milliseconds(0)); }

  // The library waits in its own calls too, but there Ctrl-C would go unheard.
  void wait() const {
    const Manager manager = get();
    for (;;) {
      const bool idle = [&] {
        const GilReleased released;
        return manager->wait_for(kLookUp);
      }();
      if (idle) return;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }

  void close() {
    Manager last = take();
    const GilReleased released;
    last.reset();
  }

  void abandon() {
    if (const Manager last = take()) last->abandon_after_fork();
  }

 private:
  Manager take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(manager_, nullptr);
  }

  std::string folder_;
  mutable std::mutex mutex_;  // of the pointer; held for a moment only
  Manager manager_;
};

std::unique_ptr<Checkpoints> open_checkpoints(const std::string& folder, uint64_t keep_last, uint64_t keep_best,
                                              const std::string& metric, bool larger_is_better, uint64_t keep_every,
                                              bool incremental, bool sync, unsigned threads) {
  CheckpointOptions options;
  options.policy = {keep_last, keep_best, metric, larger_is_better, keep_every};
  options.incremental = incremental;
  options.sync = sync;
  options.threads = threads;
  auto manager = [&] {
    const GilReleased released;
    return CheckpointManager::open(folder, options);
  }();
  return std::make_unique<Checkpoints>(folder, unwrap(std::move(manager)));
}

// ---------------------------------------------------------------- saving

// `owners` keeps what the tensors view.
void add_tensors(nb::handle rows, std::vector<SnapshotTensor>& tensors, std::vector<nb::object>& owners) {
  for (nb::handle row : rows) {
    const ArrayView view = canonical_view(view_array(row[1]));
    SnapshotTensor tensor;
    tensor.info.name = from_python_text(row[0]);
    tensor.info.dtype = view.dtype;
    tensor.info.shape = view.shape;
    tensor.info.byte_size = view.byte_size;
    tensor.bytes = view.bytes();
    tensors.push_back(std::move(tensor));
    owners.push_back(view.owner);
  }
}

nb::dict save(const Checkpoints& self, uint64_t step, nb::handle weights, nb::handle state,
              const std::string& state_json, const Metrics& metrics) {
  const auto start = std::chrono::steady_clock::now();
  const bool waits = self.is_writing();
  if (waits) self.wait();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  TrainingSnapshot snapshot;
  snapshot.step = step;
  snapshot.state_json = state_json;
  snapshot.metrics = metrics;
  std::vector<nb::object> owners;
  add_tensors(weights, snapshot.weights, owners);
  add_tensors(state, snapshot.state, owners);
  auto saved = [&, manager = self.get()]() mutable {
    const GilReleased released;
    auto report = manager->save(snapshot);
    manager.reset();  // the last one waits for what is being written
    return report;
  }();
  const SaveReport report = unwrap(std::move(saved));
  nb::dict row;
  row["bytes"] = report.bytes;
  row["wait_seconds"] = waits ? waited.count() : 0.0;
  row["copy_seconds"] = report.copy_seconds;
  return row;
}

void finish(const Checkpoints& self) {
  self.wait();
  unwrap(self.get()->finish());
}

nb::object last_commit(const Checkpoints& self) {
  const auto report = self.get()->last_commit();
  if (!report) return nb::none();
  nb::dict row;
  row["step"] = report->step;
  row["seconds"] = report->seconds;
  row["bytes_written"] = report->bytes_written;
  row["bytes_reused"] = report->bytes_reused;
  row["pruned"] = nb::cast(report->pruned.steps);
  return row;
}

// ---------------------------------------------------------------- reading

constexpr CheckpointPart kBothParts[] = {CheckpointPart::kWeights, CheckpointPart::kState};

// Arrays for the tensors of a checkpoint, which are filled while it is checked.
class CheckpointArrays {
 public:
  // For one checkpoint after the other until one is sound. `watch` keeps what Python raises.
  PayloadMemory payload_memory(Watch& watch) {
    return [this, &watch](const LoadedCheckpoint& tried) { return make_for(tried, watch); };
  }

  const nb::object& get(CheckpointPart part, size_t index) const { return arrays_[static_cast<size_t>(part)][index]; }

 private:
  // Called without the GIL.
  Result<std::vector<MutableByteSpan>> make_for(const LoadedCheckpoint& checkpoint, Watch& watch) {
    if (NativeCall::ending()) return make_error(ErrorCode::kCancelled, "interrupted");
    const nb::gil_scoped_acquire held;
    for (std::vector<nb::object>& arrays : arrays_) arrays.clear();  // those of a damaged one make room first
    std::vector<MutableByteSpan> memory;
    try {
      for (const CheckpointPart part : kBothParts) {
        std::vector<nb::object>& arrays = arrays_[static_cast<size_t>(part)];
        for (const CheckpointTensor& tensor : checkpoint.tensors(part)) {
          FreshArray array(tensor.info.dtype, tensor.info.shape);
          memory.push_back(array.bytes());
          arrays.push_back(array.take());
        }
      }
    } catch (nb::python_error& error) {
      watch.keep(std::move(error));
      return make_error(ErrorCode::kCancelled, "no array for a tensor");
    }
    return memory;
  }

  std::vector<nb::object> arrays_[std::size(kBothParts)];
};

struct FilledCheckpoint {
  LoadedCheckpoint checkpoint;
  CheckpointArrays arrays;
};

nb::tuple resume(const Checkpoints& self) {
  self.wait();
  const Manager manager = self.get();
  CheckpointArrays arrays;
  ResumeReport report = run_long(
      nb::none(), [&](Watch& watch) { return manager->resume(watch.progress(), arrays.payload_memory(watch)); });
  nb::list rejected;
  for (const std::string& why : report.rejected) rejected.append(to_python_text(why));
  if (!report.checkpoint) return nb::make_tuple(nb::none(), rejected);
  return nb::make_tuple(nb::cast(FilledCheckpoint{std::move(*report.checkpoint), std::move(arrays)}), rejected);
}

FilledCheckpoint resume_from(const Checkpoints& self, uint64_t step) {
  self.wait();
  const Manager manager = self.get();
  CheckpointArrays arrays;
  LoadedCheckpoint loaded = run_long(nb::none(), [&](Watch& watch) {
    return manager->resume_from(step, watch.progress(), arrays.payload_memory(watch));
  });
  return {std::move(loaded), std::move(arrays)};
}

nb::dict metrics_dict(const Metrics& metrics) {
  nb::dict values;
  for (const auto& [name, value] : metrics) values[to_python_text(name)] = value;
  return values;
}

CheckpointPart part_called(const std::string& name) {
  if (name == "weights") return CheckpointPart::kWeights;
  if (name == "state") return CheckpointPart::kState;
  throw nb::value_error("a checkpoint has the parts \"weights\" and \"state\"");
}

// The array and our name for its type, which tells types apart that NumPy has only one name for.
nb::tuple read_tensor(const FilledCheckpoint& self, const std::string& part_name, nb::handle name) {
  const CheckpointPart part = part_called(part_name);
  const std::string wanted = from_python_text(name);
  const auto found = self.checkpoint.find(part, wanted);
  if (!found) {
    raise_error(make_error(ErrorCode::kNotFound, "the checkpoint has no " + part_name + " called \"" + wanted + "\""),
                Missing::kName);
  }
  const DType dtype = self.checkpoint.tensors(part)[*found].info.dtype;
  return nb::make_tuple(self.arrays.get(part, *found), to_python_text(dtype_name(dtype)));
}

nb::list weight_names(const FilledCheckpoint& self) {
  nb::list names;
  for (const CheckpointTensor& tensor : self.checkpoint.weights()) names.append(to_python_text(tensor.info.name));
  return names;
}

nb::tuple list_folder(const std::string& folder) {
  auto listed = [&] {
    const GilReleased released;
    return list_checkpoints(folder);
  }();
  const CheckpointList list = unwrap(std::move(listed));
  nb::list rows;
  for (const CheckpointManifest& manifest : list.checkpoints) {
    nb::dict row;
    row["step"] = manifest.step;
    row["saved_at"] = manifest.saved_at;
    row["bytes"] = manifest.payload_bytes();
    row["new_bytes"] = manifest.new_bytes();
    row["metrics"] = metrics_dict(manifest.metrics);
    rows.append(row);
  }
  nb::list damaged;
  for (const DamagedManifest& manifest : list.damaged) damaged.append(to_python_text(manifest.why));
  return nb::make_tuple(rows, damaged);
}

}  // namespace

void bind_checkpoints(nb::module_& module) {
  nb::class_<FilledCheckpoint>(module, "LoadedCheckpoint", "A checkpoint that was read and found sound.")
      .def_prop_ro("step", [](const FilledCheckpoint& self) { return self.checkpoint.step(); })
      .def_prop_ro("state_json",
                   [](const FilledCheckpoint& self) { return to_python_text(self.checkpoint.state_json()); })
      .def_prop_ro("metrics", [](const FilledCheckpoint& self) { return metrics_dict(self.checkpoint.metrics()); })
      .def_prop_ro("weights", &weight_names)
      .def("read", &read_tensor, nb::arg("part"), nb::arg("name"));
  nb::class_<Checkpoints>(module, "Checkpoints", "The writer of a folder. Use ballast.CheckpointManager.")
      .def("save", &save, nb::arg("step"), nb::arg("weights"), nb::arg("state"), nb::arg("state_json"),
           nb::arg("metrics"))
      .def(
          "reserve", [](const Checkpoints& self, uint64_t bytes) { self.get()->reserve(bytes); }, nb::arg("bytes"))
      .def("finish", &finish)
      .def("is_writing", &Checkpoints::is_writing)
      .def("last_commit", &last_commit)
      .def("resume", &resume)
      .def("resume_from", &resume_from, nb::arg("step"))
      .def("close", &Checkpoints::close)
      .def("abandon", &Checkpoints::abandon);
  module.def("open_checkpoints", &open_checkpoints, nb::arg("folder"), nb::arg("keep_last"), nb::arg("keep_best"),
             nb::arg("metric"), nb::arg("larger_is_better"), nb::arg("keep_every"), nb::arg("incremental"),
             nb::arg("sync"), nb::arg("threads"));
  module.def("list_checkpoints", &list_folder, nb::arg("folder"));
}

}  // namespace ballast::python
