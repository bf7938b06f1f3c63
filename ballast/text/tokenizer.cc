#include "ballast/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "ballast/base/utf8.h"
#include "ballast/io/guard.h"
#include "ballast/io/parallel.h"
#include "ballast/text/tokenizer/byte_alphabet.h"
#include "ballast/text/tokenizer/tokenizer_stages.h"
#include "ballast/text/tokenizer/word_split.h"

namespace ballast {

namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// ---------------------------------------------------------------- no text becomes a special token

using SpecialTexts = std::set<std::string, std::less<>>;

// Tokens that only the tokenizer itself may give, in the spelling of the model.
SpecialTexts special_texts(const TokenizerDescription& description) {
  SpecialTexts texts;
  for (const AddedToken& token : description.added) {
    if (token.special) texts.insert(token.text);
  }
  return texts;
}

template <typename Vocabulary>
void withhold_from_merges(Vocabulary& vocabulary, const SpecialTexts& special) {
  const auto is_special = [&](std::string_view text) { return special.find(text) != special.end(); };
  std::erase_if(vocabulary.merges, [&](const auto& merge) {
    return is_special(merge.left) || is_special(merge.right) || is_special(merge.left + merge.right);
  });
}

void withhold(BytePairVocabulary& vocabulary, const SpecialTexts& special) {
  withhold_from_merges(vocabulary, special);
  std::erase_if(vocabulary.tokens, [&](const auto& token) { return special.contains(token.bytes); });
}

void withhold(CharPairVocabulary& vocabulary, const SpecialTexts& special) {
  withhold_from_merges(vocabulary, special);
  const auto withheld = [&](const auto& token) {
    return special.contains(token.text) && token.text != vocabulary.unknown;
  };
  if (vocabulary.scores.empty()) {
    std::erase_if(vocabulary.tokens, withheld);
    return;
  }
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (special.contains(vocabulary.tokens[i].text)) vocabulary.scores[i].reset();
  }
}

void withhold(UnigramVocabulary& vocabulary, const SpecialTexts& special) {
  for (auto& token : vocabulary.tokens) token.in_text = token.in_text && !special.contains(token.text);
}

void withhold(WordVocabulary& vocabulary, const SpecialTexts& special) {
  std::erase_if(vocabulary.tokens,
                [&](const auto& token) { return special.contains(token.text) && token.text != vocabulary.unknown; });
}

// ---------------------------------------------------------------- broken text

std::string with_replacements(std::string_view text) {
  std::string out;
  for_each_char(text, [&](const CharAt& c) {
    if (c.code_point == kBrokenByte) out += "\uFFFD";
    else out.append(text, c.begin, c.end - c.begin);
  });
  return out;
}

}  // namespace

TokenizerDescription gpt2_description() {
  TokenizerDescription description;
  description.pre_tokenizers = {SplitBytes{.add_prefix_space = false, .cut = true, .spell = false}};
  return description;
}

// ---------------------------------------------------------------- making

Result<Tokenizer::Stages> Tokenizer::Stages::make(TokenizerDescription description) {
  TokenModel vocabulary = description.model;
  const SpecialTexts special = special_texts(description);
  std::visit([&](auto& tokens) { withhold(tokens, special); }, vocabulary);
  BALLAST_TRY(Model model, std::visit(Overloaded{[](const BytePairVocabulary& v) -> Result<Model> {
                                                   BALLAST_TRY(BytePairEncoder encoder, BytePairEncoder::make(v));
                                                   return Model(std::move(encoder));
                                                 },
                                                 [](const CharPairVocabulary& v) -> Result<Model> {
                                                   BALLAST_TRY(CharPairEncoder encoder, CharPairEncoder::make(v));
                                                   return Model(std::move(encoder));
                                                 },
                                                 [](const UnigramVocabulary& v) -> Result<Model> {
                                                   BALLAST_TRY(UnigramEncoder encoder, UnigramEncoder::make(v));
                                                   return Model(std::move(encoder));
                                                 },
                                                 [](const WordVocabulary& v) -> Result<Model> {
                                                   BALLAST_TRY(WordEncoder encoder, WordEncoder::make(v));
                                                   return Model(std::move(encoder));
                                                 }},
                                      vocabulary));
  BALLAST_TRY(AddedTokens added, AddedTokens::make(description.added, description.normalizers));
  Stages stages(std::move(model), std::move(added));
  BALLAST_CHECK(stages.add_texts(description));
  stages.learn_spelling(description.model);
  stages.normalizers_ = std::move(description.normalizers);
  stages.pre_tokenizers_ = std::move(description.pre_tokenizers);
  stages.post_processor_ = std::move(description.post_processor);
  stages.truncation_ = description.truncation;
  stages.padding_ = description.padding;
  stages.replace_broken_ = description.replace_broken;
  stages.marks_ = std::move(description.marks);
  stages.notes_ = std::move(description.notes);
  stages.learn_cut();
  return stages;
}

