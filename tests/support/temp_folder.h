// A folder of a test's own, removed with everything in it when the test ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::testing {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Creates or replaces a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  // Names of everything in it, hidden files included, sorted.
  std::vector<std::string> names() const;

 private:
  std::string path_;
};

// The content of a file; fails the test when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace ballast::testing
