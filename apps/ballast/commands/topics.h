// Texts of `ballast help TOPIC`, which the manual page holds too.
#pragma once

#include <span>
#include <string_view>

namespace ballast::cli {

struct Topic {
  std::string_view name;
  std::string_view summary;  // one line, no full stop
  // Lines of at most 100 columns. Indented lines stand as they are; those that begin with "  $ " are examples, which a
  // test runs.
  std::string_view text;
};

// In the order in which help lists them.
std::span<const Topic> all_topics();
const Topic* find_topic(std::string_view name);

// The lines "  0    done ...", which --help shows too.
std::string_view exit_code_table();

}  // namespace ballast::cli
