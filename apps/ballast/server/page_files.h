// The chat page, which is part of the program: files of apps/ballast/server/page/, put into a table when it is built.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/serve/exchange.h"

namespace ballast::cli {

struct PageFile {
  std::string_view path;  // "/", "/assets/index.js"
  std::string_view content_type;
  std::string_view etag;
  std::span<const unsigned char> bytes;
};

// In the order of their paths; empty where the program was built without a page. Generated.
std::span<const PageFile> page_files();

const PageFile* find_page_file(std::string_view path);
std::vector<std::string> page_paths();

// 304 where the client has this very file (`if_none_match`), and the file otherwise.
serve::HttpAnswer page_answer(const PageFile& file, std::string_view if_none_match);

}  // namespace ballast::cli
