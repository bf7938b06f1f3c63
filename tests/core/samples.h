// Files that the tests of the interface for boards open, and what they open them with.
#pragma once

#include <ballast_core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ballast::testing {

struct Sample {
  const char* name;
  const char* file;
  const ballast_core_format* format;
};

inline const std::array kSamples = {
    Sample{"burnpack", "tests/data/burnpack/0.20.1/module.bpk", &ballast_core_burnpack},
    Sample{"safetensors", "tests/data/safetensors/reference.safetensors", &ballast_core_safetensors},
    Sample{"gptrs", "tests/data/gptrs/gpt_micro/model.gptrs", &ballast_core_gptrs},
    Sample{"gptrs_tensors", "tests/data/gptrs/gpt_micro/trace.gptrsten", &ballast_core_gptrs_tensors},
    Sample{"gguf", "models/digits/digits-q8_0.gguf", &ballast_core_gguf},
    Sample{"torch", "tests/data/torch_files/files/deflated.pt", &ballast_core_torch},
    Sample{"netcl", "tests/data/netcl/mlp_basic.netcl", &ballast_core_netcl},
    Sample{"npz_compressed", "tests/data/npz/compressed.npz", &ballast_core_npz},
    Sample{"npz_orders", "tests/data/npz/orders.npz", &ballast_core_npz},
    Sample{"npy_big_endian", "tests/data/npz/big_endian.npy", &ballast_core_npy},
};

inline std::string name_of(const ::testing::TestParamInfo<Sample>& info) { return info.param.name; }

inline std::vector<unsigned char> read_file(const char* file) {
  std::ifstream stream(std::filesystem::path(SOURCES) / file, std::ios::binary);
  std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_FALSE(bytes.empty()) << file;
  return bytes;
}

inline ballast_core_image image_of(const std::vector<unsigned char>& bytes) {
  return {.bytes = bytes.data(), .size = bytes.size(), .read = nullptr, .user = nullptr, .name = "image"};
}

// A block of exactly this size, so that a sanitizer sees every byte that is touched outside of it.
class Block {
 public:
  explicit Block(size_t size) : bytes_(size) {}
  void* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<unsigned char> bytes_;
};

inline ballast_core_code open_in(Block& block, const ballast_core_format* format, const ballast_core_image& image,
                                 ballast_core** archive) {
  return ballast_core_open(archive, block.data(), block.size(), &format, 1, &image);
}

// Reads every payload and every name of an archive; gives how many payloads could be read.
inline size_t read_everything(ballast_core* archive) {
  size_t readable = 0;
  for (size_t i = 0; i < ballast_core_count(archive); ++i) {
    ballast_core_tensor tensor;
    size_t found = 0;
    // Memory is the one reason why a tensor that is there is not found.
    const ballast_core_code named = ballast_core_tensor_at(archive, i, &tensor);
    EXPECT_EQ(named, BALLAST_CORE_OK) << ballast_core_message();
    if (named != BALLAST_CORE_OK) continue;
    EXPECT_EQ(ballast_core_find(archive, tensor.name.data, &found), BALLAST_CORE_OK) << ballast_core_message();
    if (tensor.size > size_t{1} << 20) continue;
    std::vector<unsigned char> payload(static_cast<size_t>(tensor.size));
    const ballast_core_code code = ballast_core_read(archive, i, payload.data(), payload.size());
    if (code != BALLAST_CORE_OK) {
      EXPECT_TRUE(code == BALLAST_CORE_OUT_OF_MEMORY || code == BALLAST_CORE_CORRUPT) << ballast_core_message();
      continue;
    }
    ++readable;
    if (tensor.data == nullptr || payload.empty()) continue;
    EXPECT_EQ(std::memcmp(tensor.data, payload.data(), payload.size()), 0) << tensor.name.data;
  }
  return readable;
}

}  // namespace ballast::testing
