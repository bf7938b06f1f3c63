#include "ballast/params/param_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/params/budget.h"
#include "tests/support/memory_archive.h"
#include "tests/support/param_sources.h"

namespace ballast {
namespace {

using testing::GeneratedSource;
using ::testing::HasSubstr;
using testing::holds_generated;
using testing::make_info;
using testing::make_matrices;
using testing::MemoryArchive;
using testing::open_store;

std::shared_ptr<const ParamSource> mapped_source() {
  MemoryArchive archive;
  archive.add<float>("blocks.0.w", DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  archive.add<float>("blocks.0.bias", DType::kF32, {2}, {7, 8});
  return make_param_source(std::make_shared<Archive>(archive.build()));
}

// Another form: every byte changed.
DerivedForm inverted(uint64_t bytes, std::string_view name = "inverted_1") {
  return {name, bytes, [](const Param& param, MutableByteSpan out) -> Status {
            uint64_t at = 0;
            for (uint64_t row = 0; row < param.rows();) {
              BALLAST_TRY(const Lease lease, param.store().rows(param, row));
              for (const std::byte byte : lease.bytes()) out[at++] = ~byte;
              row += lease.row_count();
            }
            return {};
          }};
}

bool holds_inverted(ByteSpan bytes, size_t param) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != ~testing::generated_byte(param, i)) return false;
  }
  return true;
}

TEST(ParamStore, WithoutABudgetLeasesAreTheMapping) {
  const auto source = mapped_source();
  const auto store = open_store(source, {});
  const Param w = *store->get("blocks.0.w");
  EXPECT_EQ(w.rows(), 3U);
  EXPECT_EQ(w.row_bytes(), 8U);
  EXPECT_EQ(w.name(), "blocks.0.w");
  EXPECT_EQ(w.dtype(), DType::kF32);
  EXPECT_FALSE(store->has_budget());

  const auto all = store->rows(w);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->bytes().data(), source->view(0)->data());
  EXPECT_EQ(all->row_count(), 3U);
  const auto tail = store->rows(w, 2);
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->bytes().data(), source->view(0)->data() + 16);
  EXPECT_EQ(tail->first_row(), 2U);
  EXPECT_EQ(tail->row_count(), 1U);
  const auto bias = store->whole(*store->get("blocks.0.bias"));
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->bytes().data(), source->view(1)->data());

  const ResidencyStats stats = store->stats();
  EXPECT_EQ(stats.budget, 0U);
  EXPECT_EQ(stats.resident, 0U);
  EXPECT_EQ(stats.bytes_read, 0U);
  EXPECT_EQ(stats.hits, 3U);
  EXPECT_EQ(stats.misses, 0U);
}

TEST(ParamStore, WhatCannotBeMappedIsReadOnceAndStays) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(2, 10, 16));
  const auto store = open_store(source, {});
  const Param w = *store->get("w1");
  for (int i = 0; i < 3; ++i) {
    const auto lease = store->rows(w);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(holds_generated(lease->bytes(), 1, 0));
  }
  EXPECT_EQ(source->reads().size(), 1U);
  const ResidencyStats stats = store->stats();
  EXPECT_EQ(stats.bytes_read, 640U);
  EXPECT_EQ(stats.resident, 640U);
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 1U);
}

