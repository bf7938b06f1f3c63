#include "ballast/backends/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ballast/backends/cpu/cpu.h"
#include "ballast/backends/reference/reference.h"

namespace ballast {

namespace {

constexpr std::array<const Backend*, 2> kBackends = {&kCpuBackend, &kReferenceBackend};

}  // namespace

std::span<const Backend* const> all_backends() { return kBackends; }

const Backend* find_backend(std::string_view name) {
  const auto at = std::ranges::find(kBackends, name, [](const Backend* backend) { return backend->name; });
  return at == kBackends.end() ? nullptr : *at;
}

Result<const Backend*> choose_backend(std::string_view name) {
  if (name.empty()) return kBackends.front();
  if (const Backend* backend = find_backend(name)) return backend;
  std::vector<std::string_view> names;
  for (const Backend* backend : kBackends) names.push_back(backend->name);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("there is no backend \"{}\"; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace ballast
