#include "tests/support/places.h"

namespace ballast::testing {

const std::string& test_data_folder() {
  static const std::string folder = BALLAST_TEST_DATA;
  return folder;
}

const std::string& program_path() {
  static const std::string path = BALLAST_PROGRAM;
  return path;
}

}  // namespace ballast::testing
