#include "ballast/archive/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ballast/archive/archive_read_ahead.h"
#include "ballast/archive/memory_gate.h"
#include "ballast/archive/planned_set.h"
#include "ballast/base/checked.h"
#include "ballast/formats/payload_order.h"
#include "ballast/formats/tie.h"
#include "ballast/io/guard.h"
#include "ballast/io/stream.h"

namespace ballast {

namespace {

// Large enough for full disk speed, small enough that progress and Ctrl-C stay lively.
constexpr size_t kWriteChunk = size_t{8} << 20;

// ---------------------------------------------------------------- drawing tensors

// Counts what a provider writes, reports progress, and passes everything on.
class FeedSink final : public ByteSink {
 public:
  FeedSink(ByteSink& sink, const Progress& progress, uint64_t done, uint64_t total)
      : sink_(sink), progress_(progress), done_(done), total_(total) {}

  Status write(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ByteSpan now = bytes.first(std::min(bytes.size(), kWriteChunk));
      BALLAST_CHECK(sink_.write(now));
      written_ += now.size();
      BALLAST_CHECK(report_progress(progress_, {"writing", done_ + written_, total_}));
      bytes = bytes.subspan(now.size());
    }
    return {};
  }
  Status patch(uint64_t, ByteSpan) override {
    return make_error(ErrorCode::kInvalidArgument, "a tensor provider cannot patch what it has written");
  }
  uint64_t position() const override { return written_; }

 private:
  ByteSink& sink_;
  const Progress& progress_;
  uint64_t done_;
  uint64_t total_;
  uint64_t written_ = 0;
};

class ProviderFeed final : public TensorFeed {
 public:
  ProviderFeed(const WritePlan& plan, const Progress& progress) : plan_(plan), progress_(progress) {
    const auto& tensors = plan.description.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) total_ += payload_owner(plan.ties, i) == i ? tensors[i].byte_size : 0;
  }

  Status emit(size_t index, PayloadForm form, ByteSink& sink) override {
    const TensorInfo& tensor = plan_.description.tensors[index];
    if (form.big_endian || form.fortran_order) BALLAST_CHECK(emit_reordered(index, form, sink));
    else BALLAST_CHECK(draw(index, sink));
    done_ += tensor.byte_size;
    return {};
  }

 private:
  Status draw(size_t index, ByteSink& sink) {
    const TensorInfo& tensor = plan_.description.tensors[index];
    FeedSink counted(sink, progress_, done_, total_);
    if (auto status = plan_.providers[index](counted); !status) {
      return std::move(status).error().with_context(fmt::format("tensor \"{}\"", tensor.name));
    }
    if (counted.position() == tensor.byte_size) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\": its provider wrote {} bytes, the plan has {}", tensor.name,
                                  counted.position(), tensor.byte_size));
  }

  Status emit_reordered(size_t index, PayloadForm form, ByteSink& sink) {
    const TensorInfo& tensor = plan_.description.tensors[index];
    MemorySink memory;
    BALLAST_CHECK(draw(index, memory));
    ByteVector bytes = memory.take();
    if (form.fortran_order) {
      ByteVector ordered(bytes.size());
      row_major_to_fortran(tensor.shape, bytes, ordered);
      bytes = std::move(ordered);
    }
    if (form.big_endian) swap_byte_order(tensor.dtype, bytes);
    return sink.write(bytes);
  }

  const WritePlan& plan_;
  const Progress& progress_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

// What all tensors drawn from one archive share.
struct Drawing {
  explicit Drawing(const Archive& source) : archive(source), ahead(source) {}

  const Archive& archive;
  ArchiveReadAhead ahead;
  MemoryGate gate;
};

// A plain payload in pieces: memory does not follow the tensor's size, and the disk reads on meanwhile.
Status stream_plain(Drawing& drawing, size_t index, ByteSink& sink) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  const StoredExtent& extent = drawing.archive.extent(index);
  const ByteSource& source = *drawing.archive.sources()[extent.source];
  const auto view = source.view(extent.offset, extent.length);
  ByteVector buffer(view ? 0 : static_cast<size_t>(std::min(extent.length, kPiece)));
  for (uint64_t at = 0; at < extent.length; at += kPiece) {
    drawing.ahead.reading(index, at);
    const auto now = static_cast<size_t>(std::min(kPiece, extent.length - at));
    if (!view) BALLAST_CHECK(source.read_at(extent.offset + at, MutableByteSpan(buffer).first(now)));
    BALLAST_CHECK(sink.write(view ? view->subspan(static_cast<size_t>(at), now) : ByteSpan(buffer).first(now)));
  }
  return {};
}

