// Where the build put things. Only places.cc knows the paths, so that every other object is the same in every checkout
// and a compiler cache serves them all.
#pragma once

#include <string>

namespace ballast::testing {

// tests/data
const std::string& test_data_folder();
// The built command, for tests that run it.
const std::string& program_path();
// The library of tests/cuda/fake_driver.cc.
const std::string& fake_driver_path();

}  // namespace ballast::testing
