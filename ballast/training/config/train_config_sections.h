// The sections of a training configuration, one reader each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/training/config/config_section.h"
#include "ballast/training/train_config.h"

namespace ballast::train_config {

inline constexpr uint64_t kMostSide = uint64_t{1} << 24;
inline constexpr RealRange kNotNegative{};
inline constexpr RealRange kPositive{.above = true};
inline constexpr RealRange kPart{.most = 1, .below = true};  // [0, 1)

// What all sections of one file share.
struct Sections {
  const std::string& file;
  const std::string& folder;
  const ConfigValue& root;

  Result<ConfigSection> open(std::string_view name) const;
  Result<ConfigSection> open_in(const ConfigValue& table, std::string_view name, std::string title) const;
};

// Keys that go with some types of a section only.
struct TypedKey {
  std::string_view key;
  std::vector<std::string_view> types;
};

bool goes_with(const TypedKey& row, std::string_view type);
// Keys of other types than this are an error that says with which they go.
void declare_foreign(ConfigSection& section, std::string_view choice_key, std::string_view type,
                     const std::vector<TypedKey>& rows);

// train_config_model.cc
Status read_model(const Sections& sections, ModelSpec& model);
// train_config_data.cc. That of an evaluation may not hold a part back.
Status read_data(ConfigSection& section, DataSpec& data, bool for_training);
// train_config_optimizer.cc
Status read_optimizer(const Sections& sections, OptimizerSpec& optimizer);
Status read_schedule(const Sections& sections, ScheduleSpec& schedule);
Status read_loss(const Sections& sections, LossSpec& loss);

}  // namespace ballast::train_config