void Tokenizer::Stages::learn_cut() {
  if (!std::holds_alternative<BytePairEncoder>(model_) || pre_tokenizers_.empty() || pre_tokenizers_.size() > 2) return;
  const auto* bytes = std::get_if<SplitBytes>(&pre_tokenizers_.back());
  if (bytes == nullptr || bytes->spell) return;
  if (pre_tokenizers_.size() == 1) {
    if (bytes->cut) cut_ = Cut{gpt2_piece_end, bytes->add_prefix_space};
    return;
  }
  const auto* words = std::get_if<SplitAtPattern>(&pre_tokenizers_.front());
  if (words == nullptr || words->behavior != SplitBehavior::kIsolated || bytes->cut || bytes->add_prefix_space) return;
  if (const auto piece_end = words->pattern.piece_end()) cut_ = Cut{piece_end, false};
}

// The texts of all ids, and what they stand for.
Status Tokenizer::Stages::add_texts(const TokenizerDescription& description) {
  const bool of_bytes = std::holds_alternative<BytePairVocabulary>(description.model);
  // Byte-level models spell bytes; what their decoder does to each token was done by the reader.
  if (!of_bytes) decoders_ = description.decoders;
  std::visit(Overloaded{[&](const BytePairVocabulary& v) {
                          for (const auto& [bytes, id] : v.tokens) texts_.push_back({id, false, "", bytes});
                          for (const auto& [bytes, id] : v.unreachable) texts_.push_back({id, false, "", bytes});
                        },
                        [&](const auto& v) {
                          for (const auto& token : v.tokens) texts_.push_back({token.id, false, token.text, ""});
                        }},
             description.model);
  const bool added_spell_bytes = of_bytes && !description.decoders.empty();
  for (const AddedToken& token : description.added) {
    std::string bytes = added_spell_bytes ? from_byte_alphabet(token.text).value_or(token.text) : token.text;
    texts_.push_back({token.id, token.special, of_bytes ? "" : token.text, std::move(bytes)});
  }
  // Of two tokens with one id the last counts, an added one most of all.
  std::ranges::stable_sort(texts_, {}, &IdText::id);
  std::ranges::reverse(texts_);
  const auto same_id = [](const IdText& a, const IdText& b) { return a.id == b.id; };
  texts_.erase(std::unique(texts_.begin(), texts_.end(), same_id), texts_.end());
  std::ranges::reverse(texts_);
  texts_.shrink_to_fit();
  if (of_bytes) return {};
  for (IdText& entry : texts_) {
    if (entry.special) entry.bytes = entry.text;
    else BALLAST_CHECK(assign(entry.bytes, decode_one(decoders_, entry.text)));
  }
  return {};
}

// ---------------------------------------------------------------- encoding

Result<std::vector<TokenId>> Tokenizer::Stages::encode(std::string_view text, const EncodeOptions& options) const {
  const bool adds = options.add_special_tokens && post_processor_.added_count(false) > 0;
  if (!adds && !options.fit_length) {
    BytePairEncoder::Cache cache(text.size());
    return encode_text(text, options.special_tokens, cache);
  }
  BALLAST_TRY(Encoding encoding, encode_full(text, options));
  return std::move(encoding.ids);
}

Result<Tokenizer::Stages::Tokens> Tokenizer::Stages::encode_one(std::string_view text, const EncodeOptions& options,
                                                                BytePairEncoder::Cache& cache) const {
  if (options.offsets) return encode_traced(text, options.special_tokens);
  BALLAST_TRY(std::vector<TokenId> ids, encode_text(text, options.special_tokens, cache));
  return Tokens{std::move(ids), {}};
}

Result<Encoding> Tokenizer::Stages::encode_full(std::string_view text, const EncodeOptions& options) const {
  BytePairEncoder::Cache cache(text.size());
  return encode_full(text, options, cache);
}

Result<Encoding> Tokenizer::Stages::encode_full(std::string_view text, const EncodeOptions& options,
                                                BytePairEncoder::Cache& cache) const {
  BALLAST_TRY(Tokens tokens, encode_one(text, options, cache));
  return finish(std::move(tokens), nullptr, options);
}

Result<Encoding> Tokenizer::Stages::encode_pair(std::string_view first, std::string_view second,
                                                const EncodeOptions& options) const {
  BytePairEncoder::Cache cache(first.size() + second.size());
  BALLAST_TRY(Tokens first_tokens, encode_one(first, options, cache));
  BALLAST_TRY(Tokens second_tokens, encode_one(second, options, cache));
  return finish(std::move(first_tokens), &second_tokens, options);
}

