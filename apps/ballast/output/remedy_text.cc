#include "apps/ballast/output/remedy_text.h"

#include <array>
#include <string_view>

namespace ballast::cli {

namespace {

struct RemedyRow {
  Remedy remedy;
  std::string_view text;
};

// In the order in which they are told.
constexpr std::array kRemedyRows = {
    RemedyRow{Remedy::kAllowOverwrite, "; --overwrite replaces it"},
    RemedyRow{Remedy::kGiveConfig, " (--config FILE)"},
    RemedyRow{Remedy::kDescribeModel, "; give one with --config, or make a checkpoint with `ballast import`"},
    RemedyRow{Remedy::kChooseConfig, " (--config-from)"},
    RemedyRow{Remedy::kPreferOne, " (--prefer first, --prefer last or --prefix)"},
    RemedyRow{Remedy::kSelectTensors, "; --only and --exclude select tensors"},
    RemedyRow{Remedy::kRenameTensors, "; --rename changes names"},
    RemedyRow{
        Remedy::kClassifyModules,
        "\nUse --linear REGEX for matrices that are Linear weights, --not-linear REGEX for those that are not, and"
        "\n--norm REGEX for vectors that belong to norms; for all of them, --ambiguous keep or --ambiguous linear."},
    RemedyRow{Remedy::kCastTensors, "; --dtype f32 casts tensors first"},
    RemedyRow{Remedy::kDequantize, "; `ballast convert --dequantize TYPE` chooses f32, f16 or bf16"},
    RemedyRow{Remedy::kAllowHalf, "; --allow-half writes f16 and bf16 as they are"},
    RemedyRow{Remedy::kChooseShardSize, " (--shard-size)"},
    RemedyRow{Remedy::kForgetBeginning, " (--context-shift)"},
    RemedyRow{Remedy::kCheckWeights, "; `ballast verify --level content` finds them"},
    RemedyRow{Remedy::kRescueTensors, " (--rescue OUT)"},
};
static_assert(kRemedyRows.size() == static_cast<size_t>(kLastRemedy) + 1, "every remedy has its flag");

}  // namespace

std::string remedy_text(Remedies remedies) {
  std::string text;
  for (const RemedyRow& row : kRemedyRows) {
    if (remedies.has(row.remedy)) text += row.text;
  }
  return text;
}

std::string error_text(const Error& error) {
  std::string text = error.message + remedy_text(error.remedies);
  if (error.code == ErrorCode::kUnknownFormat && text.find("doctor") == std::string::npos)
    text += " (`ballast doctor` examines such files)";
  return text;
}

}  // namespace ballast::cli
