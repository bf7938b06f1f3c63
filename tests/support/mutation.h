// Ways to damage a file, and the one thing every reader must hold: an error or a sound archive.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "ballast/formats/format.h"

namespace ballast::testing {

// Opens `bytes` with `driver`, once stopping at the first error and once collecting findings, and reads every payload
// of what opens. Fails the test when a payload of a soundly opened archive cannot be read (container checksums may
// still object), or when opening takes longer than a second.
void expect_survives(const FormatDriver& driver, ByteSpan bytes, const std::string& what);

// The same for any way of opening, for formats of several files.
using Opener = std::function<Result<Archive>(Findings&)>;
void expect_survives(const Opener& open, const std::string& what);

// Cuts `bytes` at every length, and flips every single bit of its first `header_bytes`.
void expect_survives_truncation(const FormatDriver& driver, ByteSpan bytes);
void expect_survives_bit_flips(const FormatDriver& driver, ByteSpan bytes, size_t header_bytes);
// `rounds` random changes (bytes, runs, cuts, insertions); the seed is printed when one fails.
void expect_survives_random_damage(const FormatDriver& driver, ByteSpan bytes, unsigned rounds, uint64_t seed);

}  // namespace ballast::testing
