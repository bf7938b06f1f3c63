#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

struct AttentionShape {
  size_t queries, q_heads, kv_heads, head_dim, first_position;
  DType dtype = DType::kF32;
  size_t spare = 3;  // positions of the cache that are not used
};

class AttentionOperands {
 public:
  explicit AttentionOperands(const AttentionShape& shape)
      : s(shape),
        stride(s.q_heads * s.head_dim + 5),
        capacity(s.first_position + s.queries + s.spare),
        q(random_floats(s.queries * stride, 1, -2, 2)),
        keys(random_floats(s.kv_heads * capacity * s.head_dim, 2, -2, 2), s.dtype),
        values(random_floats(s.kv_heads * capacity * s.head_dim, 3), s.dtype) {}

  float scale() const { return 1 / std::sqrt(static_cast<float>(s.head_dim)); }

  std::vector<float> make_output(size_t queries) const {
    return std::vector<float>(queries * s.q_heads * s.head_dim, 12345);
  }

  // Queries [begin, end).
  std::vector<float> compute(const KernelTable<float>& kernels, ThreadPool& pool, size_t begin, size_t end) const {
    std::vector<float> out = make_output(end - begin);
    AttentionProblem<float> p = problem(begin, end, out);
    kernels.attention(std::span(&p, 1), pool);
    return out;
  }

  AttentionProblem<float> problem(size_t begin, size_t end, std::vector<float>& out) const {
    AttentionProblem<float> p{};
    p.q = q.data() + begin * stride;
    p.keys = keys.view().data;
    p.values = values.view().data;
    p.cache_dtype = s.dtype;
    p.out = out.data();
    p.q_count = end - begin;
    p.q_heads = s.q_heads, p.kv_heads = s.kv_heads, p.head_dim = s.head_dim;
    p.q_stride = stride, p.capacity = capacity;
    p.first_position = s.first_position + begin;
    p.scale = scale();
    return p;
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    for (size_t i = 0; i < s.queries; ++i) {
      for (size_t head = 0; head < s.q_heads; ++head) {
        const float* query = q.data() + i * stride + head * s.head_dim;
        const size_t base = head / (s.q_heads / s.kv_heads) * capacity * s.head_dim;
        const size_t seen = s.first_position + i + 1;
        std::vector<double> weights(seen), mixed(s.head_dim);
        double total = 0;
        for (size_t j = 0; j < seen; ++j) {
          for (size_t d = 0; d < s.head_dim; ++d) {
            weights[j] += double{query[d]} * keys.values()[base + j * s.head_dim + d];
          }
          weights[j] = std::exp(weights[j] * scale());
          total += weights[j];
        }
        for (size_t j = 0; j < seen; ++j) {
          for (size_t d = 0; d < s.head_dim; ++d) {
            mixed[d] += weights[j] / total * values.values()[base + j * s.head_dim + d];
          }
        }
        out.insert(out.end(), mixed.begin(), mixed.end());
      }
    }
    return out;
  }

  AttentionShape s;
  size_t stride, capacity;
  std::vector<float> q;
  TestWeight keys, values;
};

void expect_attention(const AttentionShape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.queries << " queries at " << shape.first_position << ", heads "
                                    << shape.q_heads << "/" << shape.kv_heads << " of " << shape.head_dim);
  const AttentionOperands operands(shape);
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto out =
        same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool, 0, shape.queries); });
    expect_close(out, operands.expected(), 1e-5, 3e-6);
  });
}

TEST(CpuAttention, IsRightForOddShapes) {
  expect_attention({0, 1, 1, 8, 4});
  expect_attention({1, 1, 1, 1, 0});
  expect_attention({5, 3, 3, 7, 0});
  expect_attention({1, 4, 4, 64, 130});
  expect_attention({70, 2, 2, 33, 61});
  expect_attention({9, 2, 1, 200, 64});
}

TEST(CpuAttention, SharesKeysAmongGroupedHeads) {
  expect_attention({3, 8, 2, 32, 20});
  expect_attention({1, 70, 1, 16, 66});  // more heads in a group than rows in a block
}

TEST(CpuAttention, ReadsACacheOfHalfPrecision) {
  expect_attention({1, 4, 4, 64, 75, DType::kF16});
  expect_attention({33, 4, 2, 40, 10, DType::kF16});
}

TEST(CpuAttention, GivesAQueryTheSameBitsAloneAndAmongOthers) {
  const AttentionOperands operands({150, 4, 2, 48, 9});
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(2);
    const auto all = operands.compute(kernels, pool, 0, 150);
    const size_t width = 4 * 48;
    for (const size_t begin : {0, 1, 54, 55, 100, 149}) {
      for (const size_t end : {begin + 1, std::min<size_t>(150, begin + 37)}) {
        const auto some = operands.compute(kernels, pool, begin, end);
        EXPECT_EQ(std::memcmp(some.data(), all.data() + begin * width, some.size() * sizeof(float)), 0)
            << begin << " to " << end;
      }
    }
  });
}

TEST(CpuAttention, ComputesManyProblemsInOneCall) {
  // Some have no queries, also the first and the last.
  std::vector<AttentionOperands> texts;
  for (const size_t queries : {0, 1, 70, 0, 0, 3, 1, 130, 0}) {
    texts.emplace_back(AttentionShape{queries, 6, 2, 24, 7 * queries});
  }
  for_each_level([&](const KernelTable<float>& kernels) {
    for (const unsigned threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<std::vector<float>> together;
      std::vector<AttentionProblem<float>> problems;
      for (const AttentionOperands& text : texts) {
        together.push_back(text.make_output(text.s.queries));
        problems.push_back(text.problem(0, text.s.queries, together.back()));
      }
      kernels.attention(problems, pool);
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_TRUE(same_bits(together[i], texts[i].compute(kernels, pool, 0, texts[i].s.queries))) << "text " << i;
      }
    }
  });
}

TEST(CpuAttention, SurvivesScoresThatOverflowTheExponential) {
  AttentionOperands operands({2, 1, 1, 16, 100});
  for (float& value : operands.q) value *= 100;
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(1);
    for (const float value : operands.compute(kernels, pool, 0, 2)) ASSERT_LE(std::abs(value), 1.0F);
  });
}

}  // namespace
}  // namespace ballast
