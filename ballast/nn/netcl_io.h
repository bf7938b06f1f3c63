// netcl's io, with the meaning of its document. Files go both ways with the real package.
//
// Errors: what is missing is ErrorCode::kNotFound (netcl's KeyError), what does not fit is kInvalidArgument (its
// ValueError), and one text names all of it. A load that fails changes nothing; a save is atomic and durable; after a
// return no file is open or mapped. Warnings are in the reports: the library prints nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/nn/sequential_file.h"

namespace ballast::netcl {

// ---------------------------------------------------------------- models
struct SaveModelOptions {
  // Write layers of type Embedding too, which netcl's own load_model refuses.
  bool allow_embedding = false;
  bool sync = true;
  bool overwrite = true;  // false: a file that is there, also one that appeared meanwhile, stays, and that is kExists
};
// One file, exactly at `path`; parent folders are created. A layer that netcl cannot save is kInvalidArgument, all of
// them named, before anything is written: see nn::save_safetensors. The legacy pair is never written.
Result<nn::SaveReport> save_model(const nn::Sequential& model, const std::string& path,
                                  const SaveModelOptions& options = {});

struct LoadModelOptions {
  std::shared_ptr<Execution> execution{};  // null: of `backend`
  std::string backend{};                   // empty: the default for training
  std::optional<DType> dtype{};            // absent: each tensor as the file has it
  bool strict = false;                     // missing tensors, and those that no layer claims, are kNotFound
  bool keep_mismatched = false;            // a tensor of another shape leaves the first value, and is reported
  uint64_t seed = 0;                       // of values that the file does not have
  const nn::LayerTable* layers = nullptr;  // null: the built-in ones
};
struct LoadReport {
  std::string version;                 // as the file has it
  std::vector<std::string> missing;    // by their names in the file; kept their first values
  std::vector<std::string> unclaimed;  // members that no layer has
  std::vector<nn::ShapeMismatch> mismatched;
  std::vector<std::string> warnings;
};
struct LoadedModel {
  std::unique_ptr<nn::Sequential> model;
  LoadReport report;
};
// Looks for `path`, then for the legacy pair `path`.json and `path`.npz, then for `path`.netcl. Also takes what
// nn::save_safetensors wrote.
Result<LoadedModel> load_model(const std::string& path, const LoadModelOptions& options = {});

// ---------------------------------------------------------------- raw parameters
// An NPZ at `path`, to which ".npz" is appended unless it ends so. Names default to p0, p1, ...; as many as parameters,
// all different.
Result<nn::SaveReport> save_params(std::span<const StateTensor> params, const std::string& path,
                                   std::span<const std::string> names = {}, bool sync = true);

struct LoadParamsOptions {
  bool cast = false;    // values of another type are converted; without this they are kInvalidArgument
  bool strict = false;  // members that nobody asked for are kNotFound
};
struct ParamsReport {
  std::vector<std::string> unclaimed;
};
// From `path`, or else `path`.npz, or else `path` with its last suffix replaced by .npz.
Result<ParamsReport> load_params(std::span<const StateTensor> params, const std::string& path,
                                 std::span<const std::string> names = {}, const LoadParamsOptions& options = {});

// ---------------------------------------------------------------- checkpoints
struct Checkpoint {
  std::string optim_state = "{}";  // JSON
  std::string config = "{}";       // JSON
};
// `path`.npz and `path`.json (a ".npz" at the end of `path` is not doubled). netcl reads the pair; beside its two
// members the JSON has a third, which says to which tensors it belongs.
Result<nn::SaveReport> save_checkpoint(std::span<const StateTensor> params, const std::string& path,
                                       const Checkpoint& checkpoint = {}, std::span<const std::string> names = {},
                                       bool sync = true);

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string json;  // the whole of it; "{}" where there is none
  ParamsReport report;
  std::vector<std::string> warnings;
};
// Also takes netcl's split pair, "run.1.npz" with "run.json", by the name "run.1". kCorrupt where tensors and JSON are
// of two different saves, as after a crash between the two.
Result<LoadedCheckpoint> load_checkpoint(std::span<const StateTensor> params, const std::string& path,
                                         std::span<const std::string> names = {},
                                         const LoadParamsOptions& options = {});

}  // namespace ballast::netcl
