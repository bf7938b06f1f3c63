// What differs between the layouts of PyTorch, Burn and netcl, and the adapters between them.
#pragma once

#include "ballast/edit/adapt.h"

namespace ballast {

// Linear weights are [out, in] in PyTorch and [in, out] in Burn and netcl; a norm has weight and bias in PyTorch, gamma
// and beta in the others; a Sequential's tensors are "0.weight" in PyTorch and "0:weight" in a netcl file. Nothing else
// changes, no tensor is added or left out, and the way back gives the same bytes. Quantised weights are left alone, as
// Burn does.
Status adapt_pytorch_to_burn(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes);
Status adapt_burn_to_pytorch(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes);
Status adapt_netcl_to_pytorch(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes);
Status adapt_pytorch_to_netcl(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes);

}  // namespace ballast
