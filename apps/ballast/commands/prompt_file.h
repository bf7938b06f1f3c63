// The file that `generate --prompts` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast::cli {

struct FilePrompt {
  uint64_t line = 0;  // in the file, from 1 on
  std::string text;
  std::vector<TokenId> tokens;  // in place of the text, where there are any
  std::string id;               // JSON, a string or a number; empty: none
  std::optional<uint64_t> max_tokens, seed;
};

// One prompt per line, or one JSON object per line: {"prompt" or "tokens", "id", "max_tokens", "seed"}. The first line
// decides: an object that names a prompt or tokens. "-" is standard input. kInvalidArgument names the line; a file
// without prompts is one too.
Result<std::vector<FilePrompt>> read_prompt_file(const std::string& path);
// The same of its contents; `name` is what errors call it.
Result<std::vector<FilePrompt>> parse_prompts(std::string_view contents, const std::string& name);

}  // namespace ballast::cli
