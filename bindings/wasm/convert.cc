// Converting, a few tensors a step: every step carries the plan out from the beginning, passes over what earlier steps
// gave and stops after what is enough for one. So memory follows the largest tensor, not the file.
#include "ballast/archive/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/archive/tie_plan.h"
#include "ballast/edit/cast.h"
#include "ballast/edit/quantize.h"
#include "ballast/formats/payload_order.h"
#include "bindings/wasm/session.h"

namespace ballast::wasm {

namespace {

constexpr uint64_t kConvertStep = uint64_t{8} << 20;
// Up to here the whole source is read first, and the output is what the command writes, bit for bit: with
// `ballast.origin` and ties, which depend on all of it.
constexpr uint64_t kWholeSource = uint64_t{64} << 20;

// Keeps what comes after the first `skipped` bytes.
class ResumeSink final : public ByteSink {
 public:
  explicit ResumeSink(uint64_t skipped) : skipped_(skipped) {}

  Status write(ByteSpan bytes) override {
    const uint64_t before = std::min<uint64_t>(skipped_ - std::min(skipped_, position_), bytes.size());
    kept_.insert(kept_.end(), bytes.begin() + static_cast<ptrdiff_t>(before), bytes.end());
    position_ += bytes.size();
    return {};
  }
  Status write_zeros(uint64_t count) override {
    const uint64_t before = std::min(skipped_ - std::min(skipped_, position_), count);
    kept_.resize(kept_.size() + static_cast<size_t>(count - before));
    position_ += count;
    return {};
  }
  Status patch(uint64_t, ByteSpan) override {
    return make_error(ErrorCode::kUnsupported, "this format goes back to what it wrote");
  }
  uint64_t position() const override { return position_; }
  ByteVector take() { return std::move(kept_); }

 private:
  uint64_t skipped_;
  uint64_t position_ = 0;
  ByteVector kept_;
};

class PlanFeed final : public TensorFeed {
 public:
  explicit PlanFeed(const WritePlan& plan) : plan_(plan) {}

  Status emit(size_t index, PayloadForm form, ByteSink& sink) override {
    if (!form.big_endian && !form.fortran_order) return draw(index, sink);
    MemorySink memory;
    BALLAST_CHECK(draw(index, memory));
    ByteVector bytes = memory.take();
    const TensorInfo& tensor = plan_.description.tensors[index];
    if (form.fortran_order) {
      ByteVector ordered(bytes.size());
      row_major_to_fortran(tensor.shape, bytes, ordered);
      bytes = std::move(ordered);
    }
    if (form.big_endian) swap_byte_order(tensor.dtype, bytes);
    return sink.write(bytes);
  }

 private:
  Status draw(size_t index, ByteSink& sink) const {
    const TensorInfo& tensor = plan_.description.tensors[index];
    const uint64_t start = sink.position();
    if (auto status = plan_.providers[index](sink); !status) {
      return std::move(status).error().with_context(fmt::format("tensor \"{}\"", tensor.name));
    }
    if (sink.position() - start == tensor.byte_size) return {};
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor \"{}\": {} bytes were planned, {} drawn",
                                                               tensor.name, tensor.byte_size, sink.position() - start));
  }

  const WritePlan& plan_;
};

// Stops the plan, by an error that nobody sees, where a step has given enough or lacks bytes.
class SteppingFeed final : public TensorFeed {
 public:
  using HasBytes = std::function<Result<bool>(size_t index)>;
  SteppingFeed(const WritePlan& plan, ResumeSink& out, uint64_t skipped, HasBytes has_bytes)
      : plan_(plan), feed_(plan), out_(out), skipped_(skipped), has_bytes_(std::move(has_bytes)) {}