Status stream_tensor(Drawing& drawing, size_t index, ByteSink& sink) {
  const Archive& archive = drawing.archive;
  const StoredExtent& extent = archive.extent(index);
  if (extent.is_canonical()) {
    if (extent.crc32) drawing.ahead.reading(index, 0);
    BALLAST_CHECK(archive.check_crc(index));
    return stream_plain(drawing, index, sink);
  }
  drawing.ahead.reading(index, 0);
  const uint64_t size = archive.tensors()[index].byte_size;
  if (extent.deflated) {
    constexpr uint64_t kInOrder = uint64_t{2} << 20;
    const bool in_order = !extent.fortran_order && extent.view == nullptr;
    const MemoryGate::Pass pass(drawing.gate, std::min(size, in_order ? kInOrder : Archive::kStreamMemory));
    return archive.stream_deflated(index, sink);
  }
  const MemoryGate::Pass pass(drawing.gate, size);
  BALLAST_TRY(const Payload payload, archive.payload(index));
  return sink.write(payload.bytes());
}

// ---------------------------------------------------------------- checking a plan

Status check_ties(const WritePlan& plan) {
  if (plan.ties.empty()) return {};
  const auto& tensors = plan.description.tensors;
  bool sound = plan.ties.size() == tensors.size();
  for (size_t i = 0; sound && i < plan.ties.size(); ++i) {
    const size_t owner = plan.ties[i];
    sound = owner <= i && plan.ties[owner] == owner && tensors[owner].byte_size == tensors[i].byte_size;
  }
  if (sound) return {};
  return make_error(ErrorCode::kInvalidArgument, "the ties of a write plan do not fit its tensors");
}

Status check_plan(const FormatDriver& format, const WritePlan& plan, const WriteOptions& options) {
  if (format.plan_write == nullptr) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{} files are read but not written", format.name));
  }
  if (plan.providers.size() != plan.description.tensors.size()) {
    return make_error(ErrorCode::kInvalidArgument, "a write plan needs one provider per tensor");
  }
  BALLAST_CHECK(check_ties(plan));
  const auto duplicates = find_duplicate_names(plan.description.tensors);
  if (!duplicates.empty()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensor name \"{}\" stands twice in the plan",
                                                               plan.description.tensors[duplicates.front()].name));
  }
  return check_write_options(format, options);
}

Status refuse_losses(const FormatDriver& format, const Description& description, const WriteOptions& options,
                     bool accept) {
  std::vector<Loss> losses = format.find_losses(description, options);
  if (accept) std::erase_if(losses, [](const Loss& loss) { return loss.acceptable; });
  if (losses.empty()) return {};
  return lossy_error(format, losses);
}

Result<WriteReport> write_files(const std::string& path, const PlannedSet& set, const WritePlan& plan,
                                const WriteSettings& settings) {
  AtomicFiles own(settings.commit);
  AtomicFiles& output = settings.set != nullptr ? *settings.set : own;
  ProviderFeed feed(plan, settings.progress);
  WriteReport report;
  const std::vector<PlannedFile>& files = set.write->files();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file_path = set.path_of(path, i);
    const bool is_named_by_last = set.write->is_indexed() && i + 1 < files.size();
    const uint64_t size = files[i].size.value_or(0);
    BALLAST_TRY(ByteSink * sink, is_named_by_last ? output.add_new(file_path, size) : output.add(file_path, size));
    BALLAST_CHECK(set.write->emit(i, *sink, feed));
    if (files[i].size && sink->position() != *files[i].size) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {} bytes were planned, {} written", file_path,
                                                                 *files[i].size, sink->position()));
    }
    report.files.push_back(file_path);
    report.bytes += sink->position();
  }
  for (const std::string& superseded : set.superseded) output.remove_after_commit(superseded);
  if (settings.set == nullptr) BALLAST_CHECK(own.commit());
  return report;
}

// Through a pipe, directly or, where the format patches, by way of a temporary file.
Result<WriteReport> write_stream(const std::string& name, const FormatDriver& format, const PlannedWrite& planned,
                                 const WritePlan& plan, const WriteSettings& settings) {
  if (planned.files().size() != 1) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} writes {} files here; a pipe takes one: give a path",
                                                               format.name, planned.files().size()));
  }
  ProviderFeed feed(plan, settings.progress);
  PipeSink& pipe = *settings.stream->sink;
  const uint64_t start = pipe.position();
  if (planned.patches()) {
    BALLAST_TRY(SpoolFile spool, SpoolFile::create(settings.stream->spool_folder, settings.commit.file_system));
    BALLAST_CHECK(planned.emit(0, spool.sink(), feed));
    BALLAST_TRY(const auto written, std::move(spool).to_source(name, FileAccess::kPositional));
    BALLAST_CHECK(copy_source(*written, pipe));
  } else {
    BALLAST_CHECK(planned.emit(0, pipe, feed));
  }
  BALLAST_CHECK(pipe.flush());
  return WriteReport{{name}, pipe.position() - start};
}

