#include "tests/support/sha256.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

namespace ballast::testing {

std::string sha256_hex(ByteSpan bytes) {
  ByteVector digest(EVP_MAX_MD_SIZE);
  unsigned length = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &length,
                              EVP_sha256(), nullptr);
  EXPECT_EQ(done, 1);
  digest.resize(length);
  return to_hex(digest);
}

}  // namespace ballast::testing
