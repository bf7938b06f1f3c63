#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "ballast/base/near_miss.h"
#include "ballast/formats/format.h"
#include "ballast/io/guard.h"
#include "ballast/io/work_folder.h"
#include "ballast/training/checkpoints/checkpoint_manifest.h"
#include "ballast/training/checkpoints/checkpoint_prune.h"
#include "ballast/training/checkpoints/checkpoint_write.h"

namespace ballast {

namespace {

const std::string kLockName = "lock";

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Status check_options(const CheckpointOptions& options) {
  const FormatDriver* format = find_format(options.weights_format);
  if (format != nullptr && format->plan_write != nullptr && !format->extensions.empty()) {
    if (options.policy.keep_best == 0 || !options.policy.metric.empty()) return {};
    return make_error(ErrorCode::kInvalidArgument, "keeping the best checkpoints needs the name of a metric");
  }
  std::vector<std::string_view> names;
  for (const FormatDriver* driver : all_formats()) {
    if (driver->plan_write != nullptr && !driver->extensions.empty()) names.push_back(driver->name);
  }
  const std::string_view meant = nearest(options.weights_format, names);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("weights cannot be saved as \"{}\"; {}", options.weights_format,
                                meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", "))
                                              : fmt::format("did you mean \"{}\"?", meant)));
}

// Where what is read while a checkpoint is checked stays. None: it does not.
using GivenMemory = std::optional<std::vector<MutableByteSpan>>;

Result<GivenMemory> ask_for(const PayloadMemory& memory, const LoadedCheckpoint& opened) {
  GivenMemory out;
  if (memory) BALLAST_CHECK(assign(out, memory(opened)));
  return out;
}

}  // namespace

// The writer's thread owns everything below `list` while `writing` is true, and `copy` while `to_reserve` is not 0; the
// caller's thread at other times.
struct CheckpointManager::State {
  State(WorkFolder work_folder, FolderLock folder_lock, CheckpointOptions with)
      : folder(std::move(work_folder)), lock(std::move(folder_lock)), options(std::move(with)) {}

  WorkFolder folder;
  FolderLock lock;
  CheckpointOptions options;

  std::mutex mutex;
  std::condition_variable changed;
  bool writing = false;
  bool stopping = false;
  uint64_t to_reserve = 0;                // bytes that the writer's thread is to get memory for
  std::atomic<bool> copy_wanted = false;  // ends that
  std::optional<Error> failure;           // of the last write, until somebody hears of it
  std::optional<CommitReport> committed;

  CheckpointList list;
  std::set<uint64_t> unsound;  // steps whose files turned out damaged: neither counted nor removed
  KnownFiles known;
  SnapshotCopy copy;
  std::thread thread;

  Status start();
  Status scan();
  bool wait_until_idle();
  void end_reservation();
  Status take_failure();
  void write_in_background();
  Result<CommitReport> write_copy();
  std::vector<bool> choose_kept(const CheckpointPolicy& policy) const;
  Result<PruneReport> prune(const CheckpointPolicy& policy, const std::vector<std::string>& forgotten, bool dry_run);
  Status check_payloads(const LoadedCheckpoint& opened, const GivenMemory& out, const Progress& progress);
};

Status CheckpointManager::State::start() {
  try {
    thread = std::thread([this] { write_in_background(); });
    return {};
  } catch (const std::system_error& failure) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("{}: the system has no thread left for writing checkpoints ({}); allow more, or stop "
                                  "other programs",
                                  folder.path(), failure.code().message()));
  }
}

Status CheckpointManager::State::scan() { return assign(list, list_checkpoints(folder.path(), options.file_system)); }

// True when there was something to wait for.
bool CheckpointManager::State::wait_until_idle() {
  std::unique_lock held(mutex);
  const bool waited = writing;
  changed.wait(held, [&] { return !writing; });
  return waited;
}

void CheckpointManager::State::end_reservation() {
  copy_wanted = true;
  std::unique_lock held(mutex);
  changed.wait(held, [&] { return to_reserve == 0; });
}

Status CheckpointManager::State::take_failure() {
  const std::lock_guard held(mutex);
  if (!failure) return {};
  return *std::exchange(failure, std::nullopt);
}

void CheckpointManager::State::write_in_background() {
  std::unique_lock held(mutex);
  for (;;) {
    changed.wait(held, [&] { return writing || to_reserve > 0 || stopping; });
    if (!writing && to_reserve == 0) return;
    if (!writing) {
      const uint64_t bytes = to_reserve;
      held.unlock();
      static_cast<void>(guarded([&]() -> Status {
        copy.reserve(bytes, copy_wanted);
        return {};
      }));
      held.lock();
      to_reserve = 0;
      changed.notify_all();
      continue;
    }
    held.unlock();
    Result<CommitReport> report = guarded([&] { return write_copy(); });
    held.lock();
    if (report) committed = std::move(*report);
    else failure = std::move(report).error().with_context(fmt::format("saving step {}", copy.get().step));
    writing = false;
    changed.notify_all();
  }
}

