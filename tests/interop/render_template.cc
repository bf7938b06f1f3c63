// Renders a chat template, for `make interop`: render_template TEMPLATE CONTEXT.json
//
// The clock stands at 2026-01-02 03:04:05, as it did for the recordings. The text goes to standard output; an error's
// text to standard error, and the exit status is 1 then.
#include <cstdio>

#include "ballast/text/chat_template.h"
#include "tests/support/temp_folder.h"

namespace {

ballast::Result<std::string> render(const char* template_path, const char* context_path) {
  using ballast::testing::read_text_file;
  BALLAST_TRY(const auto chat_template, ballast::ChatTemplate::parse(read_text_file(template_path)));
  const ballast::ClockTime now = {.year = 2026, .month = 1, .day = 2, .hour = 3, .minute = 4, .second = 5};
  return chat_template.render(read_text_file(context_path), {}, now);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto text = render(argv[1], argv[2]);
  std::fputs(text ? text->c_str() : text.error().message.c_str(), text ? stdout : stderr);
  return text ? 0 : 1;
}
