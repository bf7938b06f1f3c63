// The opcodes of Python's pickles, protocols 0 to 5.
#pragma once

#include <cstdint>
#include <string_view>

namespace ballast::pickle {

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kEmptyTuple = ')',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTuple = 't',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kBinPersId = 'Q',
  kProto = 0x80,
  kFrame = 0x95,
};

// What stands in Python's manual and is not read here, with the reason.
struct RefusedOpcode {
  uint8_t code;
  std::string_view name;
  std::string_view why;
};

inline constexpr std::string_view kMakesObjects = "it makes an object of a class, which would run code";
inline constexpr std::string_view kOutdated = "no program writes it in files of tensors";

inline constexpr RefusedOpcode kRefusedOpcodes[] = {
    {'i', "INST", kMakesObjects},
    {'o', "OBJ", kMakesObjects},
    {0x81, "NEWOBJ", kMakesObjects},
    {0x92, "NEWOBJ_EX", kMakesObjects},
    {0x82, "EXT1", "it refers to a registry outside of the file"},
    {0x83, "EXT2", "it refers to a registry outside of the file"},
    {0x84, "EXT4", "it refers to a registry outside of the file"},
    {0x97, "NEXT_BUFFER", "it refers to a buffer outside of the file"},
    {0x98, "READONLY_BUFFER", "it refers to a buffer outside of the file"},
    {'P', "PERSID", kOutdated},
    {'0', "POP", kOutdated},
    {'1', "POP_MARK", kOutdated},
    {'2', "DUP", kOutdated},
    {'F', "FLOAT", kOutdated},
    {'I', "INT", kOutdated},
    {'L', "LONG", kOutdated},
    {0x8b, "LONG4", kOutdated},
    {'S', "STRING", kOutdated},
    {'V', "UNICODE", kOutdated},
    {'d', "DICT", kOutdated},
    {'l', "LIST", kOutdated},
    {'g', "GET", kOutdated},
    {'p', "PUT", kOutdated},
};

}  // namespace ballast::pickle
