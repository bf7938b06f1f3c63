#include "ballast/base/remedy.h"

namespace ballast {

namespace {

struct WordsOfRemedy {
  std::string_view name;
  std::string_view text;
};

constexpr WordsOfRemedy words_of(Remedy remedy) {
  switch (remedy) {
    case Remedy::kAllowOverwrite: return {"allow_overwrite", "ask for overwriting"};
    case Remedy::kGiveConfig: return {"give_config", "supply a model config to be written"};
    case Remedy::kDescribeModel:
      return {"describe_model", "supply a model config to run the weights with, or weights that have one"};
    case Remedy::kChooseConfig: return {"choose_config", "say whose model config counts"};
    case Remedy::kPreferOne:
      return {"prefer_one", "say which of several contradicting files wins, or keep them apart by prefixes"};
    case Remedy::kSelectTensors: return {"select_tensors", "take fewer or other tensors"};
    case Remedy::kRenameTensors: return {"rename_tensors", "give tensors other names"};
    case Remedy::kClassifyModules: return {"classify_modules", "say which kinds of modules the tensors belong to"};
    case Remedy::kCastTensors: return {"cast_tensors", "cast tensors to f32 first"};
    case Remedy::kDequantize: return {"dequantize", "dequantise tensors"};
    case Remedy::kAllowHalf: return {"allow_half", "allow f16 and bf16, which the format's own reader refuses"};
    case Remedy::kChooseShardSize: return {"choose_shard_size", "write files of another size"};
    case Remedy::kForgetBeginning: return {"forget_beginning", "let the text continue without its beginning"};
    case Remedy::kCheckWeights: return {"check_weights", "look for values that are not finite"};
    case Remedy::kRescueTensors: return {"rescue_tensors", "write what can be read to another file"};
  }
  return {"", ""};
}

}  // namespace

std::string_view remedy_name(Remedy remedy) { return words_of(remedy).name; }
std::string_view remedy_text(Remedy remedy) { return words_of(remedy).text; }

}  // namespace ballast