  Status emit(size_t index, PayloadForm form, ByteSink& sink) override {
    const uint64_t size = plan_.description.tensors[index].byte_size;
    if (size != 0 && out_.position() + size <= skipped_) return sink.write_zeros(size);
    if (drawn_ >= kConvertStep) return stop();
    BALLAST_TRY(const bool there, has_bytes_(index));
    lacks_ = lacks_ || !there;
    if (lacks_) {  // what the rest of this step needs is asked for at once
      drawn_ += size;
      return sink.write_zeros(size);
    }
    BALLAST_CHECK(feed_.emit(index, form, sink));
    drawn_ += size;
    return {};
  }
  bool stopped() const { return stopped_; }

 private:
  Status stop() {
    stopped_ = true;
    return make_error(ErrorCode::kCancelled, "enough for one step");
  }

  const WritePlan& plan_;
  PlanFeed feed_;
  ResumeSink& out_;
  uint64_t skipped_;
  HasBytes has_bytes_;
  uint64_t drawn_ = 0;
  bool lacks_ = false;
  bool stopped_ = false;
};

struct ConvertRequest {
  const FormatDriver* format = nullptr;
  std::string file_name;
  std::vector<uint64_t> keep;       // tensors of the source, in its order
  std::vector<std::string> rename;  // their names in the output; empty: as they are
  std::optional<DType> cast;
  std::optional<std::string> quantise;
  std::optional<std::string> config;
  bool allow_lossy = false;
  bool plain = false;  // tensors alone are wanted, not a file to go back from
};

class ConvertWork final : public Work {
 public:
  ConvertWork(Session& session, const Archive& archive, ConvertRequest request)
      : session_(session), archive_(archive), request_(std::move(request)) {
    for (size_t i = 0; i < archive.tensors().size(); ++i) position_[archive.tensors()[i].name] = i;
  }

  Result<bool> step(Answer& answer) override {
    if (!planned_) {
      BALLAST_TRY(const bool prepared, prepare());
      if (!prepared) return false;
      total = prepared_->report.payload_bytes;
    }
    BALLAST_TRY(const bool finished, planned_->patches() ? write_whole(answer) : write_some(answer));
    if (finished) write_report(answer.json);
    return finished;
  }

 private:
  Result<bool> has_all() {
    bool all = true;
    for (size_t i = 0; i < archive_.tensors().size(); ++i) {
      BALLAST_TRY(const bool there, session_.has_stored(archive_, i));
      all = all && there;
    }
    return all;
  }

  bool is_small() const { return !request_.plain && archive_.stored_size() <= kWholeSource; }

  Result<bool> prepare() {
    if (is_small()) {
      BALLAST_TRY(const bool there, has_all());
      if (!there) return false;
    }
    WritePlan plan = make_plan(archive_);
    ConvertOptions options = make_options();
    uint32_t last_twin = 0;
    if (options.tie) BALLAST_CHECK(mark_twins(archive_, plan, *request_.format, last_twin, 1, {}));
    prepared_ = std::make_unique<PreparedConversion>();
    BALLAST_CHECK(
        assign(*prepared_, prepare_conversion(std::move(plan), request_.file_name, *request_.format, options)));
    ConvertReport& report = prepared_->report;
    if (!report.losses.empty() && !request_.allow_lossy) return lossy_error(*request_.format, report.losses);
    if (!is_small() && !request_.plain) {
      report.notes.emplace_back("written piece by piece: ballast.origin is left out, and equal tensors are not tied");
    }
    BALLAST_CHECK(assign(planned_, request_.format->plan_write({prepared_->plan.description, prepared_->format,
                                                                request_.file_name, prepared_->plan.ties})));
    if (planned_->files().size() == 1) return true;
    const Error error =
        make_error(ErrorCode::kUnsupported, fmt::format("{} writes {} files, and here is one: choose another format",
                                                        request_.format->name, planned_->files().size()));
    planned_.reset();
    return error;
  }

