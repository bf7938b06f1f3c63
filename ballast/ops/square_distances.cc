#include <fmt/format.h>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/metric.h"

namespace ballast::ops {

namespace {

// From the differences themselves: |a|^2 + |b|^2 - 2ab would lose the distance of rows that lie close to each other.
Result<Tensor> run_square_distances(Context& context, const SquareDistancesArgs& args) {
  const uint64_t n = args.a.dims()[0], m = args.b.dims()[0], d = args.a.dims()[1];
  BALLAST_TRY(Tensor y, context.workspace().make({n, m}, args.a.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* a = args.a.data<T>();
    const T* b = args.b.data<T>();
    T* to = y.writable<T>();
    context.threads().for_ranges(n, row_grain(m * d), [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        for (uint64_t j = 0; j < m; ++j) {
          double sum = 0;
          for (uint64_t k = 0; k < d; ++k) {
            const double step = static_cast<double>(a[i * d + k]) - static_cast<double>(b[j * d + k]);
            sum += step * step;
          }
          to[i * m + j] = static_cast<T>(sum);
        }
      }
    });
  });
  return y;
}

// How far the gradient of row i of `from` stands from 0: the sum over j of 2 dy(i, j) (from_i - others_j).
template <typename T, typename SlopeOf>
void add_pulls(Context& context, const Tensor& from, const Tensor& others, SlopeOf slope_of, Tensor& gradient) {
  const uint64_t m = others.dims()[0], d = from.dims()[1];
  const T* x = from.data<T>();
  const T* y = others.data<T>();
  T* to = gradient.writable<T>();
  context.threads().for_ranges(from.dims()[0], row_grain(m * d), [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      for (uint64_t j = 0; j < m; ++j) {
        const T slope = T{2} * slope_of(i, j);
        for (uint64_t k = 0; k < d; ++k) to[i * d + k] += slope * (x[i * d + k] - y[j * d + k]);
      }
    }
  });
}

struct SquareDistancesStep {
  Tensor a, b;
  Tape::Input a_input, b_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    const uint64_t m = b.dims()[0];
    if (a_input.is_followed()) {
      BALLAST_TRY(Tensor da, context.workspace().zeros(a.dims(), a.dtype()));
      with_type(dy.dtype(), [&]<typename T>() {
        add_pulls<T>(
            context, a, b, [m, from = dy.data<T>()](size_t i, size_t j) { return from[i * m + j]; }, da);
      });
      BALLAST_CHECK(tape.add(context, a_input, da));
    }
    if (!b_input.is_followed()) return {};
    BALLAST_TRY(Tensor db, context.workspace().zeros(b.dims(), b.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      add_pulls<T>(
          context, b, a, [m, from = dy.data<T>()](size_t j, size_t i) { return from[i * m + j]; }, db);
    });
    return tape.add(context, b_input, db);
  }
};

}  // namespace

Status SquareDistancesArgs::check() const {
  BALLAST_CHECK(check_activation("a", a, 2));
  BALLAST_CHECK(check_activation("b", b, 2));
  if (a.dtype() == b.dtype() && a.dims()[1] == b.dims()[1]) return {};
  return does_not_fit(named("a", a), named("b", b), "their rows must be of one length and type");
}
std::string SquareDistancesArgs::text() const { return fmt::format("{} from {}", typed(a), typed(b)); }

void SquareDistancesArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(a) && !tape.follows(b)) return;
  tape.record(y, SquareDistancesStep{a, b, tape.input(a), tape.input(b)});
}

Result<Tensor> square_distances(Context& context, const Tensor& a, const Tensor& b) {
  return context.registry().call(context, SquareDistancesArgs{a, b});
}

void add_square_distances(Registry& registry) {
  add_builtin<SquareDistancesArgs>(registry, nullptr, run_square_distances);
}

}  // namespace ballast::ops
