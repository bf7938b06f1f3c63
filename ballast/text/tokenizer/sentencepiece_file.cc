#include "ballast/text/tokenizer/sentencepiece_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ballast/text/tokenizer/protobuf.h"

namespace ballast {

namespace {

using Field = ProtobufReader::Field;
using Wire = ProtobufReader::Wire;

enum class PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
enum class ModelType : uint64_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// The fields of ModelProto that tokens depend on.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  ModelType type = ModelType::kUnigram;
  bool byte_fallback = false;
  bool space_behind = false;
  int32_t begin = 1;
  int32_t end = 2;
  int32_t unknown = 0;
  int32_t padding = -1;
  std::string charsmap;
  bool add_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

template <typename Visit>
Status for_each_field(std::string_view bytes, const std::string& where, Visit&& visit) {
  ProtobufReader reader(bytes, where);
  Field field;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next(field));
    if (!more) return {};
    BALLAST_CHECK(visit(field));
  }
}

Status read_piece(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  SentencePiece piece;
  BALLAST_CHECK(for_each_field(bytes, where, [&](const Field& field) -> Status {
    if (field.number == 1 && field.wire == Wire::kBytes) piece.text = field.bytes;
    if (field.number == 2 && field.wire == Wire::kFixed32) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    }
    if (field.number == 3 && field.wire == Wire::kVarint) piece.type = static_cast<PieceType>(field.value);
    return {};
  }));
  if (!std::isfinite(piece.score)) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("{}: the score of piece {} is not a number", where, model.pieces.size()));
  }
  model.pieces.push_back(std::move(piece));
  return {};
}

Status read_trainer(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  return for_each_field(bytes, where, [&](const Field& field) -> Status {
    if (field.wire != Wire::kVarint) return {};
    switch (field.number) {
      case 3: model.type = static_cast<ModelType>(field.value); break;
      case 24: model.space_behind = field.value != 0; break;
      case 35: model.byte_fallback = field.value != 0; break;
      case 40: model.unknown = static_cast<int32_t>(field.value); break;
      case 41: model.begin = static_cast<int32_t>(field.value); break;
      case 42: model.end = static_cast<int32_t>(field.value); break;
      case 43: model.padding = static_cast<int32_t>(field.value); break;
      default: break;
    }
    return {};
  });
}

Status read_normalizer(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  return for_each_field(bytes, where, [&](const Field& field) -> Status {
    if (field.number == 2 && field.wire == Wire::kBytes) model.charsmap = field.bytes;
    if (field.wire != Wire::kVarint) return {};
    if (field.number == 3) model.add_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_spaces = field.value != 0;
    if (field.number == 5) model.escape_spaces = field.value != 0;
    return {};
  });
}

Result<SentencePieceModel> read_model(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  BALLAST_CHECK(for_each_field(bytes, where, [&](const Field& field) -> Status {
    if (field.wire != Wire::kBytes) return {};
    if (field.number == 1) return read_piece(field.bytes, where, model);
    if (field.number == 2) return read_trainer(field.bytes, where, model);
    if (field.number == 3) return read_normalizer(field.bytes, where, model);
    return {};
  }));
  if (model.pieces.empty()) return make_error(ErrorCode::kCorrupt, fmt::format("{}: a model without pieces", where));
  return model;
}

// ---------------------------------------------------------------- what it means

std::optional<TokenId> mark_of(const SentencePieceModel& model, int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= model.pieces.size()) return std::nullopt;
  return static_cast<TokenId>(id);
}

TokenModel unigram_of(const SentencePieceModel& model, std::optional<TokenId> unknown) {
  UnigramVocabulary vocabulary;
  float highest = std::numeric_limits<float>::lowest();
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == PieceType::kNormal) highest = std::max(highest, piece.score);
  }
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& [text, score, type] = model.pieces[i];
    const bool defined = type == PieceType::kUserDefined;
    // What users defined outdoes any way to spell it.
    const double value = defined ? static_cast<double>(text.size()) * highest - 0.1 : score;
    vocabulary.tokens.push_back(
        {text, static_cast<TokenId>(i), value, defined || type == PieceType::kNormal, type == PieceType::kNormal});
  }
  vocabulary.unknown = unknown;
  vocabulary.byte_fallback = model.byte_fallback;
  return vocabulary;
}

