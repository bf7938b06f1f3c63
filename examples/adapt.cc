#include <ballast/archive/open.h>
#include <ballast/edit/adapt.h>
#include <ballast/edit/cast.h>
#include <ballast/edit/rename.h>

#include <cstdio>

// adapt FROM TO: weights of PyTorch as a Burn model in half precision, with an edit of our own between the others.
int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: adapt FROM TO.bpk\n"), 2;
  const auto archive = ballast::open_archive(arguments[1]);
  if (!archive) return std::fprintf(stderr, "%s\n", archive.error().message.c_str()), 1;
  const auto frozen = [](ballast::WritePlan& plan, std::vector<std::string>& notes) -> ballast::Status {
    for (ballast::TensorInfo& tensor : plan.description.tensors) tensor.requires_grad = false;
    notes.push_back("nothing requires a gradient");
    return {};
  };
  ballast::AdaptOptions adapt;
  adapt.ambiguous = ballast::Ambiguous::kLinear;
  const auto casts = std::make_shared<ballast::CastLog>();
  ballast::ConvertOptions options;
  options.write.commit.overwrite = true;
  options.edits = {ballast::rename_tensors({{"^model\\.", ""}}), frozen,
                   ballast::adapt_with(*ballast::find_adapter("pytorch-to-burn"), adapt),
                   ballast::cast_floats({ballast::DType::kF16, {"norm"}}, casts)};
  const auto report = ballast::convert_archive(*archive, arguments[2], *ballast::find_format("burnpack"), options);
  if (!report) return std::fprintf(stderr, "%s\n", report.error().message.c_str()), 1;
  for (const std::string& note : report->notes) std::printf("%s\n", note.c_str());
  std::printf("maximum error %g\n", casts->total().max_abs_error);
}
