#include "tests/support/places.h"

#include <cstdlib>

namespace ballast::testing {

namespace {

// A folder with the built tests may be somewhere else than where they were built (scripts/cuda_bundle).
std::string place(const char* variable, const char* built) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? given : built;
}

}  // namespace

const std::string& test_data_folder() {
  static const std::string folder = place("BALLAST_TEST_DATA", BALLAST_TEST_DATA);
  return folder;
}

const std::string& program_path() {
  static const std::string path = place("BALLAST_TEST_PROGRAM", BALLAST_PROGRAM);
  return path;
}

const std::string& fake_driver_path() {
  static const std::string path = place("BALLAST_TEST_FAKE_DRIVER", BALLAST_FAKE_DRIVER);
  return path;
}

}  // namespace ballast::testing
