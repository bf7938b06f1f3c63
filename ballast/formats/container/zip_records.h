// The fixed parts of a zip file's records, shared by its reader and its writer.
#pragma once

#include <cstdint>

namespace ballast::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;
inline constexpr uint32_t kDescriptorSignature = 0x08074b50;

inline constexpr uint64_t kLocalSize = 30;
inline constexpr uint64_t kCentralSize = 46;
inline constexpr uint64_t kEndSize = 22;
inline constexpr uint64_t kEnd64Size = 56;
inline constexpr uint64_t kLocator64Size = 20;

inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

inline constexpr uint16_t kFlagEncrypted = 1 << 0;
inline constexpr uint16_t kFlagDescriptor = 1 << 3;
inline constexpr uint16_t kFlagPatch = 1 << 5;
inline constexpr uint16_t kFlagStrongEncryption = 1 << 6;
inline constexpr uint16_t kFlagUtf8 = 1 << 11;
inline constexpr uint16_t kFlagMaskedHeaders = 1 << 13;

inline constexpr uint16_t kExtraZip64 = 0x0001;
inline constexpr uint16_t kExtraAlignment = 0xD935;  // as Android's tools write it: u16 alignment, then zeros

// In a 32-bit field: the value stands in the zip64 extra field.
inline constexpr uint32_t kIn64 = 0xFFFFFFFF;
inline constexpr uint16_t kIn64Count = 0xFFFF;

}  // namespace ballast::zip
