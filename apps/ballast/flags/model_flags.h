// Flags and help that every command that runs a model has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/runtime/load_model.h"
#include "ballast/runtime/text_model.h"

namespace ballast::cli {

struct ModelFlags {
  std::string path;  // empty: the model that comes with Ballast
  std::string config_path;
  std::string budget;
  std::vector<std::string> overrides;
  std::string profile_path;
  bool overwrite = false;
  bool stats = false;
  LoadOptions load;
};

void add_model_flags(Command& command, ModelFlags& flags);
// Those among them that say how a model is loaded, and what they ask for.
void add_load_flags(Command& command, ModelFlags& flags);
Result<LoadOptions> load_options(const ModelFlags& flags);
// Of the keys and values of texts.
Flag add_cache_dtype_flag(Command& command, DType& dtype);

// Where the model that comes with Ballast lies: beside the program as installed, or in its source tree.
Result<std::string> default_model_path();

// Whether --profile can be written: nothing is there, or with --overwrite an older profile, and it is not `out`, the
// file that the command writes otherwise ("": none). Nothing else is ever replaced: it may be the model.
Status check_profile(const ModelFlags& flags, const std::string& out = "");

// A model that is ready to run, and what watches it. Destroy it before printing nothing more of it.
class RunningModel {
 public:
  static Result<std::unique_ptr<RunningModel>> load(const ModelFlags& flags);
  ~RunningModel();

  LoadedModel& model() { return *model_; }
  const std::shared_ptr<LoadedModel>& shared_model() const { return model_; }
  const ModelSource& source() const { return *source_; }
  const std::string& path() const { return source_->name(); }
  double load_seconds() const { return load_seconds_; }

  // What --stats and --profile promise: to standard error, and to the profile's file.
  Status finish(Console& console);

 private:
  class Profile;
  RunningModel() = default;

  std::optional<ModelSource> source_;
  bool stats_ = false;
  double load_seconds_ = 0;
  std::unique_ptr<Profile> profile_;
  std::shared_ptr<LoadedModel> model_;
};

// What a command takes in place of a tokenizer that the model lacks.
enum class TokenizerAdvice : unsigned char {
  kNothing,            // only a tokenizer beside the model helps
  kTokenizer,          // --tokenizer
  kTokenizerOrTokens,  // or token ids, with --tokens
};
// --tokenizer, or the model's own; kNotFound says how to give one.
Result<Tokenizer> tokenizer_for(const std::string& given, const ModelSource& model, TokenizerAdvice advice);
// The same for what an entry point found, or did not.
Error with_tokenizer_advice(Error error, TokenizerAdvice advice);

// "1,2,3"; errors name the flag.
Result<std::vector<TokenId>> parse_token_list(const std::vector<std::string>& texts,
                                              std::string_view flag = "--tokens");

}  // namespace ballast::cli
