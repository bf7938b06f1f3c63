// Models of a Hugging Face hub: fetched, and found again where they were fetched to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/models/hub_api.h"
#include "apps/ballast/models/hub_cache.h"

namespace ballast::cli {

// Where commands find a model that was fetched before, by this program or by huggingface_hub; nullopt where it was not.
// kInvalidArgument where several models of that name were, and the name does not say which.
Result<std::optional<std::string>> find_downloaded(const HubCache& cache, const HubName& name);

// What fetching a model comes to.
struct HubPlan {
  struct Item {
    HubFile file;
    bool is_here = false;
  };
  std::string commit;
  std::vector<Item> items;
  std::string path;  // what commands open afterwards
  bool again = false;

  uint64_t bytes() const;
  uint64_t missing_bytes() const;
};

// Asks the hub for what the listing left out. `again`: nothing counts as here.
Result<HubPlan> plan_download(Hub& hub, const HubCache& cache, const HubName& name, const HubListing& listing,
                              HubChoice choice, bool again);

// Fetches what is missing and links everything. The revision names the commit only when all of it is there.
Status run_download(Hub& hub, const HubCache& cache, const HubName& name, const HubPlan& plan,
                    const Progress& progress);

}  // namespace ballast::cli
