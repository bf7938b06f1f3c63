// Where the parameters of a model come from: any archive, or memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/base/param_id.h"
#include "ballast/formats/archive.h"

namespace ballast {

// A fixed set of named tensors whose bytes are read when they are wanted. All methods may be called from several
// threads at once.
class ParamSource {
 public:
  virtual ~ParamSource() = default;

  virtual std::span<const TensorInfo> params() const = 0;
  virtual std::optional<size_t> find(std::string_view name) const = 0;
  // The same by the id of the name: base_param_id(name) finds what `name` finds.
  virtual std::optional<size_t> find(const BaseParamId& id) const = 0;

  // Part of the canonical payload (little-endian, row-major). An error names the tensor.
  virtual Status read(size_t index, uint64_t offset, MutableByteSpan out) const = 0;
  // All of it, where that costs no copy: valid while the source lives, and aligned to nothing.
  virtual std::optional<ByteSpan> view(size_t index) const = 0;
  // False where reading a part costs as much as reading all (a compressed payload). Such a read takes memory of its own
  // for a moment: at most twice the payload's size.
  virtual bool reads_parts(size_t index) const = 0;
  // What error texts call it.
  virtual const std::string& name() const = 0;
  // Whether payloads stay as they are while the source lives. Of those that do not, no derived form is kept.
  virtual bool is_constant() const { return true; }
};

// Over anything that open_archive opens. Mapped archives give views; open with FileAccess::kPositional for a budget:
// then nothing but the budget is in memory, and a file that changes underneath is an error. Under a mapping a file that
// was truncated is an error too as long as nobody touched the parameter before.
std::shared_ptr<const ParamSource> make_param_source(std::shared_ptr<const Archive> archive);

// Tensors in memory: for tests, and for weights that were made and not loaded. Each has the byte size of its payload;
// of several with one name the first is found.
struct MemoryParam {
  TensorInfo info;
  ByteVector payload;
};
std::shared_ptr<const ParamSource> make_param_source(std::vector<MemoryParam> params, std::string name = "memory");

}  // namespace ballast
