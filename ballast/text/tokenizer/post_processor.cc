#include "ballast/text/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

namespace {

using PartKind = PostProcessor::Part::Kind;

void shorten(std::vector<TokenId>& ids, size_t size, bool from_left) {
  if (ids.size() <= size) return;
  if (from_left) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(size));
  else ids.resize(size);
}

void shorten_longest(const Truncation& how, size_t most, std::vector<TokenId>& first, std::vector<TokenId>& second) {
  size_t shorter = std::min(first.size(), second.size());
  size_t longer = std::max(first.size(), second.size());
  // The longer one gives until both are equal; of an odd number of places the shorter one has the lesser part.
  if (shorter > most) longer = shorter;
  else longer = std::max(shorter, most - shorter);
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  const bool first_longer = first.size() > second.size();
  shorten(first, first_longer ? longer : shorter, how.from_left);
  shorten(second, first_longer ? shorter : longer, how.from_left);
}

}  // namespace

size_t PostProcessor::added_count(bool two) const {
  size_t count = 0;
  for (const Part& part : two ? pair : single) count += part.tokens.size();
  return count;
}

Status truncate(const Truncation& how, size_t added, std::vector<TokenId>& first, std::vector<TokenId>* second) {
  const size_t most = how.max_length - std::min(how.max_length, added);
  const size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= most) return {};
  using Strategy = Truncation::Strategy;
  if (second == nullptr && how.strategy != Strategy::kOnlySecond) {
    shorten(first, most, how.from_left);
    return {};
  }
  if (how.strategy == Strategy::kLongestFirst) {
    shorten_longest(how, most, first, *second);
    return {};
  }
  std::vector<TokenId>* target = how.strategy == Strategy::kOnlyFirst ? &first : second;
  if (target == nullptr || target->size() <= total - most) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a text of {} tokens cannot be cut to {}: the tokenizer cuts only the {} text", total,
                                  most, how.strategy == Strategy::kOnlyFirst ? "first" : "second"));
  }
  shorten(*target, target->size() - (total - most), how.from_left);
  return {};
}

void truncate_spans(const Truncation& how, size_t left, std::vector<TextSpan>& spans) {
  if (how.from_left) spans.erase(spans.begin(), spans.end() - static_cast<ptrdiff_t>(left));
  else spans.resize(left);
}

std::vector<TextSpan> assemble_spans(const PostProcessor& how, const std::vector<TextSpan>& first,
                                     const std::vector<TextSpan>* second, bool add_tokens) {
  std::vector<TextSpan> spans;
  for (const auto& [kind, type_id, tokens] : second != nullptr ? how.pair : how.single) {
    if (kind == PartKind::kTokens) {
      if (add_tokens) spans.resize(spans.size() + tokens.size());
      continue;
    }
    if (kind == PartKind::kSecondText && second == nullptr) continue;
    const std::vector<TextSpan>& text = kind == PartKind::kFirstText ? first : *second;
    spans.insert(spans.end(), text.begin(), text.end());
  }
  return spans;
}

Encoding assemble(const PostProcessor& how, const std::vector<TokenId>& first, const std::vector<TokenId>* second,
                  bool add_tokens) {
  Encoding encoding;
  for (const auto& [kind, type_id, tokens] : second != nullptr ? how.pair : how.single) {
    const bool added = kind == PartKind::kTokens;
    if (added && !add_tokens) continue;
    if (kind == PartKind::kSecondText && second == nullptr) continue;
    const std::vector<TokenId>& ids = added ? tokens : kind == PartKind::kFirstText ? first : *second;
    encoding.ids.insert(encoding.ids.end(), ids.begin(), ids.end());
    encoding.type_ids.resize(encoding.ids.size(), type_id);
    encoding.special.resize(encoding.ids.size(), added);
  }
  return encoding;
}

void pad(const Padding& how, Encoding& encoding, bool offsets) {
  const size_t size = encoding.ids.size();
  size_t wanted = std::max(size, how.fixed);
  if (how.multiple_of > 0 && wanted % how.multiple_of != 0) wanted += how.multiple_of - wanted % how.multiple_of;
  const size_t count = wanted - size;
  const auto place = [&](auto& list) { return how.on_left ? list.begin() : list.end(); };
  encoding.ids.insert(place(encoding.ids), count, how.id);
  encoding.type_ids.insert(place(encoding.type_ids), count, how.type_id);
  encoding.special.insert(place(encoding.special), count, true);
  if (offsets) encoding.offsets.insert(place(encoding.offsets), count, TextSpan{});
  encoding.padding_begin = how.on_left ? 0 : size;
  encoding.padding_end = encoding.padding_begin + count;
}

}  // namespace ballast
