// What makes of the module the small one, which only reads: the formats' readers alone, in the order of
// formats/format.cc, which the other module has in this file's place.
#include <array>

#include "ballast/formats/drivers.h"
#include "bindings/wasm/session.h"

namespace ballast {

namespace {

constexpr std::array kReadersAlone = {
    &kGptrsCheckpointReader,
    &kGptrsTensorsReader,
    &kBurnpackReader,
    &kSafetensorsReader,
    &kGgufReader,
    &kNetclReader,
    &kNetclLegacyReader,
    &kNetclCheckpointReader,
    &kTorchReader,
    &kNpzReader,
    &kNpyReader,
};

}  // namespace

std::span<const FormatReader* const> all_readers() { return kReadersAlone; }

namespace wasm {

const std::span<const CallRow> kMoreCalls;
const std::span<const StartRow> kMoreStarts;

}  // namespace wasm

}  // namespace ballast