TEST(ParamStore, AMissingParameterNamesANearMiss) {
  const auto store = open_store(mapped_source(), {});
  const auto param = store->get("blocks.0.bais");
  ASSERT_FALSE(param);
  EXPECT_EQ(param.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(param.error().message, "memory: there is no parameter \"blocks.0.bais\"; did you mean \"blocks.0.bias\"?");
  EXPECT_THAT(store->get("something_else").error().message, ::testing::Not(HasSubstr("did you mean")));
}

TEST(ParamStore, RefusesRowsThatAreNotThere) {
  const auto store = open_store(mapped_source(), {});
  const Param w = *store->get("blocks.0.w");
  for (const uint64_t row : {uint64_t{3}, ~uint64_t{0}}) {
    const auto lease = store->rows(w, row);
    ASSERT_FALSE(lease);
    EXPECT_EQ(lease.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(lease.error().message, HasSubstr("\"blocks.0.w\" [3, 2] has 3 rows"));
  }
  ByteVector wrong(7);
  EXPECT_THAT(store->read_row(w, 0, wrong).error().message, HasSubstr("has 8 bytes, the buffer 7"));
  ByteVector right(8);
  EXPECT_FALSE(store->read_row(w, 3, right));
}

TEST(ParamStore, ParametersWithoutBytesAreEmpty) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(4096)}) {
    const auto source = std::make_shared<GeneratedSource>(std::vector{make_info("none", DType::kF32, {0, 5}),
                                                                      make_info("thin", DType::kF32, {5, 0}),
                                                                      make_info("scalar", DType::kF32, {})});
    const auto store = open_store(source, {.budget = budget});
    const auto none = store->whole(*store->get("none"));
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->bytes().empty());
    EXPECT_FALSE(store->rows(*store->get("none")));
    const auto thin = store->rows(*store->get("thin"), 2);
    ASSERT_TRUE(thin);
    EXPECT_EQ(thin->row_count(), 3U);
    EXPECT_TRUE(store->read_row(*store->get("thin"), 4, {}));
    EXPECT_TRUE(source->reads().empty());
    const auto scalar = store->rows(*store->get("scalar"));
    ASSERT_TRUE(scalar);
    EXPECT_TRUE(holds_generated(scalar->bytes(), 2, 0));
  }
}

TEST(ParamStore, SingleRowsAreReadWithoutTheTable) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(1 << 20)}) {
    const auto source = std::make_shared<GeneratedSource>(make_matrices(1, 50000, 64));
    const auto store = open_store(source, {.budget = budget});
    const Param table = *store->get("w0");
    ByteVector row(256);
    for (const uint64_t index : {uint64_t{0}, uint64_t{49999}, uint64_t{777}}) {
      ASSERT_TRUE(store->read_row(table, index, row));
      EXPECT_TRUE(holds_generated(row, 0, index * 256));
    }
    EXPECT_EQ(source->bytes_read(0), 3 * 256U);
    EXPECT_EQ(store->stats().bytes_read, 3 * 256U);
    EXPECT_EQ(store->stats().resident, 0U);
    // A row of a tile that is there anyway is not read again.
    ASSERT_TRUE(store->rows(table, 777));
    const uint64_t before = source->reads().size();
    const uint64_t hits = store->stats().hits;
    ASSERT_TRUE(store->read_row(table, 777, row));
    EXPECT_TRUE(holds_generated(row, 0, 777 * 256));
    EXPECT_EQ(store->stats().hits, hits + 1);
    if (!budget) {
      EXPECT_EQ(source->reads().size(), before);
    }
  }
}

TEST(ParamStore, WhatIsNeverTouchedIsNeverRead) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(1 << 20)}) {
    auto infos = make_matrices(4, 1000, 64);
    infos.push_back(make_info("bias", DType::kF32, {64}));
    const auto source = std::make_shared<GeneratedSource>(infos);
    auto store = open_store(source, {.budget = budget});
    EXPECT_TRUE(source->reads().empty());
    for (int pass = 0; pass < 3; ++pass) {
      for (const char* name : {"w0", "w2"}) {
        const Param param = *store->get(name);
        for (uint64_t row = 0; row < param.rows();) {
          const auto lease = store->rows(param, row);
          ASSERT_TRUE(lease);
          row += lease->row_count();
        }
      }
    }
    store.reset();
    EXPECT_GT(source->bytes_read(0), 0U);
    EXPECT_EQ(source->bytes_read(1), 0U);
    EXPECT_EQ(source->bytes_read(3), 0U);
    EXPECT_EQ(source->bytes_read(4), 0U);
  }
}