// ---------------------------------------------------------------- preview

// Keeps what a driver writes itself and only the length of what it draws.
class StructureSink final : public ByteSink {
 public:
  Status write(ByteSpan bytes) override {
    ByteVector& run = runs_[run_start_];
    run.insert(run.end(), bytes.begin(), bytes.end());
    position_ += bytes.size();
    return {};
  }
  Status write_zeros(uint64_t count) override {
    constexpr uint64_t kShort = 4096;  // padding stays part of its run
    if (count <= kShort) return ByteSink::write_zeros(count);
    position_ += count;
    run_start_ = position_;
    return {};
  }
  Status patch(uint64_t offset, ByteSpan bytes) override {
    auto run = runs_.upper_bound(offset);
    if (run == runs_.begin()) return {};
    --run;
    // What lies outside the run is payload, which nobody has.
    const uint64_t from = offset - run->first;
    for (uint64_t i = 0; i < bytes.size() && from + i < run->second.size(); ++i) run->second[from + i] = bytes[i];
    return {};
  }
  uint64_t position() const override { return position_; }

  std::map<uint64_t, ByteVector> take() { return std::move(runs_); }

 private:
  std::map<uint64_t, ByteVector> runs_;  // by offset
  uint64_t run_start_ = 0;
  uint64_t position_ = 0;
};

// Reads back what a StructureSink kept; zeros elsewhere.
class StructureSource final : public ByteSource {
 public:
  StructureSource(std::map<uint64_t, ByteVector> runs, uint64_t size, std::string name)
      : runs_(std::move(runs)), size_(size), name_(std::move(name)) {}

  uint64_t size() const override { return size_; }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return name_; }

  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    if (!range_fits(offset, out.size(), size_)) return make_error(ErrorCode::kCorrupt, name_ + ": past the end");
    std::ranges::fill(out, std::byte{0});
    auto run = runs_.upper_bound(offset);
    if (run != runs_.begin()) --run;
    for (; run != runs_.end() && run->first < offset + out.size(); ++run) {
      const uint64_t begin = std::max(offset, run->first);
      const uint64_t end = std::min(offset + out.size(), run->first + run->second.size());
      for (uint64_t at = begin; at < end; ++at) out[at - offset] = run->second[at - run->first];
    }
    return {};
  }

 private:
  std::map<uint64_t, ByteVector> runs_;
  uint64_t size_;
  std::string name_;
};

// Payloads that nobody looks at. They do not begin with zeros: where a reader wonders whether some bytes are padding or
// data (Burnpack), they must not look like padding.
class PlaceholderFeed final : public TensorFeed {
 public:
  explicit PlaceholderFeed(const Description& description) : description_(description) {}
  Status emit(size_t index, PayloadForm, ByteSink& sink) override {
    const uint64_t size = description_.tensors[index].byte_size;
    if (size == 0) return {};
    BALLAST_CHECK(sink.write_text("\xff"));
    return sink.write_zeros(size - 1);
  }

 private:
  const Description& description_;
};

class MemorySiblings final : public SiblingOpener {
 public:
  void add(const std::string& name, std::shared_ptr<const ByteSource> source) { files_[name] = std::move(source); }
  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view file_name) override {
    const auto found = files_.find(file_name);
    if (found == files_.end()) return make_error(ErrorCode::kNotFound, std::string(file_name) + ": no such file");
    return found->second;
  }

 private:
  std::map<std::string, std::shared_ptr<const ByteSource>, std::less<>> files_;
};

}  // namespace

void WritePlan::add_tensor(TensorInfo info, ByteSpan payload) {
  add_tensor(std::move(info), [payload](ByteSink& sink) { return sink.write(payload); });
}

void WritePlan::add_tensor(TensorInfo info, TensorProvider provider) {
  description.tensors.push_back(std::move(info));
  providers.push_back(std::move(provider));
}

WritePlan make_plan(const Archive& archive) {
  WritePlan plan;
  plan.description = archive.description();
  plan.providers.reserve(archive.tensors().size());
  const auto drawing = std::make_shared<Drawing>(archive);
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    plan.providers.push_back([drawing, i](ByteSink& sink) { return stream_tensor(*drawing, i, sink); });
  }
  return plan;
}