TokenModel pairs_of(const SentencePieceModel& model, std::optional<TokenId> unknown) {
  CharPairVocabulary vocabulary;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& [text, score, type] = model.pieces[i];
    const bool in_text = type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused;
    vocabulary.tokens.push_back({text, static_cast<TokenId>(i)});
    vocabulary.scores.push_back(in_text ? std::optional(score) : std::nullopt);
    if (type == PieceType::kUserDefined) vocabulary.unbreakable.push_back(text);
  }
  if (unknown) vocabulary.unknown = model.pieces[*unknown].text;
  vocabulary.fuse_unknown = true;
  vocabulary.byte_fallback = model.byte_fallback;
  return vocabulary;
}

Result<Normalizer> normalizer_of(const SentencePieceModel& model, const std::string& where) {
  SentencePieceText text;
  if (!model.charsmap.empty()) {
    auto map = Charsmap::parse(model.charsmap);
    if (!map) return std::move(map).error().with_context(where);
    text.map = std::move(*map);
  }
  text.add_prefix = model.add_prefix;
  text.remove_extra_spaces = model.remove_extra_spaces;
  text.escape_spaces = model.escape_spaces;
  text.space_behind = model.space_behind;
  std::vector<PhraseFinder::Phrase> kept;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == PieceType::kUserDefined) kept.push_back({piece.text, 0});
  }
  if (!kept.empty()) text.kept = std::make_shared<PhraseFinder>(kept, PhraseFinder::Reading::kBackward);
  return Normalizer(std::move(text));
}

}  // namespace

Result<std::vector<SentencePieceToken>> read_sentencepiece_pairs(std::string_view bytes, const std::string& where) {
  BALLAST_TRY(SentencePieceModel model, read_model(bytes, where));
  if (model.type != ModelType::kBpe) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{}: it is no model of byte pairs", where));
  }
  std::vector<SentencePieceToken> tokens;
  for (SentencePiece& piece : model.pieces) {
    tokens.push_back({std::move(piece.text), piece.score, static_cast<int32_t>(piece.type)});
  }
  return tokens;
}

bool looks_like_sentencepiece(std::string_view bytes) {
  // The first field is a piece, whose first field is a text.
  return bytes.size() > 4 && bytes[0] == '\x0A' && (bytes[2] == '\x0A' || bytes[3] == '\x0A');
}

Result<TokenizerDescription> parse_sentencepiece(std::string_view bytes, const std::string& where) {
  BALLAST_TRY(const SentencePieceModel model, read_model(bytes, where));
  if (model.type != ModelType::kUnigram && model.type != ModelType::kBpe) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{}: a SentencePiece model of type {}; unigram (1) and BPE (2) are known", where,
                                  static_cast<uint64_t>(model.type)));
  }
  TokenizerDescription description;
  description.marks.begin = mark_of(model, model.begin);
  description.marks.end = mark_of(model, model.end);
  description.marks.unknown = mark_of(model, model.unknown);
  description.marks.padding = mark_of(model, model.padding);
  if (description.marks.end) description.marks.stops = {*description.marks.end};
  description.model = model.type == ModelType::kUnigram ? unigram_of(model, description.marks.unknown)
                                                        : pairs_of(model, description.marks.unknown);
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    if (piece.type != PieceType::kControl && piece.type != PieceType::kUnknown) continue;
    AddedToken token;
    token.text = piece.text;
    token.id = static_cast<TokenId>(i);
    token.special = true;
    description.added.push_back(std::move(token));
  }
  BALLAST_TRY(Normalizer normalizer, normalizer_of(model, where));
  description.normalizers.push_back(std::move(normalizer));
  description.decoders = {DecodeReplace{TextPattern::exact("\u2581"), " "}, DecodeByteTokens{}, DecodeFuse{}};
  if (model.add_prefix) {
    description.decoders.push_back(
        DecodeStrip{.character = " ", .start = model.space_behind ? 0U : 1U, .stop = model.space_behind ? 1U : 0U});
  }
  return description;
}

}  // namespace ballast
