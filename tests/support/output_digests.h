// Digests of what all recorded models compute: logits, states, greedy texts, weights after a few steps of training.
// tests/data/output_digests.json holds them as they were recorded; scripts/record_digests writes them anew.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ballast::testing {

// From a name ("hf/llama_plain logits") to 16 hexadecimal digits.
using OutputDigests = std::map<std::string, std::string>;

// With this backend as it is set up now. "math" is there too: what the C library's functions give.
OutputDigests compute_output_digests(const std::string& backend);

// What two machines can share of a recording. Bits of results follow from those of the C library's exp, tanh, erf and
// so on, which differ between its versions; where "math" is not that of the recording, only entries are comparable that
// rounding does not reach: greedy texts and rounded losses.
bool is_comparable(const std::string& name, const OutputDigests& recorded, const OutputDigests& computed);

// By section: "reference", "cpu avx2", ...
using DigestSections = std::map<std::string, OutputDigests>;
DigestSections read_recorded_digests();
void write_recorded_digests(const DigestSections& sections);

}  // namespace ballast::testing
