// ballast_bench WORK FILE [FILE]: times one piece of work inside the library, several times, and prints JSON.
// scripts/bench runs it beside the peers and draws the table of docs/performance.md.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>

#include "ballast/archive/convert.h"
#include "ballast/archive/diff.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"

namespace ballast {
namespace {

constexpr int kRuns = 7;

uint64_t sum_bytes(ByteSpan bytes) {
  // Wide words: the loop must not be slower than the memory it reads.
  uint64_t total = 0;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) total += load_le<uint64_t>(bytes.data() + at);
  for (; at < bytes.size(); ++at) total += std::to_integer<uint64_t>(bytes[at]);
  return total;
}

Result<uint64_t> sum_plain_mapping(const std::string& path) {
  BALLAST_TRY(const auto source, open_file(path, FileAccess::kMapped));
  return sum_bytes(source->view(0, source->size()).value_or(ByteSpan()));
}

Result<uint64_t> sum_tensors(const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  uint64_t total = 0;
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    BALLAST_TRY(const Payload payload, archive.payload(i));
    total += sum_bytes(payload.bytes());
  }
  return total;
}

Result<uint64_t> open_only(const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  return archive.tensors().size();
}

Result<uint64_t> digest(const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(path));
  BALLAST_TRY(const auto digests, digest_tensors(archive));
  return digests.size();
}

Result<uint64_t> diff(const std::string& a, const std::string& b) {
  BALLAST_TRY(const Archive left, open_archive(a));
  BALLAST_TRY(const Archive right, open_archive(b));
  BALLAST_TRY(const DiffReport report, diff_archives(left, right));
  return report.entries.size();
}

Result<uint64_t> convert(const std::string& from, const std::string& to) {
  BALLAST_TRY(const Archive source, open_archive(from));
  const FormatDriver* format = format_for_extension(to);
  if (format == nullptr) return make_error(ErrorCode::kInvalidArgument, to + ": unknown extension");
  ConvertOptions options;
  options.write.commit.overwrite = true;
  BALLAST_TRY(const ConvertReport report, convert_archive(source, to, *format, options));
  return report.written.bytes;
}

int run(const std::string& work, const std::function<Result<uint64_t>()>& body) {
  std::vector<double> milliseconds;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = body();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    if (!result) {
      fmt::print(stderr, "ballast_bench: {}\n", result.error().message);
      return 2;
    }
    milliseconds.push_back(taken.count());
  }
  std::ranges::sort(milliseconds);
  fmt::print("{{\"work\":\"{}\",\"runs\":{},\"best_ms\":{:.3f},\"median_ms\":{:.3f}}}\n", work, kRuns,
             milliseconds.front(), milliseconds[kRuns / 2]);
  return 0;
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  using namespace ballast;
  const std::string work = count > 1 ? arguments[1] : "";
  const std::string first = count > 2 ? arguments[2] : "";
  const std::string second = count > 3 ? arguments[3] : "";
  if (work == "mapping") return run(work, [&] { return sum_plain_mapping(first); });
  if (work == "open") return run(work, [&] { return open_only(first); });
  if (work == "read") return run(work, [&] { return sum_tensors(first); });
  if (work == "digest") return run(work, [&] { return digest(first); });
  if (work == "diff") return run(work, [&] { return diff(first, second); });
  if (work == "convert") return run(work, [&] { return convert(first, second); });
  fmt::print(stderr,
             "usage: ballast_bench mapping|open|read|digest FILE\n       ballast_bench diff|convert FILE FILE\n");
  return 2;
}
