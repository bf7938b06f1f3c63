// What the server answers itself, from what it has: pages and files. Its thread with the sockets asks, so an answer
// must not take longer than a look at the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ballast/base/result.h"
#include "ballast/serve/exchange.h"

namespace ballast::cli {

// A GET or a HEAD, whose answers differ in the body alone. Headers that are not there are empty.
struct SiteRequest {
  std::string path;
  std::string range{};
  std::string if_range{};
  std::string if_none_match{};
};

// A body that is read while it is sent, because it is too large for memory.
class BodySource {
 public:
  virtual ~BodySource() = default;
  virtual uint64_t size() const = 0;
  // The next bytes: at most `most`, and at least one while any are left. By the time of an error the client knows how
  // many bytes to expect, so the connection ends, and that is how it learns of it.
  virtual Result<std::string> next(size_t most) = 0;
};

struct SiteAnswer {
  serve::HttpAnswer answer;
  std::unique_ptr<BodySource> body{};  // in place of answer.body; null: that one
};

class Site {
 public:
  virtual ~Site() = default;
  // nullopt where there is nothing of this path.
  virtual std::optional<SiteAnswer> answer(const SiteRequest& request) = 0;
};

}  // namespace ballast::cli