Result<CommitReport> CheckpointManager::State::write_copy() {
  const TrainingSnapshot& snapshot = copy.get();
  const uint64_t sequence = list.checkpoints.empty() ? 1 : list.checkpoints.back().sequence + 1;
  auto written = write_checkpoint(snapshot, {folder.path(), options, known, sequence});
  if (!written) {
    // It may be in place all the same: the last sync can fail after everything else was done.
    static_cast<void>(scan());
    known.keep_only(list.checkpoints);
    return std::move(written).error();
  }
  known.add(written->manifest);
  unsound.erase(snapshot.step);
  std::erase_if(list.damaged, [&](const DamagedManifest& damaged) {
    return damaged.file == checkpoint_manifest_name(snapshot.step);
  });
  std::vector<std::string> forgotten;  // of a checkpoint of the same step, which this one has replaced
  std::erase_if(list.checkpoints, [&](const CheckpointManifest& before) {
    if (before.step != snapshot.step) return false;
    for (const CheckpointFile& file : before.files) forgotten.push_back(file.name);
    return true;
  });
  list.checkpoints.push_back(std::move(written->manifest));
  auto pruned = prune(options.policy, forgotten, false);
  // The checkpoint is safe; room that could not be made is worth a note, and is tried again next time.
  if (pruned) written->report.pruned = std::move(*pruned);
  else written->report.pruned.notes.push_back(pruned.error().message);
  return std::move(written->report);
}

std::vector<bool> CheckpointManager::State::choose_kept(const CheckpointPolicy& policy) const {
  std::vector<CheckpointManifest> sound;  // as far as the policy looks at them
  for (const CheckpointManifest& checkpoint : list.checkpoints) {
    if (unsound.contains(checkpoint.step)) continue;
    CheckpointManifest& copied = sound.emplace_back();
    copied.step = checkpoint.step;
    copied.metrics = checkpoint.metrics;
  }
  const std::vector<std::string> reasons = find_kept(sound, policy);
  std::vector<bool> keep;
  size_t next = 0;
  for (const CheckpointManifest& checkpoint : list.checkpoints) {
    keep.push_back(unsound.contains(checkpoint.step) || !reasons[next++].empty());
  }
  return keep;
}

Result<PruneReport> CheckpointManager::State::prune(const CheckpointPolicy& policy,
                                                    const std::vector<std::string>& forgotten, bool dry_run) {
  auto report = prune_checkpoints(folder, list, choose_kept(policy), forgotten, {dry_run, options.sync});
  if (!report) static_cast<void>(scan());
  if (!dry_run) known.keep_only(list.checkpoints);
  return report;
}

Status CheckpointManager::State::check_payloads(const LoadedCheckpoint& opened, const GivenMemory& out,
                                                const Progress& progress) {
  BALLAST_TRY(const std::vector<std::string> damage,
              out ? opened.read_all(*out, options.threads, progress) : opened.find_damage(options.threads, progress));
  if (!damage.empty()) {
    return make_error(ErrorCode::kCorrupt, damage.size() == 1
                                               ? damage.front()
                                               : fmt::format("{} (and {} more)", damage.front(), damage.size() - 1));
  }
  known.add(opened.manifest());
  unsound.erase(opened.step());
  return {};
}

// ---------------------------------------------------------------- the door

CheckpointManager::CheckpointManager(std::unique_ptr<State> state) : state_(std::move(state)) {}

