#include "ballast/base/version.h"

#include <fmt/format.h>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/cpu_features.h"

namespace ballast::cli {

namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string_view architecture() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "arm64";
#else
  return "unknown";
#endif
}

}  // namespace

std::string version_text() {
  const std::vector<std::string_view> features = cpu_features();
  return fmt::format("ballast {}\nbuild:        {} ({}, {}, {})\nCPU features: {}\n", version(),
                     build_id().empty() ? "outside a clone" : build_id(), BALLAST_BUILD_TYPE, compiler(),
                     architecture(), features.empty() ? "none known" : fmt::format("{}", fmt::join(features, " ")));
}

}  // namespace ballast::cli
