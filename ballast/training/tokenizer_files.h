// The files of a tokenizer, which go wherever a trained text model goes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ballast/exchange/exchange.h"

namespace ballast {

// Of what load_tokenizer takes ("bytes", a file, a folder), under the names that load_tokenizer finds beside a model.
// kUnsupported for a vocabulary inside a GGUF file.
Result<std::vector<CompanionFile>> tokenizer_files(const std::string& tokenizer);

// Those in a folder; none where there are none.
Result<std::vector<CompanionFile>> find_tokenizer_files(const std::string& folder);

// Whether a model at `model_path` would be taken to use these: kExists where its folder holds another tokenizer, which
// `overwrite` replaces where it has the same names. Nothing is written.
Status check_tokenizer_place(const std::string& model_path, std::span<const CompanionFile> files, bool overwrite);

// Adds them to a set of files that is being written, beside `model_path`; what is there already is left alone.
Status add_companions(AtomicFiles& set, const std::string& model_path, std::span<const CompanionFile> files);

}  // namespace ballast
