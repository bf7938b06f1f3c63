#include "apps/ballast/server/page_files.h"

#include <algorithm>

namespace ballast::cli {

namespace {

// Nothing from elsewhere, no script in the text of the page, no frames: what a model writes can never become code.
constexpr std::string_view kChatPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

class ChatSite final : public Site {
 public:
  explicit ChatSite(PageFiles files) : files_(files) {}

  std::optional<SiteAnswer> answer(const SiteRequest& request) override {
    const PageFile* const file = find_page_file(files_, request.path);
    if (file == nullptr) return std::nullopt;
    return SiteAnswer{page_answer(*file, request.if_none_match, kChatPagePolicy)};
  }

 private:
  PageFiles files_;
};

}  // namespace

const PageFile* find_page_file(PageFiles files, std::string_view path) {
  const auto found = std::ranges::lower_bound(files, path, {}, &PageFile::path);
  return found != files.end() && found->path == path ? &*found : nullptr;
}

std::vector<std::string> page_paths(PageFiles files) {
  std::vector<std::string> paths;
  for (const PageFile& file : files) paths.emplace_back(file.path);
  return paths;
}

serve::HttpAnswer page_answer(const PageFile& file, std::string_view if_none_match, std::string_view policy) {
  serve::HttpAnswer answer{.status = 200, .content_type = std::string(file.content_type), .body = {}};
  answer.headers = {{"etag", std::string(file.etag)},
                    {"cache-control", "no-cache"},  // it is asked for again each time, and mostly not sent again
                    {"content-security-policy", std::string(policy)},
                    {"cross-origin-opener-policy", "same-origin"}};
  if (if_none_match.find(file.etag) != std::string_view::npos) {
    answer.status = 304;
    return answer;
  }
  answer.body.assign(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  return answer;
}

std::unique_ptr<Site> make_chat_site(PageFiles files) { return std::make_unique<ChatSite>(files); }

}  // namespace ballast::cli
