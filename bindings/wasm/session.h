// What the module keeps between calls: sources, archives, and work that goes on piece by piece.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/formats/archive.h"
#include "ballast/formats/format.h"
#include "bindings/wasm/range_source.h"
#include "bindings/wasm/reply.h"

namespace ballast::wasm {

// What one call may hold of a source's payload at once. Larger needs are an error, not an abort.
inline constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

class SessionSiblings final : public SiblingOpener {
 public:
  void add(const std::string& name, std::shared_ptr<const ByteSource> source) { files_[name] = std::move(source); }
  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view file_name) override;

 private:
  std::map<std::string, std::shared_ptr<const ByteSource>, std::less<>> files_;
};

struct OpenedArchive {
  SessionSiblings siblings;
  OpenRequest request;
  std::optional<Archive> archive;
};

// Work that is done in steps. A step that finds bytes missing is called again when they are there; what it added to the
// answer is void.
class Work {
 public:
  virtual ~Work() = default;
  // True when it is finished: the answer then holds the result.
  virtual Result<bool> step(Answer& answer) = 0;
  uint64_t done = 0;
  uint64_t total = 0;
};

class Session {
 public:
  uint32_t add_source(uint64_t size, std::string name);
  RangeSource* source(uint32_t id);
  void remove_source(uint32_t id) { sources_.erase(id); }
  void drop_cached();

  MissingRanges& missing() { return missing_; }

  uint32_t add_archive(std::unique_ptr<OpenedArchive> archive);
  Result<const OpenedArchive*> archive(uint64_t id) const;
  void remove_archive(uint32_t id) { archives_.erase(id); }

  uint32_t add_work(std::unique_ptr<Work> work);
  Work* work(uint32_t id);
  void remove_work(uint32_t id) { works_.erase(id); }

  // Whether the stored bytes of the tensor are all in memory; notes what is not. kOutOfMemory where they are more than
  // can be held.
  Result<bool> has_stored(const Archive& archive, size_t tensor);
  Result<bool> has_range(const Archive& archive, size_t tensor, uint64_t begin, uint64_t length);

 private:
  const RangeSource* range_source(const ByteSource* source) const;

  MissingRanges missing_;
  uint32_t last_ = 0;
  std::map<uint32_t, std::shared_ptr<RangeSource>> sources_;
  std::map<uint32_t, std::unique_ptr<OpenedArchive>> archives_;
  std::map<uint32_t, std::unique_ptr<Work>> works_;

  friend Result<bool> open_call(Session&, const JsonObject&, Answer&);
};

// Each takes what the caller asked for. Those named start_ give work, which call `step` carries on.
using Call = Result<bool> (*)(Session&, const JsonObject&, Answer&);
using Start = Result<std::unique_ptr<Work>> (*)(Session&, const JsonObject&);
struct CallRow {
  std::string_view name;
  Call call;
};
struct StartRow {
  std::string_view name;
  Start start;
};
// What a module has beside reading: nothing (reading.cc), or conversions (convert.cc).
extern const std::span<const CallRow> kMoreCalls;
extern const std::span<const StartRow> kMoreStarts;

Result<bool> open_call(Session& session, const JsonObject& request, Answer& answer);
Result<bool> values_call(Session& session, const JsonObject& request, Answer& answer);
Result<bool> scales_call(Session& session, const JsonObject& request, Answer& answer);
Result<bool> payload_call(Session& session, const JsonObject& request, Answer& answer);
Result<std::unique_ptr<Work>> start_stats(Session& session, const JsonObject& request);
Result<std::unique_ptr<Work>> start_digest(Session& session, const JsonObject& request);
Result<std::unique_ptr<Work>> start_verify(Session& session, const JsonObject& request);
Result<std::unique_ptr<Work>> start_singular(Session& session, const JsonObject& request);
Result<std::unique_ptr<Work>> start_compare(Session& session, const JsonObject& request);

struct ChosenTensor {
  const Archive* archive;
  size_t index;
  const TensorInfo& info() const { return archive->tensors()[index]; }
};
Result<ChosenTensor> choose_tensor(Session& session, const JsonObject& request,
                                   std::string_view archive_key = "archive", std::string_view tensor_key = "tensor");

// One tensor of an archive as an archive of its own, under this name.
Archive alone(const Archive& archive, size_t tensor, const std::string& name);

// Bytes of the tensor in canonical form, a piece at a time, of whole elements.
class Pieces {
 public:
  Pieces(Session& session, const Archive& archive, size_t tensor);
  bool at_end() const { return at_ >= size_; }
  uint64_t at() const { return at_; }
  uint64_t size() const { return size_; }
  // Whether what the next few pieces need is there. Otherwise it is noted as missing.
  Result<bool> ready();
  // After ready(): hands out pieces until as much was taken as one step should.
  Status take(const std::function<Status(ByteSpan)>& body);

 private:
  Session& session_;
  const Archive& archive_;
  size_t tensor_;
  uint64_t size_;
  uint64_t at_ = 0;
  uint64_t piece_;
};

}  // namespace ballast::wasm
