// Whether products may use the tiles of AMX: what tells the level "amx" from "avx512".
#pragma once

namespace ballast::cpu {

// The processor has them, for bytes and for bf16 numbers, and the system lends them to this process.
bool machine_has_tiles();
// That, and the level in use is the one with tiles.
bool level_has_tiles();
// Part of choosing a level: no kernel may be running.
void use_tiles(bool allowed);

}  // namespace ballast::cpu