  ConvertOptions make_options() {
    ConvertOptions options;
    options.edits.push_back([this](WritePlan& plan, std::vector<std::string>&) { return choose(plan); });
    if (request_.cast) {
      options.edits.push_back([this](WritePlan& plan, std::vector<std::string>& notes) -> Status {
        const bool has_blocks =
            std::ranges::any_of(plan.description.tensors, [](const TensorInfo& info) { return is_block(info.dtype); });
        if (has_blocks) BALLAST_CHECK(dequantize_tensors(*request_.cast)(plan, notes));
        return cast_floats({*request_.cast, {}})(plan, notes);
      });
    }
    if (request_.quantise) {
      options.edits.push_back([this](WritePlan& plan, std::vector<std::string>& notes) -> Status {
        QuantizeOptions quantize;
        if (const auto type = find_quantization_type(*request_.quantise)) {
          quantize.type = *type;
        } else {
          BALLAST_TRY(quantize.preset, find_quantization_preset(*request_.quantise));
        }
        return quantize_tensors(quantize, std::make_shared<QuantizationLog>())(plan, notes);
      });
    }
    options.config_text = request_.config;
    options.allow_lossy = request_.allow_lossy;
    options.tie = options.use_origin = is_small();
    options.dry_run = !is_small();  // nothing is tried whose bytes are not there
    return options;
  }

  // Keeps and renames. The source's place of every tensor is remembered under its new name.
  Status choose(WritePlan& plan) {
    std::map<std::string_view, size_t> wanted;
    for (size_t i = 0; i < request_.keep.size(); ++i) {
      if (request_.keep[i] >= archive_.tensors().size()) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("the archive has no tensor {}", request_.keep[i]));
      }
      wanted[archive_.tensors()[static_cast<size_t>(request_.keep[i])].name] = i;
    }
    std::vector<bool> keep;
    for (const TensorInfo& tensor : plan.description.tensors) keep.push_back(wanted.contains(tensor.name));
    keep_tensors(plan, keep);
    if (plan.description.tensors.empty() && !archive_.tensors().empty()) {
      return make_error(ErrorCode::kInvalidArgument, "no tensor is selected", Remedy::kSelectTensors);
    }
    std::map<std::string, size_t, std::less<>> position;
    for (TensorInfo& tensor : plan.description.tensors) {
      const size_t place = wanted.at(tensor.name);
      const auto source = static_cast<size_t>(request_.keep[place]);
      if (!request_.rename.empty() && request_.rename[place] != tensor.name) {
        tensor.name = request_.rename[place];
        tensor.set_stored_form({});
      }
      position[tensor.name] = source;
    }
    position_ = std::move(position);
    if (find_duplicate_names(plan.description.tensors).empty()) return {};
    const size_t twice = find_duplicate_names(plan.description.tensors).front();
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("two tensors would be called \"{}\"", plan.description.tensors[twice].name),
                      Remedy::kRenameTensors);
  }

  Result<bool> has_bytes_of(size_t index) {
    const auto found = position_.find(prepared_->plan.description.tensors[index].name);
    if (found == position_.end()) return true;
    return session_.has_stored(archive_, found->second);
  }

  Result<bool> write_some(Answer& answer) {
    ResumeSink sink(given_);
    SteppingFeed feed(prepared_->plan, sink, given_, [this](size_t index) { return has_bytes_of(index); });
    const auto status = planned_->emit(0, sink, feed);
    if (!session_.missing().empty()) return false;
    if (!status && !feed.stopped()) return status.error();
    given_ = sink.position();
    answer.bytes = sink.take();
    done = std::min(given_, total);
    return status.has_value();
  }

  // Of formats whose checksums stand before what they cover.
  Result<bool> write_whole(Answer& answer) {
    if (prepared_->report.payload_bytes > kMostAtOnce) {
      return make_error(ErrorCode::kOutOfMemory,
                        fmt::format("{} is put together in memory, and {} bytes are more than there is room for: use "
                                    "the command, or write safetensors",
                                    request_.format->name, prepared_->report.payload_bytes));
    }
    BALLAST_TRY(const bool there, has_all());
    if (!there) return false;
    MemorySink sink;
    PlanFeed feed(prepared_->plan);
    BALLAST_CHECK(planned_->emit(0, sink, feed));
    answer.bytes = sink.take();
    given_ = answer.bytes.size();
    done = total;
    return true;
  }

  void write_report(JsonWriter& json) const {
    const ConvertReport& report = prepared_->report;
    json.key("result").begin_object().key("sourceFormat").string(report.source_format);
    json.key("targetFormat").string(report.target_format).key("tensors").number(report.tensors);
    json.key("payloadBytes").number(report.payload_bytes).key("bytes").number(given_);
    json.key("notes").begin_array();
    for (const std::string& note : report.notes) json.string(note);
    json.end_array().key("losses").begin_array();
    for (const Loss& loss : report.losses) {
      json.string(loss.tensor.empty() ? loss.what : fmt::format("tensor \"{}\": {}", loss.tensor, loss.what));
    }
    json.end_array().end_object();
  }

  Session& session_;
  const Archive& archive_;
  ConvertRequest request_;
  std::map<std::string, size_t, std::less<>> position_;  // of an output's tensor in the source
  std::unique_ptr<PreparedConversion> prepared_;         // has an address of its own: the plan refers to it
  std::unique_ptr<PlannedWrite> planned_;
  uint64_t given_ = 0;
};