TEST(ParamStore, GivesTheSameParameterByNameAndById) {
  const auto store = open_store(mapped_source(), {});
  const auto by_name = store->get("blocks.0.bias");
  const auto by_id = store->get(base_param_id("blocks.0.bias"));
  ASSERT_TRUE(by_name && by_id);
  EXPECT_EQ(by_id->index(), by_name->index());
  EXPECT_EQ(by_id->name(), "blocks.0.bias");
  EXPECT_TRUE(by_id->key() == by_name->key());
  EXPECT_TRUE(by_name->base_id() == base_param_id("blocks.0.bias"));
  EXPECT_TRUE(store->rows(*by_id));
}

TEST(ParamStore, NamesAnIdThatNoParameterHasAndTheOneThatIsNear) {
  const auto store = open_store(mapped_source(), {});
  const std::string digits = base_param_id("blocks.0.bias").to_bytes_hex();
  std::string mistyped = digits;
  mistyped[3] = mistyped[3] == 'f' ? '0' : 'f';
  const auto param = store->get(BaseParamId{*Id128::from_bytes_hex(mistyped)});
  ASSERT_FALSE(param);
  EXPECT_EQ(param.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(param.error().message, "memory: no parameter has the id " + mistyped + "; did you mean " + digits +
                                       ", the id of \"blocks.0.bias\"?");
  const BaseParamId other = base_param_id("something_else");
  EXPECT_EQ(store->get(other).error().message, "memory: no parameter has the id " + other.to_bytes_hex());
}

TEST(ParamStore, TwoStoresOverOneSourceShareNoKeys) {
  const auto source = mapped_source();
  const auto first = open_store(source, {});
  const auto second = open_store(source, {});
  EXPECT_FALSE(first->model() == second->model());
  EXPECT_FALSE(first->get("blocks.0.w")->key() == second->get("blocks.0.w")->key());
  EXPECT_FALSE(first->get("blocks.0.w")->key() == first->get("blocks.0.bias")->key());
  EXPECT_TRUE(first->get("blocks.0.w")->key() == first->get("blocks.0.w")->key());

  const auto chosen = ParamStore::open(source, {}, ModelNamespaceId{Id128::from_u64(0)});
  ASSERT_TRUE(chosen);
  EXPECT_TRUE((*chosen)->get("blocks.0.w")->key() ==
              param_key(ModelNamespaceId{Id128::from_u64(0)}, base_param_id("blocks.0.w")));
}

TEST(ParamStore, RefusesParametersOfAnotherStore) {
  const auto first = open_store(mapped_source(), {});
  const auto second = open_store(mapped_source(), {});
  const Param foreign = *first->get("blocks.0.w");
  EXPECT_FALSE(second->rows(foreign));
  EXPECT_FALSE(second->whole(foreign));
  EXPECT_FALSE(second->derived(foreign, inverted(24)));
  EXPECT_FALSE(second->rows(Param()));
}

TEST(ParamStore, ALeaseCanBeMoved) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(1, 10, 16));
  const auto store = open_store(source, {.budget = 4096});
  const Param w = *store->get("w0");
  Lease outer;
  {
    auto lease = store->rows(w);
    ASSERT_TRUE(lease);
    outer = std::move(*lease);
  }
  EXPECT_TRUE(holds_generated(outer.bytes(), 0, 0));
  EXPECT_GT(outer.row_count(), 0U);
  Lease other(std::move(outer));
  EXPECT_TRUE(outer.bytes().empty());  // NOLINT: what is left is empty
  EXPECT_TRUE(holds_generated(other.bytes(), 0, 0));
}

// ---------------------------------------------------------------- derived forms

