// Random work on many sequences of a small pool: whatever others do, each reads what was written for its own text.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/kv_texts.h"
#include "tests/support/mutation.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

struct KvPlayer {
  KvSequence sequence;
  uint64_t script = 0;
};

struct KvGame {
  std::vector<uint64_t> windows;
  uint64_t most_bytes = 0;
  bool share = true;
  bool has_faults = false;  // now and then a call to the device fails
};

class KvPlayground {
 public:
  KvPlayground(const KvGame& game, uint64_t seed)
      : game_(game),
        lab_(small_kv_shape(game.windows, 600), {.most_bytes = game.most_bytes, .share_prefixes = game.share}),
        random_(seed) {}

  void play(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      if (game_.has_faults && draw(3) == 0) lab_.ledger->failing_call = lab_.ledger->calls + 1 + draw(4);
      const std::string what = make_move();
      lab_.ledger->failing_call = 0;
      check(what);
    }
    players_.clear();
    check("all are gone");
    lab_.pool.reset();
    EXPECT_EQ(lab_.ledger->bytes_out, 0U);
  }

 private:
  uint64_t draw(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }

  // Scripts begin alike, part in two at 100, and all go their own ways at 250: inside of pages.
  static TokenId token(uint64_t script, uint64_t position) {
    const uint64_t branch = position < 100 ? 0 : position < 250 ? 1 + script % 2 : 3 + script;
    return static_cast<TokenId>(branch * 100 + position % 7);
  }
  static std::vector<TokenId> ids(uint64_t script, uint64_t first, uint64_t count) {
    std::vector<TokenId> out;
    for (uint64_t i = 0; i < count; ++i) out.push_back(token(script, first + i));
    return out;
  }

  std::string make_move() {
    if (players_.empty() || (players_.size() < 6 && draw(8) == 0)) return join();
    KvPlayer& player = players_[draw(players_.size())];
    switch (draw(12)) {
      case 0: return leave(player);
      case 1: return truncate(player);
      case 2: return fork(player);
      case 3: return fail_pass(player);
      case 4: return move_to_file(player);
      case 5: return clear_or_forget(player);
      default: return grow(player);
    }
  }

  std::string join() {
    KvPlayer player{lab_.sequence(draw(5) == 0 ? 1 : 0), draw(4)};
    adopt(player);
    players_.push_back(std::move(player));
    return "join";
  }

  void adopt(KvPlayer& player) {
    const std::vector<TokenId> text = ids(player.script, 0, draw(500));
    const uint64_t found = lab_.pool->counters().positions_found;
    const uint64_t pages = player.sequence.adopt_pages(text);
    EXPECT_EQ(pages % kPagePositions, 0U);
    const uint64_t all = draw(4) == 0 ? pages : player.sequence.adopt(text);
    EXPECT_TRUE(std::ranges::equal(player.sequence.tokens(), std::span(text).first(all)));
    EXPECT_TRUE(all >= pages && all - pages <= kPagePositions && (text.empty() || all < text.size()));
    EXPECT_EQ(lab_.pool->counters().positions_found - found, all);
  }

  std::string leave(KvPlayer& player) {
    std::swap(player, players_.back());
    players_.pop_back();
    return "leave";
  }

  std::string truncate(KvPlayer& player) {
    const uint64_t length = player.sequence.length();
    const uint64_t wanted = draw(2) == 0 ? draw(length + 1) : length - std::min(length, draw(40));
    player.sequence.truncate(wanted);
    EXPECT_TRUE(player.sequence.length() == wanted || player.sequence.length() == 0);
    if (draw(2) == 0) player.script = draw(4);
    return "truncate";
  }

  std::string fork(const KvPlayer& player) {
    if (players_.size() < 6) {
      KvPlayer other{*player.sequence.fork(), draw(4)};
      EXPECT_EQ(other.sequence.length(), player.sequence.length());
      players_.push_back(std::move(other));
    }
    return "fork";
  }

  // Everything was written, but the pass has failed in the end.
  std::string fail_pass(KvPlayer& player) {
    const std::vector<TokenId> wrong = counting_ids(1 + draw(100), 9000);
    if (reserve(player, wrong.size())) write_rows(player.sequence, wrong);
    return "fail a pass";
  }

  std::string grow(KvPlayer& player) {
    const uint64_t count = draw(2) == 0 ? 1 + draw(4) : 1 + draw(150);
    const std::vector<TokenId> next = ids(player.script, player.sequence.length(), count);
    if (!reserve(player, count)) return "grow, in vain";
    write_rows(player.sequence, next);
    player.sequence.append(next);
    return "grow";
  }

  bool reserve(KvPlayer& player, uint64_t rows) {
    const uint64_t length = player.sequence.length();
    const auto reserved = player.sequence.reserve(rows);
    EXPECT_EQ(player.sequence.length(), length);
    if (!reserved) {
      const ErrorCode code = reserved.error().code;
      EXPECT_TRUE(code == ErrorCode::kInvalidArgument ? length + rows > 600
                                                      : code == ErrorCode::kOutOfMemory || code == ErrorCode::kIo)
          << reserved.error().message;
      return false;
    }
    expect_alone(player, kv_pages_for(length + rows));
    return true;
  }

  // Nobody else has the pages that a pass is about to write.
  void expect_alone(const KvPlayer& player, uint64_t end) {
    for (const KvPlayer& other : players_) {
      if (&other == &player) continue;
      for (size_t group = 0; group < player.sequence.past().pages.size(); ++group) {
        const auto& theirs = other.sequence.past().pages[group];
        for (uint64_t i = player.sequence.length() / kPagePositions; i < end; ++i) {
          const KvPage& page = player.sequence.past().pages[group][i];
          EXPECT_TRUE(page != nullptr && std::ranges::find(theirs, page) == theirs.end());
        }
      }
    }
  }

  std::string move_to_file(KvPlayer& player) {
    const std::string path = folder_.path("sequence");
    if (!player.sequence.save(path, Digest{})) return "save, in vain";
    const std::vector<TokenId> tokens(player.sequence.tokens().begin(), player.sequence.tokens().end());
    const uint64_t kind = player.sequence.kind();
    auto restored = KvSequence::restore(path, Digest{}, lab_.pool);
    if (!restored) {
      EXPECT_TRUE(restored.error().code == ErrorCode::kOutOfMemory || restored.error().code == ErrorCode::kIo);
      return "restore, in vain";
    }
    EXPECT_TRUE(std::ranges::equal(restored->tokens(), tokens));
    EXPECT_EQ(restored->kind(), kind);
    player.sequence = *std::move(restored);
    return "restore";
  }

  std::string clear_or_forget(KvPlayer& player) {
    if (draw(2) == 0) {
      lab_.pool->forget_kept();
      EXPECT_EQ(lab_.pool->counters().pages_kept, 0U);
      return "forget";
    }
    player.sequence.clear(draw(2));
    adopt(player);
    return "clear";
  }

  void check(const std::string& what) {
    std::set<const DeviceMemory*> used;
    for (const KvPlayer& player : players_) {
      EXPECT_TRUE(holds_its_text(player.sequence)) << "after: " << what;
      for (const auto& pages : player.sequence.past().pages) {
        for (const KvPage& page : pages) {
          if (page != nullptr) used.insert(page.get());
        }
      }
    }
    const KvPoolCounters counters = lab_.pool->counters();
    EXPECT_EQ(counters.pages_in_use, used.size()) << "after: " << what;
    EXPECT_LE(counters.bytes, lab_.ledger->bytes_out) << "after: " << what;
    EXPECT_TRUE(game_.share || counters.pages_kept == 0) << "after: " << what;
    if (game_.most_bytes == 0) return;
    EXPECT_LE(lab_.ledger->bytes_out, game_.most_bytes) << "after: " << what;
    EXPECT_GE(lab_.pool->free_bytes(), game_.most_bytes - counters.bytes) << "after: " << what;
  }

  const KvGame game_;
  KvLab lab_;
  std::mt19937_64 random_;
  TempFolder folder_;
  std::vector<KvPlayer> players_;
};

