#include "ballast/edit/adapt.h"

#include <algorithm>
#include <array>

#include "ballast/edit/framework_layout.h"
#include "ballast/edit/huggingface.h"

namespace ballast {

namespace {

Status keep_report(Result<HuggingFaceReport> report, const AdaptOptions& options) {
  if (!report) return std::move(report).error();
  if (options.huggingface_report) *options.huggingface_report = *std::move(report);
  return {};
}

Status adapt_gptrs_to_huggingface(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return keep_report(gptrs_to_huggingface(plan, options.huggingface, notes), options);
}

Status adapt_huggingface_to_gptrs(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return keep_report(huggingface_to_gptrs(plan, options.huggingface, notes), options);
}

// One row per adapter.
constexpr std::array kAdapters = {
    Adapter{"pytorch-to-burn", "Linear weights become [in, out], norms have gamma and beta", adapt_pytorch_to_burn},
    Adapter{"burn-to-pytorch", "Linear weights become [out, in], norms have weight and bias", adapt_burn_to_pytorch},
    Adapter{"netcl-to-pytorch", "like burn-to-pytorch, and \"0:weight\" becomes \"0.weight\"", adapt_netcl_to_pytorch},
    Adapter{"pytorch-to-netcl", "like pytorch-to-burn, and \"0.weight\" becomes \"0:weight\"", adapt_pytorch_to_netcl},
    Adapter{"gptrs-to-huggingface", "from gpt.rs to transformers or torchvision", adapt_gptrs_to_huggingface},
    Adapter{"huggingface-to-gptrs", "from transformers or torchvision to gpt.rs", adapt_huggingface_to_gptrs},
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
