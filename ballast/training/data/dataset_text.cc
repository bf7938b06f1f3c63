#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ballast/io/file.h"
#include "ballast/io/guard.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

constexpr uint64_t kBytes = 256;

// Windows of context + 1 tokens. Example i begins at token i * stride.
class TextWindows final : public Dataset {
 public:
  TextWindows(std::string name, std::vector<TokenId> tokens, uint64_t context, uint64_t stride, uint64_t vocabulary)
      : name_(std::move(name)), tokens_(std::move(tokens)), context_(context), stride_(stride) {
    layout_.features = FeatureKind::kTokens;
    layout_.feature_shape = Shape{context};
    layout_.targets = TargetKind::kTokens;
    layout_.target_shape = Shape{context};
    layout_.classes = vocabulary;
    size_ = (tokens_.size() - context - 1) / stride + 1;
  }

  const ExampleLayout& layout() const override { return layout_; }
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

 private:
  Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const override {
    for (size_t i = 0; i < examples.size(); ++i) {
      const TokenId* window = tokens_.data() + examples[i] * stride_;
      std::copy_n(window, context_, out.feature_ids.data() + i * context_);
      std::copy_n(window + 1, context_, out.target_ids.data() + i * context_);
    }
    return {};
  }

  std::string name_;
  std::vector<TokenId> tokens_;
  uint64_t context_;
  uint64_t stride_;
  uint64_t size_;
  ExampleLayout layout_;
};

std::string set_name(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return paths.front();
  return fmt::format("{} and {} more", paths.front(), paths.size() - 1);
}

std::vector<TokenId> bytes_as_tokens(std::string_view text) {
  std::vector<TokenId> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
  return tokens;
}

struct TokenReader {
  const Tokenizer* tokenizer;
  std::optional<TokenId> separator;
  const DocumentReader& documents;

  static Result<TokenReader> make(const Tokenizer* tokenizer, const TextOptions& options) {
    const std::string& separator = options.separator;
    TokenReader reader{tokenizer, std::nullopt, options.documents};
    if (separator.empty()) return reader;
    if (tokenizer != nullptr) reader.separator = tokenizer->find(separator);
    else if (separator.size() == 1) reader.separator = static_cast<unsigned char>(separator[0]);
    if (reader.separator) return reader;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the separator \"{}\" is not one token of the {}", separator,
                                  tokenizer != nullptr ? "tokenizer" : "256 bytes"));
  }

  Result<std::vector<TokenId>> read(const std::string& path) const {
    std::vector<TokenId> tokens;
    if (documents) {
      BALLAST_CHECK(
          documents(path, [&](const std::string& text) { return append(separator ? text : text + '\n', tokens); }));
      return tokens;
    }
    BALLAST_TRY(const auto source, open_file(path, FileAccess::kPositional));
    BALLAST_TRY(const ByteVector bytes, read_bytes(*source, 0, source->size()));
    BALLAST_CHECK(append(as_text(bytes), tokens));
    return tokens;
  }

  // One text, and what stands behind it.
  Status append(std::string_view text, std::vector<TokenId>& tokens) const {
    std::vector<TokenId> added;
    if (tokenizer == nullptr) added = bytes_as_tokens(text);
    else BALLAST_CHECK(assign(added, tokenizer->encode(text)));
    tokens.insert(tokens.end(), added.begin(), added.end());
    if (separator) tokens.push_back(*separator);
    return {};
  }

  uint64_t vocabulary(const std::vector<TokenId>& a, const std::vector<TokenId>& b) const {
    if (tokenizer == nullptr) return kBytes;
    uint64_t most = tokenizer->size();  // ids may have gaps, so the largest can be above the number of them
    for (const auto* tokens : {&a, &b}) {
      for (const TokenId id : *tokens) most = std::max<uint64_t>(most, uint64_t{id} + 1);
    }
    return most;
  }
};

Status check_text_options(const std::vector<std::string>& paths, const TextOptions& options) {
  if (paths.empty()) return make_error(ErrorCode::kInvalidArgument, "no text file was given to train on");
  if (options.context == 0 || options.context > std::numeric_limits<uint32_t>::max()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: a context of {} tokens", set_name(paths), options.context));
  }
  if (options.held_out >= 0 && options.held_out < 1) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a part of {} cannot be held out; it must be 0 or more and below 1",
                                set_name(paths), options.held_out));
}

Status check_length(const std::vector<std::string>& paths, std::string_view part, uint64_t tokens, uint64_t context) {
  if (tokens > context) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: {} has {} tokens, but an example with a context of {} takes {}; use a smaller "
                                "context or more text",
                                set_name(paths), part, tokens, context, context + 1));
}

}  // namespace

Result<TextDatasets> open_text_datasets(const std::vector<std::string>& paths, const Tokenizer* tokenizer,
                                        const TextOptions& options) {
  return guarded([&]() -> Result<TextDatasets> {
    BALLAST_CHECK(check_text_options(paths, options));
    BALLAST_TRY(const TokenReader reader, TokenReader::make(tokenizer, options));
    std::vector<TokenId> training;
    std::vector<TokenId> held_out;
    for (const std::string& path : paths) {
      BALLAST_TRY(const std::vector<TokenId> tokens, reader.read(path));
      const auto held = static_cast<size_t>(std::llround(static_cast<double>(tokens.size()) * options.held_out));
      const auto cut = tokens.end() - static_cast<std::ptrdiff_t>(held);
      training.insert(training.end(), tokens.begin(), cut);
      held_out.insert(held_out.end(), cut, tokens.end());
    }
    TextDatasets sets;
    sets.training_tokens = training.size();
    sets.held_out_tokens = held_out.size();
    sets.vocabulary = reader.vocabulary(training, held_out);
    BALLAST_CHECK(check_length(paths, "the text", training.size(), options.context));
    const std::string name = set_name(paths);
    sets.training = std::make_shared<TextWindows>(name, std::move(training), options.context,
                                                  options.side_by_side ? options.context : 1, sets.vocabulary);
    if (options.held_out > 0) {
      BALLAST_CHECK(check_length(paths, "the held-out part", held_out.size(), options.context));
      sets.held_out =
          std::make_shared<TextWindows>(name, std::move(held_out), options.context, options.context, sets.vocabulary);
    }
    return sets;
  });
}

Result<std::shared_ptr<const Dataset>> open_text_windows(const std::vector<std::string>& paths,
                                                         const Tokenizer* tokenizer, const TextOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<const Dataset>> {
    BALLAST_CHECK(check_text_options(paths, options));
    BALLAST_TRY(const TokenReader reader, TokenReader::make(tokenizer, options));
    std::vector<TokenId> all;
    for (const std::string& path : paths) {
      BALLAST_TRY(const std::vector<TokenId> tokens, reader.read(path));
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    BALLAST_CHECK(check_length(paths, "the text", all.size(), options.context));
    const uint64_t vocabulary = reader.vocabulary(all, {});
    return std::shared_ptr<const Dataset>(
        std::make_shared<TextWindows>(set_name(paths), std::move(all), options.context, options.context, vocabulary));
  });
}

}  // namespace ballast
