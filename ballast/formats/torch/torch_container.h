// The two containers of PyTorch's files; torch.cc chooses.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

inline constexpr std::string_view kTorchPickleName = "data.pkl";

// A zip file with a pickle and one member per storage (PyTorch 1.6 and later).
Result<Archive> open_torch_zip(const OpenRequest& request, Findings& findings);

// Five pickles behind each other, then the storages (PyTorch 0.1.10 to 1.5).
Result<Archive> open_torch_legacy(const OpenRequest& request, Findings& findings);
// How it begins, in any protocol: the magic number as a LONG1.
inline constexpr std::string_view kTorchLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

}  // namespace ballast
