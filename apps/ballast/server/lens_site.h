// What `ballast lens` serves: the page Ballast Lens and the files it was given, below a path that nobody can guess.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/ballast/server/lens_files.h"
#include "apps/ballast/server/page_files.h"

namespace ballast::cli {

struct LensSiteOptions {
  PageFiles page;
  std::string secret;    // the first part of every path
  std::string ticket{};  // a path that leads to the page, once; empty: there is none
  std::vector<LensFile> files{};
  Complain complain = [](std::string_view) {};  // of files that cannot be read
};

// Below /SECRET/ there are the page's own files, index.html with a <meta name="ballast-files">, and files.json, which
// lists the files as {"files":[{"name","size","url"}]}. Each `url` has a number and the state of the file, so that no
// path of a request becomes one of the disk, and bytes of two states are never mixed. Everything else is nullopt,
// without a difference that would tell how much of it was right.
std::unique_ptr<Site> make_lens_site(LensSiteOptions options);

}  // namespace ballast::cli
