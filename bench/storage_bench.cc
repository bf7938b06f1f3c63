// ballast_bench [--runs N] [--threads N] [--cold] WORK FILE [FILE]: times one piece of work inside the library, several
// times, and prints JSON. scripts/bench and scripts/bench_peers run it beside the peers; "result" is what must be the
// same for all, such as a sum.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>

#include "ballast/archive/convert.h"
#include "ballast/archive/diff.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"

namespace ballast {
namespace {

struct Settings {
  int runs = 7;
  unsigned threads = 0;
  bool cold = false;
  std::string work, first, second;
};

uint64_t sum_bytes(ByteSpan bytes) {
  // Wide words: the loop must not be slower than the memory it reads.
  uint64_t total = 0;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) total += load_le<uint64_t>(bytes.data() + at);
  for (; at < bytes.size(); ++at) total += std::to_integer<uint64_t>(bytes[at]);
  return total;
}

// ---------------------------------------------------------------- the pieces of work

Result<uint64_t> sum_plain_mapping(const Settings& settings) {
  BALLAST_TRY(const auto source, open_file(settings.first, FileAccess::kMapped));
  return sum_bytes(source->view(0, source->size()).value_or(ByteSpan()));
}

Result<uint64_t> sum_tensors(const Settings& settings) {
  BALLAST_TRY(const Archive archive, open_archive(settings.first));
  uint64_t total = 0;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    BALLAST_TRY(const Payload payload, archive.payload(i));
    total += sum_bytes(payload.bytes());
  }
  return total;
}

// Into memory of the caller, which every tensor finds as the one before left it.
Result<uint64_t> load_tensors(const Settings& settings) {
  BALLAST_TRY(const Archive archive, open_archive(settings.first));
  ByteVector memory;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const auto size = static_cast<size_t>(archive.tensors()[i].byte_size);
    if (memory.size() < size) memory.resize(size);
    BALLAST_CHECK(archive.read_into(i, MutableByteSpan(memory).first(size)));
  }
  return archive.tensors().size();
}

Result<uint64_t> open_only(const Settings& settings) {
  BALLAST_TRY(const Archive archive, open_archive(settings.first));
  return archive.tensors().size();
}

Result<uint64_t> digest(const Settings& settings) {
  BALLAST_TRY(const Archive archive, open_archive(settings.first));
  BALLAST_TRY(const auto digests,
              digest_tensors(archive, {.sha256 = false, .threads = settings.threads, .progress = {}}));
  return digests.size();
}

Result<uint64_t> diff(const Settings& settings) {
  BALLAST_TRY(const Archive left, open_archive(settings.first));
  BALLAST_TRY(const Archive right, open_archive(settings.second));
  DiffOptions options;
  options.threads = settings.threads;
  BALLAST_TRY(const DiffReport report, diff_archives(left, right, options));
  return report.entries.size();
}

Result<uint64_t> convert(const Settings& settings) {
  BALLAST_TRY(const Archive source, open_archive(settings.first));
  const FormatDriver* format = format_for_extension(settings.second);
  if (format == nullptr) return make_error(ErrorCode::kInvalidArgument, settings.second + ": unknown extension");
  ConvertOptions options;
  options.threads = settings.threads;
  BALLAST_TRY(const ConvertReport report, convert_archive(source, settings.second, *format, options));
  return report.written.bytes;
}

// What `write` writes: the tensors of the first file, in memory before the clock starts.
struct InMemory {
  WritePlan plan;
  std::vector<ByteVector> payloads;
};

Result<InMemory> load_plan(const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  InMemory loaded;
  loaded.plan.description = archive.description();
  loaded.plan.description.tensors.clear();
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    BALLAST_TRY(const Payload payload, archive.payload(i));
    loaded.payloads.emplace_back(payload.bytes().begin(), payload.bytes().end());
    loaded.plan.add_tensor(archive.tensors()[i], loaded.payloads.back());
  }
  return loaded;
}

Result<uint64_t> write(const InMemory& loaded, const std::string& to) {
  const FormatDriver* format = format_for_extension(to);
  if (format == nullptr) return make_error(ErrorCode::kInvalidArgument, to + ": unknown extension");
  BALLAST_TRY(const WriteReport report, write_archive(to, *format, loaded.plan, {}));
  return report.bytes;
}

// ---------------------------------------------------------------- timing

// Out of the page cache. What is not on the disk yet would stay.
void make_cold(const std::string& path) {
  if (path.empty()) return;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

int run(const Settings& settings, bool writes, const std::function<Result<uint64_t>()>& body) {
  std::vector<double> milliseconds;
  uint64_t last = 0;
  for (int i = 0; i < settings.runs; ++i) {
    if (writes) std::filesystem::remove(settings.second);
    if (settings.cold) make_cold(settings.first);
    if (settings.cold && !writes) make_cold(settings.second);
    const auto start = std::chrono::steady_clock::now();
    const auto result = body();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    if (!result) {
      fmt::print(stderr, "ballast_bench: {}\n", result.error().message);
      return 2;
    }
    milliseconds.push_back(taken.count());
    last = *result;
  }
  fmt::print("{{\"work\":\"{}\",\"result\":{},\"times_ms\":[{:.4f}]}}\n", settings.work, last,
             fmt::join(milliseconds, ","));
  return 0;
}

int run_write(const Settings& settings) {
  const auto loaded = load_plan(settings.first);
  if (!loaded) {
    fmt::print(stderr, "ballast_bench: {}\n", loaded.error().message);
    return 2;
  }
  return run(settings, true, [&] { return write(*loaded, settings.second); });
}

int run_work(const Settings& settings) {
  using Body = Result<uint64_t> (*)(const Settings&);
  static const std::map<std::string, Body> kWorks = {{"mapping", sum_plain_mapping},
                                                     {"open", open_only},
                                                     {"read", sum_tensors},
                                                     {"load", load_tensors},
                                                     {"digest", digest},
                                                     {"diff", diff},
                                                     {"convert", convert}};
  if (settings.work == "write") return run_write(settings);
  const auto found = kWorks.find(settings.work);
  if (found != kWorks.end() && !settings.first.empty()) {
    return run(settings, settings.work == "convert", [&] { return found->second(settings); });
  }
  fmt::print(stderr,
             "usage: ballast_bench [--runs N] [--threads N] [--cold] mapping|open|read|load|digest FILE\n"
             "       ballast_bench [--runs N] [--threads N] [--cold] diff|convert|write FILE FILE\n");
  return 2;
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  ballast::Settings settings;
  std::vector<std::string> words;
  const std::vector<std::string> all(arguments + 1, arguments + count);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto number = [&](auto& to) {
      if (++i < all.size()) std::from_chars(all[i].data(), all[i].data() + all[i].size(), to);
    };
    if (all[i] == "--cold") settings.cold = true;
    else if (all[i] == "--runs") number(settings.runs);
    else if (all[i] == "--threads") number(settings.threads);
    else words.push_back(all[i]);
  }
  words.resize(3);
  settings.work = words[0];
  settings.first = words[1];
  settings.second = words[2];
  return ballast::run_work(settings);
}
