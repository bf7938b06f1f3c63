#include "ballast/formats/torch/pickle_opcodes.h"

#include <fmt/format.h>

#include <string_view>

namespace ballast::pickle {

namespace {

// What stands in Python's manual and is not read here, with the reason.
struct RefusedOpcode {
  uint8_t code;
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view kMakesObjects = "it makes an object of a class, which would run code";
constexpr std::string_view kOutdated = "no program writes it in files of tensors";

constexpr RefusedOpcode kRefusedOpcodes[] = {
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

}  // namespace

std::string why_not_read(uint8_t code) {
  for (const RefusedOpcode& row : kRefusedOpcodes) {
    if (row.code == code) return fmt::format("opcode {} is not read: {}", row.name, row.why);
  }
  return fmt::format("there is no opcode {:#04x}", code);
}

}  // namespace ballast::pickle
