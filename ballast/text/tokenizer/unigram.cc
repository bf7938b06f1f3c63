#include "ballast/text/tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ballast/text/unicode.h"

namespace ballast {

namespace {

constexpr double kUnknownPenalty = 10;

}  // namespace

Result<UnigramEncoder> UnigramEncoder::make(const UnigramVocabulary& vocabulary) {
  if (vocabulary.tokens.empty()) return make_error(ErrorCode::kCorrupt, "a Unigram model without a single token");
  UnigramEncoder encoder;
  std::vector<PhraseFinder::Phrase> phrases;
  double lowest = std::numeric_limits<double>::infinity();
  std::unordered_map<std::string_view, TokenId> ids;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto& token = vocabulary.tokens[i];
    encoder.ids_.push_back(token.id);
    encoder.scores_.push_back(token.score);
    if (token.counts_low) lowest = std::min(lowest, token.score);
    if (token.in_text) phrases.push_back({token.text, static_cast<uint32_t>(i)});
    ids[token.text] = token.id;
  }
  encoder.finder_ = std::make_shared<PhraseFinder>(phrases, PhraseFinder::Reading::kForward);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(fmt::format("<0x{:02X}>", byte));
    if (found != ids.end()) encoder.bytes_[byte] = found->second;
  }
  encoder.unknown_ = vocabulary.unknown;
  encoder.unknown_score_ = lowest - kUnknownPenalty;
  encoder.byte_fallback_ = vocabulary.byte_fallback;
  return encoder;
}

// The best way to every place of the piece, by the token that ends there.
std::vector<UnigramEncoder::Step> UnigramEncoder::find_best(std::string_view piece) const {
  std::vector<Step> steps(piece.size() + 1);
  steps[0].begin = 0;
  PhraseFinder::State state = PhraseFinder::kStart;
  for (size_t at = 0; at < piece.size();) {
    const CharAt c = char_at(piece, at);
    for (; at < c.end; ++at) state = finder_->next(state, piece[at]);
    Step& here = steps[at];
    bool has_single = false;
    // Earlier beginnings first, and only what is better replaces them.
    for (auto match = finder_->longest(state); match != PhraseFinder::kStart; match = finder_->shorter(match)) {
      const size_t begin = at - finder_->length(match);
      if (steps[begin].begin == SIZE_MAX) continue;  // in the middle of a character
      has_single |= begin == c.begin;
      const uint32_t token = finder_->value(match);
      const double score = steps[begin].score + scores_[token];
      if (here.begin == SIZE_MAX || score > here.score) here = {score, begin, token};
    }
    if (has_single) continue;
    const double score = steps[c.begin].score + unknown_score_;
    if (here.begin == SIZE_MAX || score > here.score) here = {score, c.begin, kUnknown};
  }
  return steps;
}

Status UnigramEncoder::encode(std::string_view piece, std::vector<TokenId>& out) const {
  const std::vector<Step> steps = find_best(piece);
  std::vector<size_t> ends;  // of the tokens, last first
  for (size_t at = piece.size(); at > 0; at = steps[at].begin) ends.push_back(at);
  // The token for the unknown may be spelled out in the text; that is no better known.
  const auto is_unknown = [&](size_t end) {
    const uint32_t token = steps[end].token;
    return token == kUnknown || ids_[token] == unknown_;
  };
  for (size_t i = ends.size(); i-- > 0;) {
    const Step& step = steps[ends[i]];
    if (!is_unknown(ends[i])) {
      out.push_back(ids_[step.token]);
      continue;
    }
    while (i > 0 && is_unknown(ends[i - 1])) --i;
    BALLAST_CHECK(add_unknown(piece.substr(step.begin, ends[i] - step.begin), out));
  }
  return {};
}

Status UnigramEncoder::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const auto byte_id = [this](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (byte_fallback_ && std::ranges::all_of(text, [&](char c) { return byte_id(c).has_value(); })) {
    for (const char c : text) out.push_back(*byte_id(c));
    return {};
  }
  if (!unknown_) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("no token spells \"{}\", and the model has none for the unknown", text.substr(0, 40)));
  }
  out.push_back(*unknown_);
  return {};
}

}  // namespace ballast