Result<Encoding> Tokenizer::Stages::finish(Tokens first, Tokens* second, const EncodeOptions& options) const {
  std::vector<TokenId>* second_ids = second != nullptr ? &second->ids : nullptr;
  if (options.fit_length && truncation_) {
    const size_t added = options.add_special_tokens ? post_processor_.added_count(second != nullptr) : 0;
    BALLAST_CHECK(truncate(*truncation_, added, first.ids, second_ids));
    if (options.offsets) truncate_spans(*truncation_, first.ids.size(), first.spans);
    if (options.offsets && second != nullptr) truncate_spans(*truncation_, second->ids.size(), second->spans);
  }
  Encoding encoding = assemble(post_processor_, first.ids, second_ids, options.add_special_tokens);
  if (options.offsets) {
    encoding.offsets = assemble_spans(post_processor_, first.spans, second != nullptr ? &second->spans : nullptr,
                                      options.add_special_tokens);
  }
  if (options.fit_length && padding_) pad(*padding_, encoding, options.offsets);
  return encoding;
}

Result<std::vector<TokenId>> Tokenizer::Stages::encode_text(std::string_view text, bool special,
                                                            BytePairEncoder::Cache& cache) const {
  std::string repaired;
  if (replace_broken_ && !is_valid_utf8(text)) {
    repaired = with_replacements(text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  for (const TextPart& part : added_.split(text, /*normalized=*/false, special)) {
    if (part.token != nullptr) ids.push_back(part.token->id);
    else BALLAST_CHECK(encode_between(part.text, special, part.text.data() == text.data(), cache, ids));
  }
  return ids;
}

// What lies between added tokens that are found in the text as it is.
Status Tokenizer::Stages::encode_between(std::string_view text, bool special, bool first, BytePairEncoder::Cache& cache,
                                         std::vector<TokenId>& out) const {
  std::string normalized;
  if (!normalizers_.empty()) {
    BALLAST_CHECK(assign(normalized, normalize(normalizers_, text)));
    text = normalized;
  }
  for (const TextPart& part : added_.split(text, /*normalized=*/true, special)) {
    if (part.token != nullptr) out.push_back(part.token->id);
    else BALLAST_CHECK(encode_segment(part.text, first && part.text.data() == text.data(), cache, out));
  }
  return {};
}

Status Tokenizer::Stages::encode_segment(std::string_view text, bool first, BytePairEncoder::Cache& cache,
                                         std::vector<TokenId>& out) const {
  if (cut_) {
    encode_cut(text, cache, out);
    return {};
  }
  PieceList list(text, first);
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers_) BALLAST_CHECK(list.apply(pre_tokenizer));
  if (const auto* bytes = std::get_if<BytePairEncoder>(&model_)) {
    std::vector<std::string_view> pieces;
    pieces.reserve(list.pieces().size());
    for (const auto& piece : list.pieces()) pieces.push_back(piece.text);
    bytes->encode_pieces(pieces, {}, cache, out);
    return {};
  }
  for (const auto& piece : list.pieces()) {
    BALLAST_CHECK(std::visit(Overloaded{[](const BytePairEncoder&) { return Status(); },
                                        [&](const auto& model) { return model.encode(piece.text, out); }},
                             model_));
  }
  return {};
}

void Tokenizer::Stages::encode_cut(std::string_view text, BytePairEncoder::Cache& cache,
                                   std::vector<TokenId>& out) const {
  std::string prefixed;
  if (cut_->add_prefix_space && !text.starts_with(' ')) {
    prefixed = fmt::format(" {}", text);
    text = prefixed;
  }
  const auto& encoder = std::get<BytePairEncoder>(model_);
  std::array<std::string_view, BytePairEncoder::kBatch> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t count = 0;
    while (count < pieces.size() && at < text.size()) {
      const size_t end = cut_->piece_end(text, at);
      pieces[count++] = text.substr(at, end - at);
      at = end;
    }
    encoder.encode_pieces(std::span(pieces).first(count), text, cache, out);
  }
}

// ---------------------------------------------------------------- what ids are

const Tokenizer::Stages::IdText* Tokenizer::Stages::find_id(TokenId id) const {
  // Ids are dense in nearly every vocabulary.
  if (id < texts_.size() && texts_[id].id == id) return &texts_[id];
  const auto found = std::ranges::lower_bound(texts_, id, {}, &IdText::id);
  return found != texts_.end() && found->id == id ? &*found : nullptr;
}

