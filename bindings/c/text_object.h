// What stands behind handles of tokenizers and text models, and what generating is told.
#pragma once

#include <optional>

#include "ballast/runtime/text_model.h"
#include "bindings/c/boundary.h"

namespace ballast::c {

template <>
struct HandleTraits<ballast_tokenizer> {
  using Object = Tokenizer;
  static constexpr HandleKind kKind = HandleKind::kTokenizer;
  static constexpr const char* kName = "tokenizer";
};

struct TextModelObject {
  TextModel model;
  std::string kind;
};
template <>
struct HandleTraits<ballast_text_model> {
  using Object = TextModelObject;
  static constexpr HandleKind kKind = HandleKind::kTextModel;
  static constexpr const char* kName = "text model";
};

template <>
struct HandleTraits<ballast_constraint> {
  using Object = Constraint;
  static constexpr HandleKind kKind = HandleKind::kConstraint;
  static constexpr const char* kName = "constraint";
};

// Says in the log what a person may want to know about a model that was opened.
void log_load(const LoadedModel& model);
void log_notes(const Tokenizer& tokenizer);

// Options that all kinds of models have.
Result<LoadOptions> load_options(const ballast_model_options& given);

struct Generation {
  GenerateOptions options;
  std::vector<std::string> stops;
  std::shared_ptr<CancelObject> cancel;  // null where there is none
  int priority = 0;

  bool is_cancelled() const { return cancel != nullptr && cancel->requested; }
};
// Of a text of `model`. `usual`: what holds where nothing is given.
Result<Generation> given_generation(const ballast_generate_options* given, const TextModel& model,
                                    const GenerateOptions& usual);

ballast_generate_options to_c(const GenerateOptions& options);

}  // namespace ballast::c
