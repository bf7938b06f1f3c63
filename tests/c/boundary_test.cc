// What only a caller in C++ can do to the C interface: throw.
#include "bindings/c/boundary.h"

#include <ballast.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Frees it too.
std::pair<ballast_kind, std::string> said(ballast_error* error) {
  std::pair<ballast_kind, std::string> result(ballast_error_kind(error), ballast_error_message(error).data);
  ballast_error_free(error);
  return result;
}

ballast_error* convert_with(ballast_progress_callback progress) {
  const TempFolder folder;
  ballast_convert_options options = {};
  options.struct_size = sizeof options;
  options.container_only = true;
  options.progress = progress;
  const std::string source = test_file_path("gguf/tiny/tiny_llama.f32.gguf");
  return ballast_convert(source.c_str(), folder.path("out.npz").c_str(), &options, nullptr);
}

TEST(CBoundary, AnExceptionOfACallbackIsAnError) {
  const auto [kind, message] =
      said(convert_with([](void*, const ballast_progress*) -> bool { throw std::runtime_error("no more"); }));
  EXPECT_EQ(kind, BALLAST_INTERNAL);
  EXPECT_EQ(message, "no more");
  EXPECT_EQ(said(convert_with([](void*, const ballast_progress*) -> bool { throw 7; })).first, BALLAST_INTERNAL);
}

TEST(CBoundary, AnExceptionOfACallbackEndsARun) {
  const TempFolder folder;
  folder.write("text.txt", std::string(500, 'a') + std::string(500, 'b'));
  const std::string config =
      R"({"model": {"kind": "gpt", "context_length": 8, "embed_dim": 8, "num_layers": 1, "num_heads": 1},
          "data": {"kind": "text", "tokenizer": "bytes", "path": ")" +
      folder.path("text.txt") + R"("}, "train": {"steps": 3, "batch_size": 2, "threads": 1}})";
  ballast_train_options options = {};
  options.struct_size = sizeof options;
  options.callback = [](void*, const char*, size_t) -> bool { throw std::runtime_error("no more"); };
  const auto [kind, message] = said(ballast_train_json(config.data(), config.size(), &options, nullptr));
  EXPECT_EQ(kind, BALLAST_INTERNAL);
  EXPECT_EQ(message, "no more");
  EXPECT_EQ(ballast_open_handles(), 0U);
}

TEST(CBoundary, AnExceptionOfTheLogDoesNotSpoilTheWork) {
  ballast_set_log([](void*, ballast_log_level, const char*) { throw 7; }, nullptr);
  c::log(BALLAST_LOG_INFO, "something");
  ballast_set_log(nullptr, nullptr);
}

TEST(CBoundary, MemoryThatRunsOutIsAnErrorThatNeedsNone) {
  ballast_error* error = convert_with([](void*, const ballast_progress*) -> bool { throw std::bad_alloc(); });
  EXPECT_EQ(ballast_error_kind(error), BALLAST_OUT_OF_MEMORY);
  EXPECT_STREQ(ballast_error_message(error).data, "out of memory");
  ballast_error_free(error);
  // One object serves all, so it is never gone.
  EXPECT_EQ(ballast_error_kind(c::out_of_memory_error()), BALLAST_OUT_OF_MEMORY);
  EXPECT_EQ(ballast_open_handles(), 0U);
}

TEST(CBoundary, EveryKindOfErrorHasItsNumberAndName) {
  for (unsigned code = 0; code <= static_cast<unsigned>(ErrorCode::kCancelled); ++code) {
    ballast_error* error = c::to_c(make_error(static_cast<ErrorCode>(code), "text", kLastRemedy));
    EXPECT_EQ(static_cast<unsigned>(ballast_error_kind(error)), code + 1);
    EXPECT_EQ(ballast_error_kind_name(error), error_code_name(static_cast<ErrorCode>(code)));
    EXPECT_STREQ(ballast_error_remedy_name(error, 0), "rescue_tensors");
    ballast_error_free(error);
  }
}

TEST(CBoundary, HandlesOfManyThreadsDoNotMixUp) {
  const std::string path = test_file_path("safetensors/reference.safetensors");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        ballast_archive* archive = nullptr;
        EXPECT_EQ(ballast_archive_open(path.c_str(), nullptr, &archive), nullptr);
        EXPECT_EQ(ballast_archive_tensor_count(archive), 6U);
        ballast_archive_close(archive);
        EXPECT_EQ(ballast_archive_tensor_count(archive), 0U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ballast_open_handles(), 0U);
}

TEST(CBoundary, AHandleThatIsClosedWhileAnotherThreadUsesItLivesUntilThen) {
  ballast_archive* archive = nullptr;
  const std::string path = test_file_path("gguf/tiny/tiny_llama.f32.gguf");
  ASSERT_EQ(ballast_archive_open(path.c_str(), nullptr, &archive), nullptr);
  ballast_work_options options = {};
  options.struct_size = sizeof options;
  options.progress_user = archive;
  options.progress = [](void* handle, const ballast_progress*) {
    ballast_archive_close(static_cast<ballast_archive*>(handle));
    return true;
  };
  ballast_digest digest;
  EXPECT_EQ(ballast_archive_hash(archive, &options, &digest, nullptr), nullptr);
  EXPECT_THAT(said(ballast_archive_hash(archive, &options, &digest, nullptr)).second, HasSubstr("closed before"));
}

}  // namespace
}  // namespace ballast::testing
