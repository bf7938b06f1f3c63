// Compiled programs in files, so that a process that runs a model again need not compile: drivers take seconds for what
// a file gives at once. The folder's own; a driver is only given what was written here whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/bytes.h"

namespace ballast::opencl {

class ProgramCache {
 public:
  static constexpr uint64_t kMostFileBytes = 64 << 20;
  static constexpr uint64_t kMostBytes = 256 << 20;  // of all files; then all but the newest go

  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}
  // Of the folder that was named last (set_opencl_cache).
  static ProgramCache current();
  static void set_current(std::string folder);

  bool is_on() const { return !folder_.empty(); }
  // Empty where there is none, or where it is damaged.
  std::vector<std::byte> read(const std::string& key) const;
  // In one step. That it cannot be written is no failure: the program is compiled again next time.
  void write(const std::string& key, ByteSpan binary) const;

 private:
  std::string path_of(const std::string& key) const;

  std::string folder_;
};

// Of the device, its driver, the source and the options: any other of these makes another program.
std::string program_key(std::initializer_list<std::string_view> device, std::string_view source,
                        std::string_view options);

}  // namespace ballast::opencl