class KvPoolProperty : public ::testing::TestWithParam<int> {};

// A page has 2 KiB per layer.
const KvGame kGames[] = {
    {.windows = {0, 0}},
    {.windows = {0, 0}, .most_bytes = 80 << 10},
    {.windows = {0, 0}, .most_bytes = 80 << 10, .share = false},
    {.windows = {0, 0}, .most_bytes = 80 << 10, .has_faults = true},
    {.windows = {0, 100, 0, 30}},
    {.windows = {0, 100, 0, 30}, .most_bytes = 160 << 10},
    {.windows = {0, 100, 0, 30}, .most_bytes = 160 << 10, .has_faults = true},
    {.windows = {0, 100, 0, 30}, .most_bytes = 160 << 10, .share = false, .has_faults = true},
    {.windows = {70, 70}, .most_bytes = 60 << 10},
    {.windows = {1, 64, 65}, .most_bytes = 60 << 10, .has_faults = true},
};

TEST_P(KvPoolProperty, EverySequenceReadsItsOwnTextWhateverOthersDo) {
  for (uint64_t round = 0; round < 3 && !HasFailure(); ++round) {
    const uint64_t seed = round == 0 ? 1 : fresh_seed();
    SCOPED_TRACE("seed " + std::to_string(seed));
    KvPlayground(kGames[GetParam()], seed).play(400);
  }
}

INSTANTIATE_TEST_SUITE_P(Games, KvPoolProperty, ::testing::Range(0, static_cast<int>(std::size(kGames))));

}  // namespace
}  // namespace ballast::testing
