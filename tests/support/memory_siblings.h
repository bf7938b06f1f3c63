// Files in memory that stand beside each other.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ballast/formats/format.h"

namespace ballast::testing {

class MemorySiblings final : public SiblingOpener {
 public:
  std::map<std::string, ByteVector, std::less<>> files;

  Result<std::shared_ptr<const ByteSource>> open_sibling(std::string_view name) override {
    const auto found = files.find(name);
    if (found == files.end()) return make_error(ErrorCode::kNotFound, std::string(name) + ": no such file");
    return std::shared_ptr<const ByteSource>(MemorySource::owning(found->second, found->first));
  }
  // As open_sibling, of a file that is there.
  std::shared_ptr<const ByteSource> source(std::string_view name) { return open_sibling(name).value(); }
};

}  // namespace ballast::testing