TEST(DerivedForms, AreMadeOnceAndKeptWithoutABudget) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(2, 10, 16));
  const auto store = open_store(source, {});
  const Param w = *store->get("w1");
  int made = 0;
  DerivedForm form = inverted(640);
  form.make = [&, make = form.make](const Param& param, MutableByteSpan out) {
    ++made;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(out.data()) % 64, 0U);
    return make(param, out);
  };
  const std::byte* where = nullptr;
  for (int i = 0; i < 3; ++i) {
    const auto lease = store->derived(w, form);
    ASSERT_TRUE(lease);
    ASSERT_TRUE(lease->has_value());
    EXPECT_TRUE(holds_inverted((*lease)->bytes(), 1));
    if (where != nullptr) {
      EXPECT_EQ((*lease)->bytes().data(), where);
    }
    where = (*lease)->bytes().data();
  }
  EXPECT_EQ(made, 1);
  // Another name is another form.
  const auto other = store->derived(w, inverted(640, "inverted_2"));
  ASSERT_TRUE(other && *other);
  EXPECT_NE((*other)->bytes().data(), where);
  EXPECT_EQ(store->stats().resident, 3 * 640U);  // the parameter was read, and two forms of it
}

TEST(DerivedForms, UsesAreCountedForEachParameterOfEachStore) {
  const auto source = mapped_source();
  const auto store = open_store(source, {}), other = open_store(source, {});
  const Param w = *store->get("blocks.0.w"), bias = *store->get("blocks.0.bias");
  EXPECT_EQ(store->derived_uses(w).load(), 0U);
  store->derived_uses(w) = 3;
  EXPECT_EQ(store->derived_uses(*store->get("blocks.0.w")).load(), 3U);
  EXPECT_EQ(store->derived_uses(bias).load(), 0U);
  EXPECT_EQ(other->derived_uses(*other->get("blocks.0.w")).load(), 0U);
}

TEST(DerivedForms, AFailureIsHandedOnAndCanBeTriedAgain) {
  for (const std::optional<uint64_t> budget : {std::optional<uint64_t>(), std::optional<uint64_t>(64 << 10)}) {
    const auto source = std::make_shared<GeneratedSource>(make_matrices(1, 10, 16));
    const auto store = open_store(source, {.budget = budget});
    const Param w = *store->get("w0");
    DerivedForm broken = inverted(640);
    broken.make = [](const Param&, MutableByteSpan) -> Status { return make_error(ErrorCode::kUnsupported, "no"); };
    const auto failed = store->derived(w, broken);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "no");
    EXPECT_EQ(store->stats().resident, 0U);
    const auto good = store->derived(w, inverted(640));
    ASSERT_TRUE(good && *good);
    EXPECT_TRUE(holds_inverted((*good)->bytes(), 0));
  }
}

TEST(DerivedForms, CountAgainstTheBudgetAndAreRefusedBeyondIt) {
  const auto source = std::make_shared<GeneratedSource>(make_matrices(8, 64, 256));  // 64 KiB each
  const uint64_t budget = 256 << 10;
  const auto store = open_store(source, {.budget = budget});
  int given = 0;
  for (int pass = 0; pass < 2; ++pass) {
    given = 0;
    for (size_t i = 0; i < 8; ++i) {
      const Param w = *store->get("w" + std::to_string(i));
      const auto lease = store->derived(w, inverted(64 << 10));
      ASSERT_TRUE(lease);
      if (!*lease) continue;
      ++given;
      EXPECT_TRUE(holds_inverted((*lease)->bytes(), i));
    }
    EXPECT_LE(store->stats().peak, budget);
  }
  EXPECT_EQ(given, 3);  // a quarter is left to tiles
  EXPECT_GE(store->stats().hits, 2U);
  const auto huge = store->derived(*store->get("w0"), inverted(~uint64_t{0} / 2, "huge_1"));
  ASSERT_TRUE(huge);
  EXPECT_FALSE(*huge);
}

}  // namespace
}  // namespace ballast
