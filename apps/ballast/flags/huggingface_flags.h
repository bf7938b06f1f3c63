// config.json beside the weights: where `convert --adapt huggingface-to-gptrs` finds it, and where the way there puts
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "ballast/base/json.h"
#include "ballast/edit/adapt.h"
#include "ballast/io/file.h"

namespace ballast::cli {

class HuggingFaceConfig {
 public:
  // --write-config
  void add_flags(Command& command);

  // What the adapters are to know. `config_text` and `config_path` are what --config gave: for a Hugging Face model the
  // adapter makes the target's config from it, so that it is taken out of `config_text`. Without --config a config.json
  // beside the source stands in.
  Status prepare(const std::vector<std::string>& adapters, const std::string& source, const std::string& config_path,
                 std::optional<std::string>& config_text, AdaptOptions& adapt);

  // Before the weights are written: fails where the file exists already.
  Status open_output(const CommitOptions& commit, bool dry_run);
  // After: the file that was written, or "".
  Result<std::string> write_output();

  // What the adapter did, once it ran.
  const HuggingFaceReport& report() const { return *report_; }
  // "adapted": the same, or null.
  void add_to(JsonWriter& json) const;

 private:
  std::string write_path_;
  std::unique_ptr<AtomicFiles> files_;
  ByteSink* sink_ = nullptr;
  std::shared_ptr<HuggingFaceReport> report_ = std::make_shared<HuggingFaceReport>();
};

}  // namespace ballast::cli
