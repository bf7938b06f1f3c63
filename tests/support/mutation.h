// Damaged copies of a file, and what every reader must do with them: a clear error or a sound archive, quickly and in
// little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ballast/formats/format.h"

namespace ballast::testing {

// `what` says how the bytes were damaged. The span is only valid during the call. Under an emulator these give a part
// of what they say (tests/support/emulation.h).
using MutantVisitor = std::function<void(ByteSpan mutant, const std::string& what)>;

// Every proper prefix of `bytes`, the empty one included.
void truncations(ByteSpan bytes, const MutantVisitor& visit);
// Every single-bit flip of the first `header` bytes.
void bit_flips(ByteSpan bytes, size_t header, const MutantVisitor& visit);
// `rounds` copies with a few bytes overwritten, removed, inserted or repeated. `what` holds the seed.
void random_mutations(ByteSpan bytes, uint64_t seed, int rounds, const MutantVisitor& visit);
// A seed that differs from run to run.
uint64_t fresh_seed();

// Opens `bytes` as an archive and as `verify` does, and fails the test unless both agree, each within 1 s of processor
// time and within 4 times the size plus 16 MiB of memory, and what opens is sound to the last payload. True when it
// opened.
bool check_survives(const FormatDriver& driver, ByteSpan bytes, const std::string& what);

// Fails the test unless names are unique and found, sizes fit types, and every payload can be read.
void expect_sound(const Archive& archive);

}  // namespace ballast::testing
