#include "ballast/base/param_id.h"

#include <gtest/gtest.h>

#include <set>

namespace ballast {
namespace {

struct Vector {
  const char* name;
  const char* base_bytes;
  const char* base_number;
  const char* key_of_model[3];  // for namespaces 0, 1, 2
};

// Computed with an independent BLAKE3; gpt.rs itself gives the same.
constexpr Vector kVectors[] = {
    {"tok_embeddings.weight",
     "7e7feacfe1ddb49f69ba6d05e7ec9ee6",
     "e69eece7056dba699fb4dde1cfea7f7e",
     {"a7b9038a1534dea38d02c61bee844a37", "5eaeed334077622b6b8542cf19a37233", "347843176aed8bf0c246d4e3e06ffa82"}},
    {"pos_embeddings",
     "09c8373ac0584896e1997566f5e9656c",
     "6c65e9f5667599e1964858c03a37c809",
     {"69f8b2dfe00cbeb476b1024dd7a92801", "c6f4566e0d5d233e14bedd5811e67a3a", "6bc1304a2dfde418bcb5d0d543fb1ec8"}},
    {"blocks.0.attention.w_qkv",
     "e72a6ef8ed8165a87745cd77f2ec344c",
     "4c34ecf277cd4577a86581edf86e2ae7",
     {"8dfa41b927d1b49d7fc5129078717364", "8bcfd24f3fcd2d1f53c356502317a233", "83663222e778005d68dd01cc1c9cc080"}},
    {"blocks.11.feed_forward.b_out",
     "4288a7ae676511122c2727ec15cb4fa2",
     "a24fcb15ec27272c12116567aea78842",
     {"2f945e7ca3696176406bd4a262f52704", "15073538abb33cfcaff3310d5c2ab469", "78374b9bc2323e544c0999fef3b1a7c1"}},
    {"lm_head",
     "585d23eebd91ff137aef590d2ec762a9",
     "a962c72e0d59ef7a13ff91bdee235d58",
     {"24478a3f238aac4fbc7320563363a282", "d0ac31c4ea65bfe010afa078ba4d87bc", "6898e6da603b6b6ad54c567ed04cc189"}},
    {"final_norm.gamma",
     "b9765e604670ed6840fac5b9cd65d7bd",
     "bdd765cdb9c5fa4068ed7046605e76b9",
     {"e084a03e3a8486114d184aede6df1b3b", "00b05edad0c8b29e5afa39ff36b582ca", "9e6cb6507a85ab2641eb4f58e54142d8"}},
    {"layer1.0.conv1.weight",
     "c3eeff910bbe23dd695c27a6ea60b9fd",
     "fdb960eaa6275c69dd23be0b91ffeec3",
     {"3f58f37c1897a4527dbb9c77f9c08a65", "528202a246375398ab92146fca1c9a25", "fd3bb232f2f971a83446c01e4ab5a8e5"}},
    {"classifier.bias",
     "87503aff243dc67931b6fea257689d09",
     "099d6857a2feb63179c63d24ff3a5087",
     {"7a96d1c87ec124c7c5fb1d5e91bc0d33", "b885f3148e3d399bb8bf4726d3c26320", "cc81349fdcf95a5c0ada79f122e9d9b3"}},
};

TEST(ParamId, BaseIdIsTheFirstHalfOfBlake3OfTheName) {
  for (const Vector& vector : kVectors) {
    const BaseParamId id = base_param_id(vector.name);
    EXPECT_EQ(id.to_bytes_hex(), vector.base_bytes) << vector.name;
    EXPECT_EQ(id.to_number_hex(), vector.base_number) << vector.name;
  }
}

TEST(ParamId, KeyDependsOnModelAndParameter) {
  for (const Vector& vector : kVectors) {
    for (uint64_t model = 0; model < 3; ++model) {
      const ParamKey key = param_key(ModelNamespaceId{Id128::from_u64(model)}, base_param_id(vector.name));
      EXPECT_EQ(key.to_bytes_hex(), vector.key_of_model[model]) << vector.name << " in model " << model;
    }
  }
}

TEST(ParamId, EveryUtf8NameHasAnId) {
  EXPECT_FALSE(base_param_id("gr\xC3\xB6\xC3\x9F"
                             "e")
                   .is_zero());
  EXPECT_NE(base_param_id("a"), base_param_id("b"));
  EXPECT_EQ(base_param_id("").to_bytes_hex(), "af1349b9f5f9a1a6a0404dea36dcc949");  // BLAKE3 of nothing
}

TEST(ParamId, NumbersAreStoredLittleEndian) {
  const Id128 id = Id128::from_u64(0x0123456789abcdefU);
  EXPECT_EQ(id.to_bytes_hex(), "efcdab89674523010000000000000000");
  EXPECT_EQ(id.to_number_hex(), "00000000000000000123456789abcdef");
  EXPECT_TRUE(Id128::from_u64(0).is_zero());
  EXPECT_FALSE(id.is_zero());
}

TEST(ParamId, AreReadFromTheDigitsThatTheyAreShownIn) {
  const BaseParamId id = base_param_id("blocks.0.w");
  EXPECT_EQ(Id128::from_bytes_hex(id.to_bytes_hex()), std::optional<Id128>(id));
  EXPECT_EQ(Id128::from_bytes_hex("EFCDAB89674523010000000000000000"), Id128::from_u64(0x0123456789abcdefU));
  EXPECT_EQ(Id128::from_bytes_hex(""), std::nullopt);
  EXPECT_EQ(Id128::from_bytes_hex("efcdab8967452301000000000000000"), std::nullopt);
  EXPECT_EQ(Id128::from_bytes_hex("efcdab896745230100000000000000000"), std::nullopt);
  EXPECT_EQ(Id128::from_bytes_hex("efcdab896745230100000000000000zz"), std::nullopt);
}

TEST(ParamId, NamespacesOfOneProcessNeverRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(next_model_namespace().to_number_hex());
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_FALSE(seen.contains(Id128{}.to_number_hex()));
}

}  // namespace
}  // namespace ballast