void keep_tensors(WritePlan& plan, const std::vector<bool>& keep) {
  size_t to = 0;
  for (size_t from = 0; from < keep.size(); ++from) {
    if (!keep[from]) continue;
    if (to != from) {
      plan.description.tensors[to] = std::move(plan.description.tensors[from]);
      plan.providers[to] = std::move(plan.providers[from]);
    }
    ++to;
  }
  plan.description.tensors.resize(to);
  plan.providers.resize(to);
}

Status check_write_options(const FormatDriver& format, const WriteOptions& options) {
  const auto refuse = [&](const std::string& what) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} {}", format.name, what));
  };
  if (options.compress && !format.can_compress) return refuse("files are not compressed");
  if (options.shard_size != 0 && !format.can_shard) return refuse("files cannot be sharded");
  if (options.allow_half && !format.can_allow_half) return refuse("needs no leave to store f16 and bf16");
  if (options.target.empty() || std::ranges::find(format.targets, options.target) != format.targets.end()) return {};
  if (format.targets.empty()) return refuse("has no targets to choose from");
  return refuse(fmt::format("has no target \"{}\"; it has: {}", options.target, fmt::join(format.targets, ", ")));
}

Error lossy_error(const FormatDriver& format, const std::vector<Loss>& losses) {
  constexpr size_t kShown = 20;
  std::string text = fmt::format("{} cannot hold everything:", format.name);
  for (size_t i = 0; i < std::min(losses.size(), kShown); ++i) {
    text += losses[i].tensor.empty() ? fmt::format("\n  {}", losses[i].what)
                                     : fmt::format("\n  tensor \"{}\": {}", losses[i].tensor, losses[i].what);
  }
  if (losses.size() > kShown) text += fmt::format("\n  and {} more", losses.size() - kShown);
  Remedies remedies;
  for (const Loss& loss : losses) remedies.add(loss.remedies);
  return make_error(ErrorCode::kLossy, std::move(text), remedies);
}

Result<WriteReport> write_archive(const std::string& path, const FormatDriver& format, const WritePlan& plan,
                                  const WriteSettings& settings) {
  return guarded([&]() -> Result<WriteReport> {
    BALLAST_CHECK(check_plan(format, plan, settings.format));
    BALLAST_CHECK(refuse_losses(format, plan.description, settings.format, settings.accept_losses));
    const std::string file_name = std::filesystem::path(path).filename().string();
    const WriteRequest request{plan.description, settings.format, file_name, plan.ties};
    if (settings.stream != nullptr) {
      BALLAST_TRY(const auto planned, format.plan_write(request));
      return write_stream(path, format, *planned, plan, settings);
    }
    BALLAST_TRY(const PlannedSet set, plan_set(path, format, request, settings.commit));
    return write_files(path, set, plan, settings);
  });
}

Result<ByteVector> write_archive_bytes(const FormatDriver& format, const WritePlan& plan, const WriteOptions& options) {
  return guarded([&]() -> Result<ByteVector> {
    BALLAST_CHECK(check_plan(format, plan, options));
    BALLAST_CHECK(refuse_losses(format, plan.description, options, /*accept=*/false));
    BALLAST_TRY(const auto planned, format.plan_write({plan.description, options, "memory", plan.ties}));
    if (planned->files().size() != 1) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{} writes several files; give a path", format.name));
    }
    MemorySink sink;
    const Progress silent;
    ProviderFeed feed(plan, silent);
    BALLAST_CHECK(planned->emit(0, sink, feed));
    return sink.take();
  });
}

Result<Description> preview_description(const FormatDriver& format, const Description& description,
                                        const WriteOptions& options, const std::string& file_name,
                                        std::span<const uint32_t> ties) {
  return guarded([&]() -> Result<Description> {
    WriteOptions plain = options;
    plain.compress = false;  // changes no description, and sizes would need the data
    BALLAST_TRY(const auto planned, format.plan_write({description, plain, file_name, ties}));
    MemorySiblings siblings;
    OpenRequest request;
    for (size_t i = 0; i < planned->files().size(); ++i) {
      StructureSink sink;
      PlaceholderFeed feed(description);
      BALLAST_CHECK(planned->emit(i, sink, feed));
      const std::string& planned_name = planned->files()[i].file_name;
      request.file_name = planned_name.empty() ? file_name : planned_name;
      const uint64_t size = sink.position();
      request.source = std::make_shared<StructureSource>(sink.take(), size, request.file_name);
      siblings.add(request.file_name, request.source);
    }
    request.siblings = &siblings;  // the last file is the one that names the others
    Findings findings = Findings::stop_at_first_error();
    BALLAST_TRY(const Archive archive, format.open(request, findings));
    return archive.description();
  });
}

}  // namespace ballast
