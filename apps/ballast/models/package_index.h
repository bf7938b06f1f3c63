// Wheels of the Python Package Index, or of the index that this machine's pip is set up for. No Python takes part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/ballast/models/file_digest.h"
#include "apps/ballast/models/http_session.h"

namespace ballast::cli {

// PIP_INDEX_URL, else `index-url` of pip's configuration files, else the public index.
Result<Url> package_index_url();
// The value of `index-url` in a configuration file of pip; empty where it has none.
std::string index_url_in(std::string_view pip_config);

struct PackageFile {
  std::string name;
  Url url;
  FileDigest digest;  // kNone where the index does not say it
};

// The files that a page of the index lists, in either of its forms (JSON, HTML). `page` is where it came from.
Result<std::vector<PackageFile>> parse_package_page(std::string_view text, const Url& page);

class PackageIndex {
 public:
  explicit PackageIndex(Url index);

  // The wheel of this version. kNotFound where the index has none.
  Result<PackageFile> find_wheel(std::string_view package, std::string_view version);
  HttpSession& session() { return session_; }

 private:
  Url index_;
  HttpSession session_;
};

}  // namespace ballast::cli