std::optional<std::string_view> Tokenizer::Stages::bytes_of(TokenId id) const {
  const IdText* text = find_id(id);
  if (text == nullptr) return std::nullopt;
  return text->bytes;
}

bool Tokenizer::Stages::is_special(TokenId id) const {
  const IdText* text = find_id(id);
  return text != nullptr && text->special;
}

std::optional<TokenId> Tokenizer::Stages::find(std::string_view text) const {
  for (const AddedToken& token : added_.tokens()) {
    if (token.text == text) return token.id;
  }
  for (const IdText& entry : texts_) {
    if (!entry.text.empty() && entry.text == text) return entry.id;
  }
  for (const IdText& entry : texts_) {
    if (entry.bytes == text) return entry.id;
  }
  return std::nullopt;
}

Result<std::string> Tokenizer::Stages::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string bytes;
  std::vector<std::string> texts;
  for (const TokenId id : ids) {
    const IdText* entry = find_id(id);
    if (entry == nullptr) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no token {}: the largest id is {}", id,
                                                                 texts_.empty() ? 0 : texts_.back().id));
    }
    if (entry->special && options.skip_special_tokens) continue;
    if (decoders_.empty()) bytes += entry->bytes;
    else texts.push_back(entry->text);
  }
  if (decoders_.empty()) return bytes;
  return decode_tokens(decoders_, std::move(texts));
}

// ---------------------------------------------------------------- batches

namespace {

// Texts that one thread encodes one after the other, so that each finds the words of those before it in the cache.
struct BatchShare {
  size_t begin = 0;
  size_t end = 0;
  size_t bytes = 0;
};

// Several for each thread, because a byte does not take equally long everywhere.
std::vector<BatchShare> shares_of(std::span<const std::string_view> texts, unsigned threads) {
  constexpr size_t kTextCost = 16;  // of a text, however short, in bytes
  constexpr size_t kLeast = size_t{1} << 10, kMost = size_t{1} << 18, kSharesOfThread = 8;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  size_t total = 0;
  for (const std::string_view text : texts) total += text.size() + kTextCost;
  const size_t wanted = std::clamp(total / (threads * kSharesOfThread), kLeast, kMost);
  std::vector<BatchShare> shares;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (shares.empty() || shares.back().bytes >= wanted) shares.push_back({i, i, 0});
    shares.back().end = i + 1;
    shares.back().bytes += texts[i].size() + kTextCost;
  }
  return shares;
}

}  // namespace

// ---------------------------------------------------------------- the tokenizer

Result<Tokenizer> Tokenizer::make(TokenizerDescription description) {
  return guarded([&]() -> Result<Tokenizer> {
    BALLAST_TRY(Stages stages, Stages::make(std::move(description)));
    return Tokenizer(std::make_shared<const Stages>(std::move(stages)));
  });
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return guarded([&] { return stages_->encode(text, options); });
}

Result<Encoding> Tokenizer::encode_full(std::string_view text, const EncodeOptions& options) const {
  return guarded([&] { return stages_->encode_full(text, options); });
}

Result<Encoding> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                        const EncodeOptions& options) const {
  return guarded([&] { return stages_->encode_pair(first, second, options); });
}

Result<std::vector<Encoding>> Tokenizer::encode_batch(std::span<const std::string_view> texts,
                                                      const EncodeOptions& options, unsigned threads) const {
  return guarded([&]() -> Result<std::vector<Encoding>> {
    std::vector<Encoding> encodings(texts.size());
    const std::vector<BatchShare> shares = shares_of(texts, threads);
    BALLAST_CHECK(parallel_for(shares.size(), threads, [&](size_t number) -> Status {
      const BatchShare& share = shares[number];
      BytePairEncoder::Cache cache(share.bytes);
      for (size_t i = share.begin; i < share.end; ++i) {
        auto encoding = stages_->encode_full(texts[i], options, cache);
        if (!encoding) return std::move(encoding).error().with_context(fmt::format("text {}", i));
        encodings[i] = std::move(*encoding);
      }
      return {};
    }));
    return encodings;
  });
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  return guarded([&] { return stages_->decode(ids, options); });
}

std::optional<std::string_view> Tokenizer::bytes_of(TokenId id) const { return stages_->bytes_of(id); }

bool Tokenizer::is_special(TokenId id) const { return stages_->is_special(id); }

std::optional<TokenId> Tokenizer::find(std::string_view text) const { return stages_->find(text); }

size_t Tokenizer::size() const { return stages_->size(); }

const TokenMarks& Tokenizer::marks() const { return stages_->marks(); }

const std::vector<std::string>& Tokenizer::notes() const { return stages_->notes(); }

bool Tokenizer::decodes_each_alone() const { return stages_->decodes_each_alone(); }

}  // namespace ballast
