// Whether the tests run under an emulator (BALLAST_TEST_EMULATED=1), where limits of processor time mean nothing.
#pragma once

namespace ballast::testing {

bool is_emulated();

}  // namespace ballast::testing
