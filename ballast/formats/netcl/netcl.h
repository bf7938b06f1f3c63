// netcl's files: an NPZ with tensors called "<layer>:<key>", and JSON that says which layers these are. In a single
// file (version 2) the JSON is one more member, in a pair (version 1, training checkpoints) a file of its own.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/formats/format.h"
#include "ballast/formats/numpy/npz.h"

namespace ballast {

inline constexpr std::string_view kNetclSchema = "netcl";
inline constexpr std::string_view kNetclCheckpointSchema = "netcl-checkpoint";

// ---------------------------------------------------------------- the JSON

struct NetclArg {
  std::string name;
  std::string_view value;  // raw JSON
};

struct NetclLayer {
  size_t index = 0;
  std::string type;
  std::vector<NetclArg> args;
  std::string_view raw;  // the whole entry

  const NetclArg* find_arg(std::string_view name) const;
};

struct NetclModel {
  std::string version;  // as the text has it; empty when absent
  bool has_convolution = false;
  bool has_dilation = false;  // a convolution says so: netcl 0.2.8 or later
  std::string about;          // the member "ballast", an object, which netcl passes over; empty when absent
};

// Checks what netcl checks before it builds the model, and calls `visit` with each layer in turn. An error of `visit`
// ends it. Layer types are not checked: programs may register their own.
Result<NetclModel> parse_netcl_config(std::string_view text, const std::string& where,
                                      const std::function<Status(const NetclLayer&)>& visit = {});

// The same model as the other generation of files spells it. A text that already is of that version is left alone.
// A version 1 convolution without bias does not say so; `tensors` do.
Result<std::string> netcl_config_as_version_2(const std::string& text, std::span<const TensorInfo> tensors);
Result<std::string> netcl_config_as_version_1(const std::string& text);

// Which releases write such a file; empty where that cannot be told.
std::string netcl_producer(const NetclModel& model);

// Reports what netcl itself does not notice, or only when it builds the model: tensors that a layer lacks, that no
// layer has, or of the wrong shape; layers and arguments it does not know. Warnings and notes only.
Result<NetclModel> check_netcl_model(std::string_view text, const std::string& where,
                                     std::span<const TensorInfo> tensors, Findings& findings);

// ---------------------------------------------------------------- the files

// How the NPZ part is spelled, as text for Description::stored_form: empty for netcl's own way.
std::string netcl_form_text(const NpzForm& form);
NpzForm netcl_form_from_text(std::string_view text);

// The description's model config, checked; an error that says what to do where there is none of netcl's.
Result<std::string> netcl_config_text(const Description& description, std::string_view format);

}  // namespace ballast
