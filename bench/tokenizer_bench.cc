// tokenizer_bench TOKENIZER FILE [RUNS]: times Tokenizer::encode of the whole file, on one thread, and prints JSON with
// the number of tokens and a digest of them. scripts/bench_peers runs it beside the peers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include "ballast/io/file.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast {
namespace {

// FNV-1a over the ids, so that a run whose tokens differ from the peers' is noticed.
uint64_t digest_of(const std::vector<TokenId>& ids) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const TokenId id : ids) digest = (digest ^ id) * 0x100000001b3;
  return digest;
}

Status bench(const std::string& tokenizer_path, const std::string& text_path, int runs) {
  const auto begin = std::chrono::steady_clock::now();
  BALLAST_TRY(const Tokenizer tokenizer, load_tokenizer(tokenizer_path));
  const std::chrono::duration<double, std::milli> load = std::chrono::steady_clock::now() - begin;
  BALLAST_TRY(const auto source, open_file(text_path, FileAccess::kPositional));
  BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
  std::vector<double> milliseconds;
  std::vector<TokenId> ids;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    BALLAST_TRY(ids, tokenizer.encode(as_text(bytes), {.special_tokens = false, .add_special_tokens = false}));
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(taken.count());
  }
  fmt::print("{{\"bytes\":{},\"tokens\":{},\"digest\":\"{:016x}\",\"load_ms\":{:.2f},\"times_ms\":[{:.4f}]}}\n",
             bytes.size(), ids.size(), digest_of(ids), load.count(), fmt::join(milliseconds, ","));
  return {};
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  int runs = 7;
  if (words.size() == 3) std::from_chars(words[2].data(), words[2].data() + words[2].size(), runs);
  if (words.size() < 2 || words.size() > 3 || runs < 1) {
    fmt::print(stderr, "usage: tokenizer_bench TOKENIZER FILE [RUNS]\n");
    return 2;
  }
  if (const auto status = ballast::bench(words[0], words[1], runs); !status) {
    fmt::print(stderr, "tokenizer_bench: {}\n", status.error().message);
    return 2;
  }
  return 0;
}
