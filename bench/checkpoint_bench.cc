// What saving a checkpoint costs: the pause of training beside a plain memory copy, the durable write beside `dd`.
//
//   checkpoint_bench [MEGABYTES] [FOLDER] [ROUNDS]    default 500, the working folder, 5
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "ballast/training/checkpoint.h"

namespace {

using namespace ballast;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr size_t kTensors = 48;  // as a model of that size has, two thirds of them optimizer state

struct Training {
  explicit Training(uint64_t bytes) : memory(kTensors) {
    for (size_t i = 0; i < kTensors; ++i) {
      memory[i].resize(bytes / kTensors / 64 * 64);
      SnapshotTensor tensor;
      tensor.info.name = fmt::format("tensor.{}", i);
      tensor.info.shape = {memory[i].size() / 4};
      tensor.info.byte_size = memory[i].size();
      tensor.bytes = memory[i];
      (i < kTensors / 3 ? snapshot.weights : snapshot.state).push_back(std::move(tensor));
    }
  }
  // Everything changes, as after a step of training.
  void step() {
    snapshot.step += 1;
    for (size_t i = 0; i < kTensors; ++i) {
      uint64_t state = snapshot.step * 1000 + i;
      for (size_t at = 0; at + 8 <= memory[i].size(); at += 8) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::memcpy(memory[i].data() + at, &state, 8);
      }
    }
  }

  std::vector<ByteVector> memory;
  TrainingSnapshot snapshot;
};

double copy_plainly(const Training& training, ByteVector& into) {
  const auto start = Clock::now();
  size_t offset = 0;
  for (const ByteVector& tensor : training.memory) {
    std::memcpy(into.data() + offset, tensor.data(), tensor.size());
    offset += tensor.size();
  }
  return seconds_since(start);
}

double write_with_dd(const std::string& source, const std::string& folder) {
  const std::string command = fmt::format("dd if='{}' of='{}/dd.out' bs=1M conv=fsync status=none", source, folder);
  const auto start = Clock::now();
  if (std::system(command.c_str()) != 0) return 0;
  return seconds_since(start);
}

int run(uint64_t megabytes, const std::string& parent, int rounds) {
  const std::string folder = parent + "/checkpoint_bench.tmp";
  std::filesystem::remove_all(folder);
  Training training(megabytes * 1'000'000);
  uint64_t total = 0;
  for (const ByteVector& tensor : training.memory) total += tensor.size();
  ByteVector copy(total);
  CheckpointOptions options;
  options.policy.keep_last = 1;
  auto manager = CheckpointManager::open(folder, options);
  if (!manager) return fmt::print(stderr, "{}\n", manager.error().message), 1;
  std::vector<double> plain, pause, write, digest, dd;
  for (int round = 0; round <= rounds; ++round) {  // the first one allocates and is not counted
    training.step();
    const double plain_seconds = copy_plainly(training, copy);
    const auto saved = (*manager)->save(training.snapshot);
    if (!saved) return fmt::print(stderr, "{}\n", saved.error().message), 1;
    if (const Status done = (*manager)->finish(); !done) return fmt::print(stderr, "{}\n", done.error().message), 1;
    const auto commit = (*manager)->last_commit();
    std::string weights;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().find("-state-") != std::string::npos) weights = entry.path().string();
    }
    const double state_share = static_cast<double>(std::filesystem::file_size(weights)) / static_cast<double>(total);
    const double dd_seconds = write_with_dd(weights, folder) / state_share;
    if (round == 0) continue;
    plain.push_back(plain_seconds);
    pause.push_back(saved->pause_seconds);
    write.push_back(commit->seconds);
    digest.push_back(commit->digest_seconds);
    dd.push_back(dd_seconds);
  }
  manager->reset();
  std::filesystem::remove_all(folder);
  const double bytes = static_cast<double>(total);
  fmt::print(
      "{{\"bytes\":{},\"rounds\":{},\"memcpy_seconds\":{:.4f},\"pause_seconds\":{:.4f},\"pause_ratio\":{:.3f},"
      "\"write_seconds\":{:.4f},\"digest_seconds\":{:.4f},\"dd_seconds\":{:.4f},\"write_rate_of_dd\":{:.3f},"
      "\"write_mb_s\":{:.0f}}}\n",
      total, rounds, median(plain), median(pause), median(pause) / median(plain), median(write), median(digest),
      median(dd), median(dd) / median(write), bytes / 1e6 / median(write));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t megabytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500;
  return run(std::max<uint64_t>(megabytes, 1), argc > 2 ? argv[2] : ".",
             argc > 3 ? std::max(std::atoi(argv[3]), 1) : 5);
}
