#include "ballast/engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ballast/base/counter_random.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

// Likelier first; of equals the lower id.
bool likelier(const std::pair<float, TokenId>& a, const std::pair<float, TokenId>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

// log(sum(exp(logits))), in the order of the ids.
double log_sum_exp(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

// Loops over a vocabulary are the only work of a batch that one thread does while the others wait. Side by side like
// this, compilers make vectors of them.
constexpr size_t kSideBySide = 16;

struct LogitRange {
  float most;
  bool is_below_infinity;  // all of them, and none is NaN
};
LogitRange range_of(std::span<const float> logits) {
  float most[kSideBySide];
  int32_t above[kSideBySide] = {};
  std::ranges::fill(most, -HUGE_VALF);
  const auto add = [&](size_t place, float logit) {
    most[place] = logit > most[place] ? logit : most[place];
    above[place] |= static_cast<int32_t>(!(logit < HUGE_VALF));
  };
  size_t at = 0;
  for (; at + kSideBySide <= logits.size(); at += kSideBySide) {
    for (size_t i = 0; i < kSideBySide; ++i) add(i, logits[at + i]);
  }
  for (size_t i = 0; at < logits.size(); ++i, ++at) add(i, logits[at]);
  return {std::ranges::max(most), std::ranges::count(above, 0) == kSideBySide};
}

// Of `logit`, which is one of them.
size_t first_place_of(float logit, std::span<const float> logits) {
  size_t at = 0;
  for (; at + kSideBySide <= logits.size(); at += kSideBySide) {
    int32_t found = 0;
    for (size_t i = 0; i < kSideBySide; ++i) found |= static_cast<int32_t>(logits[at + i] == logit);
    if (found != 0) break;
  }
  return static_cast<size_t>(std::ranges::find(logits.subspan(at), logit) - logits.begin());
}

Status check_logits(std::span<const float> logits, const LogitRange& range) {
  if (logits.empty()) return make_error(ErrorCode::kInvalidArgument, "no logits to choose from");
  if (!range.is_below_infinity) {
    const auto bad = std::ranges::find_if(logits, [](float logit) { return !(logit < HUGE_VALF); });
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the logit of token {} is {}: the model's weights or its input hold values that are "
                                  "not finite",
                                  bad - logits.begin(), *bad),
                      Remedy::kCheckWeights);
  }
  if (range.most == -HUGE_VALF) return make_error(ErrorCode::kInvalidArgument, "every token has probability 0");
  return {};
}

}  // namespace

Status check_sampler_options(const SamplerOptions& options) {
  const auto refuse = [](std::string_view name, double value, std::string_view range) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is {}: it must be {}", name, value, range));
  };
  const auto finite = [](double value) { return std::isfinite(static_cast<float>(value)); };
  if (!(options.temperature >= 0) || !finite(options.temperature)) {
    return refuse("temperature", options.temperature, "0 (greedy) or above");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) return refuse("top-p", options.top_p, "above 0 and at most 1");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return refuse("min-p", options.min_p, "between 0 and 1");
  // Below its inverse or above it, logits would leave the range of their type.
  constexpr double kMostPenalty = 1e6;
  if (!(options.repetition_penalty >= 1 / kMostPenalty && options.repetition_penalty <= kMostPenalty)) {
    return refuse("repetition penalty", options.repetition_penalty, "between 0.000001 and 1000000");
  }
  return {};
}

Result<SampledToken> Sampler::next(std::span<const float> logits, std::span<const TokenId> past) {
  return guarded([&]() -> Result<SampledToken> {
    const LogitRange range = range_of(logits);
    BALLAST_CHECK(check_logits(logits, range));
    const TokenId id = choose(logits, range.most, past);
    ++draws_;
    if (!options_.log_probabilities) return SampledToken{id};
    return SampledToken{id, static_cast<double>(logits[id]) - log_sum_exp(logits)};
  });
}

TokenId Sampler::choose(std::span<const float> logits, float most, std::span<const TokenId> past) {
  if (options_.temperature == 0 && options_.repetition_penalty == 1) {
    return static_cast<TokenId>(first_place_of(most, logits));
  }
  candidates_.clear();
  for (size_t id = 0; id < logits.size(); ++id) candidates_.emplace_back(logits[id], static_cast<TokenId>(id));
  penalise(past);
  return options_.temperature == 0 ? std::ranges::min_element(candidates_, likelier)->second : draw();
}

void Sampler::penalise(std::span<const TokenId> past) {
  if (options_.repetition_penalty == 1) return;
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  const auto recent = past.last(static_cast<size_t>(std::min<uint64_t>(past.size(), options_.repetition_window)));
  penalised_.resize(candidates_.size());
  for (const TokenId id : recent) {
    if (id >= candidates_.size() || std::exchange(penalised_[id], uint8_t{1}) != 0) continue;
    float& logit = candidates_[id].first;
    // A logit that would overflow stays the largest there is: an infinite one has no probability.
    logit = logit > 0 ? std::min(logit / penalty, std::numeric_limits<float>::max()) : logit * penalty;
  }
  for (const TokenId id : recent) {
    if (id < candidates_.size()) penalised_[id] = 0;
  }
}

// Narrows the candidates down and picks one of what is left in proportion to its probability.
TokenId Sampler::draw() {
  if (options_.top_k != 0 && options_.top_k < candidates_.size()) {
    const auto edge = candidates_.begin() + static_cast<ptrdiff_t>(options_.top_k);
    std::ranges::nth_element(candidates_, edge, likelier);
    candidates_.erase(edge, candidates_.end());
  }
  std::ranges::sort(candidates_, likelier);
  weights_.clear();
  const double most = candidates_.front().first;
  double sum = 0;
  for (const auto& [logit, id] : candidates_) {
    const double weight = std::exp((static_cast<double>(logit) - most) / options_.temperature);
    if (weight < options_.min_p) break;  // relative to the likeliest, whose weight is 1
    weights_.push_back(weight);
    sum += weight;
  }
  double kept = 0;
  size_t count = 0;
  while (count < weights_.size() && (count == 0 || kept < options_.top_p * sum)) kept += weights_[count++];
  double left = counter_uniform(options_.seed, draws_) * kept;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights_[i];
    if (left < 0) return candidates_[i].second;
  }
  return candidates_[count - 1].second;
}

std::vector<SampledToken> Sampler::likeliest(std::span<const float> logits, size_t count) {
  std::vector<std::pair<float, TokenId>> order;
  for (size_t id = 0; id < logits.size(); ++id) {
    // What is no number has no place in an order; in front it is seen.
    const float rank = std::isnan(logits[id]) ? std::numeric_limits<float>::infinity() : logits[id];
    order.emplace_back(rank, static_cast<TokenId>(id));
  }
  count = std::min(count, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(count), likelier);
  std::vector<SampledToken> found;
  if (count == 0) return found;
  const double total = log_sum_exp(logits);
  for (size_t i = 0; i < count; ++i) {
    const TokenId id = order[i].second;
    found.push_back({id, static_cast<double>(logits[id]) - total});
  }
  return found;
}

}  // namespace ballast
