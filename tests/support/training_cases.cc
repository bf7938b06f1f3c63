#include <array>

#include "ballast/ops/metric.h"
#include "tests/support/case_shapes.h"

namespace ballast::testing {

namespace {

void add_sums(Cases& cases) {
  for (const Dims& dims : vectors()) {
    const Dims rows = dims.rank() == 1 ? Dims{1} : Dims(dims.span().first(dims.rank() - 1));
    add_case(
        cases, "sum_all", dims.to_string(), {{dims}}, [](Trial& t) { return ops::sum_all(t.context, t.x[0]); },
        sum_of(dims.count()));
    add_case(
        cases, "sum_last_dim", dims.to_string(), {{dims}},
        [](Trial& t) { return ops::sum_last_dim(t.context, t.x[0]); }, sum_of(dims.back()));
    add_case(
        cases, "scale_rows", dims.to_string(), {{dims, rows}},
        [](Trial& t) { return ops::scale_rows(t.context, t.x[0], t.x[1]); }, kElementwise);
    add_case(
        cases, "prelu", dims.to_string(), {{dims}, {{dims.back()}}},
        [](Trial& t) { return ops::prelu(t.context, t.x[0], t.params[0]); }, kElementwise);
    if (dims.count() == 0) continue;
    add_case(
        cases, "mean_all", dims.to_string(), {{dims}}, [](Trial& t) { return ops::mean_all(t.context, t.x[0]); },
        kElementwise);
  }
}

void add_batch_norms(Cases& cases) {
  for (const Dims& dims : {Dims{1, 1}, Dims{7, 3}, Dims{2, 3, 17}, Dims{300, 5}, Dims{5, 129}}) {
    const Shape channels{dims.back()};
    add_case(
        cases, "batch_statistics", dims.to_string(), {{dims}},
        [](Trial& t) { return ops::batch_statistics(t.context, t.x[0]); }, 1e-6);
    // Channels that hardly vary are divided by little.
    add_case(
        cases, "batch_norm_training", dims.to_string(), {{dims}, {channels, channels}},
        [](Trial& t) -> Result<Tensor> {
          BALLAST_TRY(const Tensor statistics, ops::batch_statistics(t.context, t.x[0]));
          return ops::batch_norm_training(t.context, t.x[0], statistics, t.params[0], t.params[1], 1e-3F);
        },
        2e-5);
    add_case(
        cases, "batch_norm", dims.to_string(), {{dims}, {channels, channels, channels, channels}},
        [](Trial& t) {
          return ops::batch_norm(t.context, t.x[0], t.params[0], t.params[1], t.params[2], t.params[3], 2);
        },
        2e-6);
  }
  for (const Dims& dims : {Dims{0, 2, 2, 4}, Dims{1, 1, 1, 8}, Dims{2, 5, 3, 12}, Dims{1, 7, 7, 36}}) {
    for (const uint64_t groups : {1U, 4U}) {
      add_case(
          cases, "group_norm", fmt::format("{} groups {}", dims.to_string(), groups), {{dims}, {{dims[3]}, {dims[3]}}},
          [=](Trial& t) { return ops::group_norm(t.context, t.x[0], groups, t.params[0], t.params[1], 1e-3F); }, 1e-5);
    }
  }
}

void add_larger_images(Cases& cases) {
  for (const auto& [kernel, stride, pad] :
       std::array<std::array<uint64_t, 3>, 4>{{{1, 1, 0}, {3, 2, 1}, {2, 2, 0}, {5, 3, 2}}}) {
    add_case(
        cases, "conv_transpose2d", fmt::format("kernel {} stride {} pad {}", kernel, stride, pad),
        {{{2, 4, 5, 9}}, {{9, 17, kernel, kernel}, {17}}},
        [=](Trial& t) { return ops::conv_transpose2d(t.context, t.x[0], t.params[0], &t.params[1], stride, pad); },
        sum_of(9 * kernel * kernel));
  }
  for (const ops::Upsampling method :
       {ops::Upsampling::kNearest, ops::Upsampling::kBilinear, ops::Upsampling::kBilinearAlignedCorners}) {
    for (const Dims& dims : {Dims{0, 2, 2, 1}, Dims{1, 1, 1, 3}, Dims{2, 5, 7, 33}}) {
      for (const uint64_t factor : {1U, 2U, 5U}) {
        add_case(
            cases, "upsample2d", fmt::format("{} {} by {}", static_cast<int>(method), dims.to_string(), factor),
            {{dims}}, [=](Trial& t) { return ops::upsample2d(t.context, t.x[0], factor, method); }, kElementwise);
      }
    }
  }
}

void add_losses(Cases& cases) {
  for (const auto& [rows, classes] : std::array<std::array<uint64_t, 2>, 4>{{{1, 1}, {3, 7}, {17, 129}, {65, 10}}}) {
    const Dims dims{rows, classes};
    std::vector<uint32_t> labels;
    for (uint32_t i = 0; i < rows; ++i) labels.push_back(i % 4 == 3 ? ops::kIgnoredLabel : i * 7 % classes);
    add_case(
        cases, "cross_entropy", "labels " + dims.to_string(), {{dims}},
        [=](Trial& t) { return ops::cross_entropy(t.context, t.x[0], labels); }, 2 * kFunction);
    add_case(
        cases, "cross_entropy", "targets " + dims.to_string(), {{dims, dims}},
        [](Trial& t) { return ops::cross_entropy(t.context, t.x[0], t.x[1]); }, sum_of(classes));
    add_case(
        cases, "hinge_loss", dims.to_string(), {{dims}},
        [=](Trial& t) { return ops::hinge_loss(t.context, t.x[0], labels, 1); }, sum_of(classes));
    add_case(
        cases, "margin_logits", dims.to_string(), {{dims}},
        [=](Trial& t) { return ops::margin_logits(t.context, ops::AngularMargin::kArcFace, t.x[0], labels, 0.5, 4); },
        4 * kFunction);
    add_case(
        cases, "square_distances", dims.to_string(), {{dims, {5, classes}}},
        [](Trial& t) { return ops::square_distances(t.context, t.x[0], t.x[1]); }, sum_of(4 * classes));
  }
  for (const ops::ElementLoss loss :
       {ops::ElementLoss::kSquared, ops::ElementLoss::kAbsolute, ops::ElementLoss::kSmoothL1,
        ops::ElementLoss::kBinaryCrossEntropy, ops::ElementLoss::kBinaryCrossEntropyWithLogits}) {
    // Logarithms of probabilities that were clamped to 1e-6 magnify how 1 - 1e-6 was rounded.
    add_one_input(cases, "element_loss", fmt::format("loss {}", static_cast<int>(loss)),
                  loss == ops::ElementLoss::kBinaryCrossEntropy ? 1e-2 : kFunction,
                  [=](Trial& t) { return ops::element_loss(t.context, loss, t.x[0], t.x[1], 0.5); });
  }
}

}  // namespace

void add_training_cases(Cases& cases) {
  add_sums(cases);
  add_batch_norms(cases);
  add_larger_images(cases);
  add_losses(cases);
}

}  // namespace ballast::testing
