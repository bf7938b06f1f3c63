// Hugging Face folders as plan_folder makes them, written for tests to run.
#pragma once

#include <string>

#include "ballast/exchange/exchange.h"

namespace ballast::testing {

// What the model at `source` becomes, in `folder`, which is made where it does not exist.
Status write_as_folder(const std::string& source, const std::string& folder, const FolderOptions& options = {});

// Each file under its name in `folder`.
void write_companions(const std::vector<CompanionFile>& files, const std::string& folder);

}  // namespace ballast::testing
