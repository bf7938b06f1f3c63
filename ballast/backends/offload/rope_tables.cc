#include <cmath>
#include <vector>

#include "ballast/backends/offload/fallback.h"
#include "ballast/ops/rotary.h"
#include "ballast/ops/update_routines.h"

namespace ballast::offload {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

bool has_f32_tables(const Context&, const RopeTablesArgs& args) { return args.tables.cosines.dtype() == DType::kF32; }

Status run_rope_tables(Context&, const RopeTablesArgs& args) {
  const uint64_t half = args.tables.cosines.dims()[1];
  if (args.tables.cosines.count() == 0) return {};
  const double magnitude = rope_magnitude(args.config.scaling, DType::kF32);
  std::vector<float> cosines, sines;
  cosines.reserve(args.tables.cosines.count());
  sines.reserve(args.tables.cosines.count());
  for (const RopeStretch& stretch : args.stretches) {
    std::vector<double> frequencies;
    for (uint64_t i = 0; i < half; ++i) {
      frequencies.push_back(rope_frequency(args.config, i, whole_length(stretch), DType::kF32));
    }
    for (uint64_t p = 0; p < stretch.positions; ++p) {
      for (const double frequency : frequencies) {
        const double angle = static_cast<double>(stretch.first_position + p) * frequency;
        cosines.push_back(static_cast<float>(std::cos(angle) * magnitude));
        sines.push_back(static_cast<float>(std::sin(angle) * magnitude));
      }
    }
  }
  args.tables.cosines.write(std::as_bytes(std::span(cosines)));
  args.tables.sines.write(std::as_bytes(std::span(sines)));
  return {};
}

}  // namespace

void add_rope_tables(Registry& registry) { add_routine<RopeTablesArgs, run_rope_tables, has_f32_tables>(registry); }

}  // namespace ballast::offload
