#include "ballast/edit/adapt.h"

#include <algorithm>
#include <array>

#include "ballast/edit/framework_layout.h"

namespace ballast {

namespace {

// One row per adapter.
constexpr std::array kAdapters = {
    Adapter{"pytorch-to-burn", "Linear weights become [in, out], norms have gamma and beta", adapt_pytorch_to_burn},
    Adapter{"burn-to-pytorch", "Linear weights become [out, in], norms have weight and bias", adapt_burn_to_pytorch},
    Adapter{"netcl-to-pytorch", "as burn-to-pytorch, and \"0:weight\" becomes \"0.weight\"", adapt_netcl_to_pytorch},
    Adapter{"pytorch-to-netcl", "as pytorch-to-burn, and \"0.weight\" becomes \"0:weight\"", adapt_pytorch_to_netcl},
};

}  // namespace

std::span<const Adapter> all_adapters() { return kAdapters; }

const Adapter* find_adapter(std::string_view name) {
  const auto found = std::ranges::find(kAdapters, name, &Adapter::name);
  return found == kAdapters.end() ? nullptr : &*found;
}

PlanEdit adapt_with(const Adapter& adapter, AdaptOptions options) {
  return [apply = adapter.apply, options = std::move(options)](WritePlan& plan, std::vector<std::string>& notes) {
    return apply(plan, options, notes);
  };
}

}  // namespace ballast