CheckpointManager::~CheckpointManager() {
  if (state_ == nullptr || !state_->thread.joinable()) return;
  state_->wait_until_idle();
  state_->end_reservation();
  {
    const std::lock_guard held(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

Result<std::unique_ptr<CheckpointManager>> CheckpointManager::open(const std::string& path, CheckpointOptions options) {
  return guarded([&]() -> Result<std::unique_ptr<CheckpointManager>> {
    BALLAST_CHECK(check_options(options));
    const FileSystem& files = options.file_system != nullptr ? *options.file_system : os_file_system();
    BALLAST_TRY(WorkFolder folder, WorkFolder::create(path, files, options.sync));
    BALLAST_TRY(FolderLock lock, FolderLock::take(folder, kLockName));
    static_cast<void>(folder.remove_stale_temporaries());
    auto state = std::make_unique<State>(std::move(folder), std::move(lock), std::move(options));
    BALLAST_CHECK(state->scan());
    // Only what nobody names: which checkpoints to keep is asked when there is a new one.
    BALLAST_CHECK(state->prune({.keep_last = 0}, {}, false));
    std::unique_ptr<CheckpointManager> manager(new CheckpointManager(std::move(state)));
    BALLAST_CHECK(manager->state_->start());
    return manager;
  });
}

Result<ResumeReport> CheckpointManager::resume(const Progress& progress, const PayloadMemory& memory) {
  return guarded([&]() -> Result<ResumeReport> {
    state_->wait_until_idle();
    BALLAST_CHECK(state_->take_failure());
    BALLAST_CHECK(state_->scan());
    ResumeReport report;
    for (const DamagedManifest& damaged : state_->list.damaged) report.rejected.push_back(damaged.why);
    const auto& checkpoints = state_->list.checkpoints;
    for (auto manifest = checkpoints.rbegin(); manifest != checkpoints.rend() && !report.checkpoint; ++manifest) {
      auto opened = LoadedCheckpoint::open(state_->folder.path(), *manifest);
      GivenMemory out;
      // An error of the caller's says nothing about the checkpoint.
      if (opened) BALLAST_CHECK(assign(out, ask_for(memory, *opened)));
      const Status sound = opened ? state_->check_payloads(*opened, out, progress) : opened.error();
      if (sound) {
        report.checkpoint = std::move(*opened);
        continue;
      }
      const ErrorCode code = sound.error().code;  // nor do these two
      if (code == ErrorCode::kOutOfMemory || code == ErrorCode::kCancelled) return sound.error();
      report.rejected.push_back(fmt::format("step {}: {}", manifest->step, sound.error().message));
      state_->unsound.insert(manifest->step);
    }
    return report;
  });
}

Result<LoadedCheckpoint> CheckpointManager::resume_from(uint64_t step, const Progress& progress,
                                                        const PayloadMemory& memory) {
  return guarded([&]() -> Result<LoadedCheckpoint> {
    state_->wait_until_idle();
    BALLAST_CHECK(state_->take_failure());
    BALLAST_CHECK(state_->scan());
    for (const CheckpointManifest& manifest : state_->list.checkpoints) {
      if (manifest.step != step) continue;
      BALLAST_TRY(LoadedCheckpoint opened, LoadedCheckpoint::open(state_->folder.path(), manifest));
      BALLAST_TRY(const GivenMemory out, ask_for(memory, opened));
      BALLAST_CHECK(state_->check_payloads(opened, out, progress));
      return opened;
    }
    for (const DamagedManifest& damaged : state_->list.damaged) {
      if (damaged.file == checkpoint_manifest_name(step)) return make_error(ErrorCode::kCorrupt, damaged.why);
    }
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: there is no checkpoint of step {}", state_->folder.path(), step));
  });
}

Result<SaveReport> CheckpointManager::save(const TrainingSnapshot& snapshot) {
  return guarded([&]() -> Result<SaveReport> {
    const auto start = Clock::now();
    SaveReport report;
    BALLAST_CHECK(check_snapshot(snapshot));
    const auto before_wait = Clock::now();
    report.waited = state_->wait_until_idle();
    report.wait_seconds = report.waited ? seconds_since(before_wait) : 0;
    BALLAST_CHECK(state_->take_failure());
    const auto before_copy = Clock::now();
    state_->end_reservation();
    BALLAST_CHECK(state_->copy.take(snapshot, state_->options.threads));
    report.bytes = state_->copy.bytes();
    report.copy_seconds = seconds_since(before_copy);
    {
      const std::lock_guard held(state_->mutex);
      state_->writing = true;
    }
    state_->changed.notify_all();
    report.pause_seconds = seconds_since(start);
    return report;
  });
}

void CheckpointManager::reserve(uint64_t bytes) {
  const auto available = available_memory();
  if (available && bytes > *available / 2) return;
  {
    const std::lock_guard held(state_->mutex);
    state_->to_reserve = bytes;
  }
  state_->changed.notify_all();
}

Status CheckpointManager::finish() {
  state_->wait_until_idle();
  return state_->take_failure();
}

bool CheckpointManager::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock held(state_->mutex);
  return state_->changed.wait_for(held, time, [&] { return !state_->writing; });
}

void CheckpointManager::abandon_after_fork() {
  // The rest is leaked: the thread cannot be joined here, and the mutex may have been held when the process forked.
  State* const state = state_.release();
  const FolderLock lock = std::move(state->lock);
  const WorkFolder folder = std::move(state->folder);
}

std::optional<CommitReport> CheckpointManager::last_commit() const {
  const std::lock_guard held(state_->mutex);
  return state_->committed;
}

Result<PruneReport> CheckpointManager::prune(const CheckpointPolicy& policy, bool dry_run) {
  return guarded([&]() -> Result<PruneReport> {
    state_->wait_until_idle();
    BALLAST_CHECK(state_->take_failure());
    if (policy.keep_best > 0 && policy.metric.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "keeping the best checkpoints needs the name of a metric");
    }
    BALLAST_CHECK(state_->scan());
    BALLAST_TRY(PruneReport report, state_->prune(policy, {}, dry_run));
    for (const DamagedManifest& damaged : state_->list.damaged) {
      report.notes.push_back(fmt::format("left alone, because it cannot be read: {}", damaged.why));
    }
    return report;
  });
}

}  // namespace ballast