Result<std::unique_ptr<Work>> start_convert(Session& session, const JsonObject& request) {
  BALLAST_TRY(const uint64_t id, request.count("archive"));
  BALLAST_TRY(const OpenedArchive* opened, session.archive(id));
  ConvertRequest wanted;
  BALLAST_TRY(const std::string format, request.text("format"));
  BALLAST_CHECK(assign(wanted.format, choose_format(format)));
  BALLAST_CHECK(assign(wanted.file_name, request.text("fileName")));
  BALLAST_CHECK(assign(wanted.keep, request.counts("keep")));
  BALLAST_CHECK(assign(wanted.rename, request.texts("rename")));
  BALLAST_CHECK(assign(wanted.quantise, request.find_text("quantise")));
  BALLAST_CHECK(assign(wanted.config, request.find_text("config")));
  BALLAST_CHECK(assign(wanted.allow_lossy, request.truth_or("allowLossy", false)));
  BALLAST_CHECK(assign(wanted.plain, request.truth_or("plain", false)));
  BALLAST_TRY(const auto cast, request.find_text("cast"));
  if (cast) {
    wanted.cast = parse_dtype(*cast);
    if (!wanted.cast) return make_error(ErrorCode::kInvalidArgument, "there is no type \"" + *cast + "\"");
  }
  if (!wanted.rename.empty() && wanted.rename.size() != wanted.keep.size()) {
    return make_error(ErrorCode::kInvalidArgument, "every tensor that is kept needs a name");
  }
  return std::unique_ptr<Work>(std::make_unique<ConvertWork>(session, *opened->archive, std::move(wanted)));
}

Result<bool> formats_call(Session&, const JsonObject&, Answer& answer) {
  answer.json.key("formats").begin_array();
  for (const FormatDriver* format : all_formats()) {
    answer.json.begin_object().key("name").string(format->name).key("summary").string(format->summary);
    answer.json.key("extensions").begin_array();
    for (const std::string_view extension : format->extensions) answer.json.string(extension);
    answer.json.end_array().key("writes").boolean(format->plan_write != nullptr).end_object();
  }
  answer.json.end_array();
  return true;
}

constexpr CallRow kCallsOfWriters[] = {{"formats", formats_call}};
constexpr StartRow kStartsOfWriters[] = {{"convert", start_convert}};

}  // namespace

const std::span<const CallRow> kMoreCalls = kCallsOfWriters;
const std::span<const StartRow> kMoreStarts = kStartsOfWriters;

}  // namespace ballast::wasm
