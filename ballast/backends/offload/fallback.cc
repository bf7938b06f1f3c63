#include "ballast/backends/offload/fallback.h"

#include <algorithm>
#include <vector>

#include "ballast/backends/backends.h"
#include "ballast/device/device_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/activation.h"
#include "ballast/ops/attention.h"
#include "ballast/ops/conv.h"
#include "ballast/ops/embedding.h"
#include "ballast/ops/experts.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/linalg.h"
#include "ballast/ops/loss.h"
#include "ballast/ops/metric.h"
#include "ballast/ops/normalization.h"
#include "ballast/ops/pooling.h"
#include "ballast/ops/reduction.h"
#include "ballast/ops/rotary.h"
#include "ballast/ops/rotary_order.h"
#include "ballast/ops/sampling.h"
#include "ballast/ops/shape.h"
#include "ballast/ops/stochastic.h"
#include "ballast/ops/tensor_ops.h"
#include "ballast/ops/update_routines.h"

namespace ballast::offload {

namespace {

using namespace ops;  // NOLINT: a list of its functionals

// Copies of what a functional reads and writes, which the host finds at the tensors' host addresses while this lives.
class HostCopies {
 public:
  explicit HostCopies(OffloadQueue& queue) : queue_(queue) {}
  ~HostCopies() {
    for (const Copy& copy : copies_) copy.memory->show(nullptr);
  }
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // Tensors, or pointers to tensors; what is not constant is copied back.
  template <typename... Members>
  void add(Members&... members) {
    (add_one(members), ...);
  }
  void add_page(DeviceMemory& page) { add_memory(page, page.bytes(), true); }

  Status bring() {
    Workspace& workspace = queue_.host_workspace();
    for (Copy& copy : copies_) {
      BALLAST_TRY(copy.host, workspace.make({copy.bytes}, DType::kU8));
      queue_.copy_out({copy.memory}, {host_data<std::byte>(copy.host), static_cast<size_t>(copy.bytes)});
    }
    BALLAST_CHECK(queue_.finish());
    for (Copy& copy : copies_) copy.memory->show(host_data<std::byte>(copy.host));
    return {};
  }

  void give_back() {
    for (const Copy& copy : copies_) {
      if (copy.is_written) queue_.copy_in({copy.memory}, host_bytes(copy.host));
    }
  }

 private:
  struct Copy {
    OffloadMemory* memory = nullptr;
    uint64_t bytes = 0;
    bool is_written = false;
    Tensor host;
  };

  void add_one(const Tensor& tensor) {
    if (!tensor.empty()) add_memory(DeviceAccess::memory(tensor), tensor.byte_size(), false);
  }
  void add_one(Tensor& tensor) {
    if (!tensor.empty()) add_memory(DeviceAccess::memory(tensor), tensor.byte_size(), true);
  }
  void add_one(const Tensor* tensor) {
    if (tensor != nullptr) add_one(*tensor);
  }
  void add_one(Tensor* tensor) {
    if (tensor != nullptr) add_one(*tensor);
  }
  void add_one(const Operand& operand) { add_one(operand.tensor()); }

  void add_memory(DeviceMemory& memory, uint64_t bytes, bool is_written) {
    if (memory.host_address() != nullptr) return;  // the host's own
    auto* const own = static_cast<OffloadMemory*>(&memory);
    for (Copy& copy : copies_) {
      if (copy.memory != own) continue;
      copy.is_written |= is_written;
      return;
    }
    copies_.push_back({own, bytes, is_written, {}});
  }

  OffloadQueue& queue_;
  std::vector<Copy> copies_;
};

// ---------------------------------------------------------------- the tensors of each
using Copies = HostCopies;

void list(Copies& c, const ActivationArgs& a) { c.add(a.x); }
void list(Copies& c, const GeluArgs& a) { c.add(a.x); }
void list(Copies& c, const SwigluArgs& a) { c.add(a.gate, a.up); }
void list(Copies& c, const PreluArgs& a) { c.add(a.x); }
void list(Copies& c, const AttentionArgs& a) { c.add(a.qkv); }
void list(Copies& c, const AttentionDecodeCacheArgs& a) {
  c.add(a.qkv);
  for (const KvRows& part : a.parts) {
    for (const KvPage& page : a.pages(part)) {
      if (page != nullptr) c.add_page(*page);
    }
  }
}
void list(Copies& c, const AttentionDecodeTurnedArgs& a) {
  list(c, a.attention);
  if (a.turn.rope != nullptr) c.add(a.turn.rope->cosines, a.turn.rope->sines);
}
void list(Copies& c, const ApplyRopeArgs& a) { c.add(a.x, a.tables.cosines, a.tables.sines); }
void list(Copies& c, const ApplyRopeQkvPackedArgs& a) { c.add(a.qkv, a.tables.cosines, a.tables.sines); }
void list(Copies& c, const PairsToHalvesArgs& a) { c.add(a.qkv); }
void list(Copies& c, const MatmulArgs& a) { c.add(a.a, a.b); }
void list(Copies& c, const LinearArgs& a) { c.add(a.x, a.options.residual); }
void list(Copies& c, const LinearPartsArgs& a) { c.add(a.x); }
void list(Copies& c, const AddBiasArgs& a) { c.add(a.x, a.bias); }
void list(Copies& c, const BinaryArgs& a) { c.add(a.a, a.b); }
void list(Copies& c, const UnaryArgs& a) { c.add(a.x); }
void list(Copies& c, const ClampArgs& a) { c.add(a.x); }
void list(Copies& c, const DropoutArgs& a) { c.add(a.x); }
void list(Copies& c, const ReshapeArgs& a) { c.add(a.x); }
void list(Copies& c, const TransposeArgs& a) { c.add(a.x); }
void list(Copies& c, const SliceAlongAxisArgs& a) { c.add(a.x); }
void list(Copies& c, const ConcatAlongAxisArgs& a) {
  for (const Tensor& part : a.parts) c.add(part);
}
void list(Copies& c, const SumLastDimArgs& a) { c.add(a.x); }
void list(Copies& c, const ScaleRowsArgs& a) { c.add(a.x, a.factors); }
void list(Copies& c, const LayerNormArgs& a) { c.add(a.x); }
void list(Copies& c, const RmsNormArgs& a) { c.add(a.x); }
void list(Copies& c, const BatchStatisticsArgs& a) { c.add(a.x); }
void list(Copies& c, const BatchNormTrainingArgs& a) { c.add(a.x, a.statistics); }
void list(Copies& c, const BatchNormArgs& a) { c.add(a.x); }
void list(Copies& c, const GroupNormArgs& a) { c.add(a.x); }
void list(Copies&, const EmbeddingLookupArgs&) {}
void list(Copies& c, const ExpertGatesArgs& a) { c.add(a.scores); }
void list(Copies& c, const ExpertMlpArgs& a) { c.add(a.x, a.gates); }
void list(Copies& c, const Conv2dArgs& a) { c.add(a.x, a.params.residual); }
void list(Copies& c, const ConvTranspose2dArgs& a) { c.add(a.x); }
void list(Copies& c, const MaxPool2dNhwcArgs& a) { c.add(a.x); }
void list(Copies& c, const MaxPool2dArgs& a) { c.add(a.x); }
void list(Copies& c, const AvgPool2dNhwcArgs& a) { c.add(a.x); }
void list(Copies& c, const GlobalMeanPoolNhwcArgs& a) { c.add(a.x); }
void list(Copies& c, const Upsample2dArgs& a) { c.add(a.x); }
void list(Copies& c, const CrossEntropyArgs& a) { c.add(a.logits, a.targets); }
void list(Copies& c, const ElementLossArgs& a) { c.add(a.predictions, a.targets); }
void list(Copies& c, const HingeLossArgs& a) { c.add(a.logits); }
void list(Copies& c, const SquareDistancesArgs& a) { c.add(a.a, a.b); }
void list(Copies& c, const MarginLogitsArgs& a) { c.add(a.cosines); }

void list(Copies& c, const UnaryGradientArgs& a) { c.add(a.x, a.dy, a.dx); }
void list(Copies& c, const ChoiceGradientArgs& a) { c.add(a.a, a.b, a.dy, a.dx); }
void list(Copies& c, const ClampGradientArgs& a) { c.add(a.x, a.dy, a.dx); }
void list(Copies& c, const PreluGradientArgs& a) { c.add(a.x, a.dy, a.dx, a.terms); }
void list(Copies& c, const SoftmaxGradientArgs& a) { c.add(a.y, a.dy, a.dx); }
void list(Copies& c, const ColumnSumsArgs& a) { c.add(a.x, a.sums); }
void list(Copies& c, const SpreadAllArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const SpreadRowsArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const AddSliceArgs& a) { c.add(a.x, a.y); }
void list(Copies& c, const ScatterRowsArgs& a) { c.add(a.rows, a.table); }
void list(Copies& c, const TransposedProductArgs& a) { c.add(a.a, a.b, a.c); }
void list(Copies& c, const AttentionGradientArgs& a) { c.add(a.qkv, a.y, a.dy, a.dqkv); }
void list(Copies& c, const HalvesToPairsArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const Conv2dGradientArgs& a) { c.add(a.dy, a.x, a.dx, a.dw, a.params.residual); }
void list(Copies& c, const NormGradientArgs& a) { c.add(a.x, a.dy, a.dx, a.dgamma, a.dbeta); }
void list(Copies& c, const BatchNormGradientArgs& a) { c.add(a.x, a.statistics, a.dy, a.dx, a.dgamma, a.dbeta); }
void list(Copies& c, const GroupNormGradientArgs& a) { c.add(a.x, a.dy, a.dx, a.terms); }
void list(Copies& c, const MaxPool2dGradientArgs& a) { c.add(a.x, a.dy, a.dx); }
void list(Copies& c, const AvgPool2dGradientArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const GlobalMeanPoolGradientArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const Upsample2dGradientArgs& a) { c.add(a.dy, a.dx); }
void list(Copies& c, const CrossEntropyGradientArgs& a) { c.add(a.logits, a.targets, a.dy, a.dlogits); }
void list(Copies& c, const HingeLossGradientArgs& a) { c.add(a.logits, a.dy, a.dlogits); }
void list(Copies& c, const ElementLossGradientArgs& a) { c.add(a.predictions, a.targets, a.dy, a.dx); }
void list(Copies& c, const SquareDistancesGradientArgs& a) { c.add(a.x, a.others, a.dy, a.dx); }
void list(Copies& c, const MarginLogitsGradientArgs& a) { c.add(a.cosines, a.dy, a.dx); }
void list(Copies& c, const FillArgs& a) { c.add(a.y); }
void list(Copies& c, const AccumulateArgs& a) { c.add(a.x, a.sum); }
void list(Copies& c, const ScaleArgs& a) { c.add(a.x); }
void list(Copies& c, const SquareSumArgs& a) { c.add(a.x); }
void list(Copies& c, const RopeTablesArgs& a) { c.add(a.tables.cosines, a.tables.sines); }
void list(Copies& c, const SgdArgs& a) { c.add(a.gradient); }
void list(Copies& c, const AdamArgs& a) { c.add(a.gradient); }
void list(Copies& c, const RmsPropArgs& a) { c.add(a.gradient); }

OffloadQueue& offload_queue(const Context& context) { return static_cast<OffloadQueue&>(context.workspace().queue()); }

const Backend& standing_in() {
  static const Backend& backend = *find_backend("cpu");
  return backend;
}

const Registry& standing_in_registry() {
  static const Registry registry = [] {
    Registry made;
    standing_in().add_implementations(made);
    return made;
  }();
  return registry;
}

Context host_context(const Context& outside) {
  Context context(standing_in(), standing_in_registry(), offload_queue(outside).host_workspace(), outside.threads());
  context.random = outside.random;
  context.product_dtype = outside.product_dtype;
  context.numerics = outside.numerics;
  return context;
}

}  // namespace

void FallbackList::note(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
}

std::vector<std::string_view> FallbackList::names() const {
  const std::lock_guard lock(mutex_);
  return names_;
}

template <typename Args>
Result<Tensor> run_on_host(Context& context, const Args& args) {
  OffloadQueue& queue = offload_queue(context);
  queue.fallback_list().note(Args::kFunctional);
  HostCopies copies(queue);
  list(copies, args);
  BALLAST_CHECK(copies.bring());
  Context inside = host_context(context);
  BALLAST_TRY(Tensor y, standing_in_registry().call(inside, args));
  copies.give_back();
  if (y.device() == &queue.device()) return y;  // one of the inputs, in another shape
  return context.workspace().from_bytes(host_bytes(y), y.dims(), y.dtype());
}

template <typename Args>
Status run_routine_on_host(Context& context, const Args& args) {
  OffloadQueue& queue = offload_queue(context);
  queue.fallback_list().note(Args::kRoutine);
  HostCopies copies(queue);
  list(copies, args);
  BALLAST_CHECK(copies.bring());
  Context inside = host_context(context);
  BALLAST_CHECK(standing_in_registry().run(inside, args));
  copies.give_back();
  return {};
}

// clang-format off
#define FOR_EACH_FUNCTIONAL(X) \
  X(ReluArgs) X(Relu6Args) X(SiluArgs) X(SoftmaxLastDimArgs) X(GeluArgs) X(SwigluArgs) X(PreluArgs) X(AttentionArgs) \
  X(AttentionDecodeCacheArgs) X(AttentionDecodeTurnedArgs) X(ApplyRopeArgs) X(ApplyRopeQkvPackedArgs) \
  X(PairsToHalvesArgs) X(MatmulArgs) X(LinearArgs) X(LinearPartsArgs) X(AddBiasArgs) X(BinaryArgs) X(UnaryArgs) \
  X(ClampArgs) X(DropoutArgs) X(ReshapeArgs) X(TransposeArgs) X(SliceAlongAxisArgs) X(ConcatAlongAxisArgs) X(SumAllArgs) X(MeanAllArgs) X(SumLastDimArgs) \
  X(ScaleRowsArgs) X(LayerNormArgs) X(RmsNormArgs) X(BatchStatisticsArgs) X(BatchNormTrainingArgs) X(BatchNormArgs) \
  X(GroupNormArgs) X(EmbeddingLookupArgs) X(ExpertGatesArgs) X(ExpertMlpArgs) X(Conv2dArgs) X(ConvTranspose2dArgs) \
  X(MaxPool2dNhwcArgs) X(MaxPool2dArgs) X(AvgPool2dNhwcArgs) X(GlobalMeanPoolNhwcArgs) X(Upsample2dArgs) \
  X(CrossEntropyArgs) X(ElementLossArgs) X(HingeLossArgs) X(SquareDistancesArgs) X(MarginLogitsArgs)

#define FOR_EACH_ROUTINE(X) \
  X(UnaryGradientArgs) X(ChoiceGradientArgs) X(ClampGradientArgs) X(PreluGradientArgs) X(SoftmaxGradientArgs) \
  X(ColumnSumsArgs) X(SpreadAllArgs) X(SpreadRowsArgs) X(AddSliceArgs) X(ScatterRowsArgs) X(TransposedProductArgs) \
  X(AttentionGradientArgs) X(HalvesToPairsArgs) X(Conv2dGradientArgs) X(NormGradientArgs) X(BatchNormGradientArgs) \
  X(GroupNormGradientArgs) X(MaxPool2dGradientArgs) X(AvgPool2dGradientArgs) X(GlobalMeanPoolGradientArgs) \
  X(Upsample2dGradientArgs) X(CrossEntropyGradientArgs) X(HingeLossGradientArgs) X(ElementLossGradientArgs) \
  X(SquareDistancesGradientArgs) X(MarginLogitsGradientArgs) X(FillArgs) X(AccumulateArgs) X(ScaleArgs) \
  X(SquareSumArgs) X(RopeTablesArgs) X(SgdArgs) X(AdamArgs) X(RmsPropArgs)
// clang-format on

// For the families, whose functionals fall back on some arguments.
#define INSTANTIATE(Args) template Result<Tensor> run_on_host(Context&, const Args&);
FOR_EACH_FUNCTIONAL(INSTANTIATE)
#undef INSTANTIATE
#define INSTANTIATE(Args) template Status run_routine_on_host(Context&, const Args&);
FOR_EACH_ROUTINE(INSTANTIATE)
#undef INSTANTIATE

void add_fallbacks(Registry& registry) {
#define ADD(Args) registry.add_builtin<Args>(nullptr, run_on_host<Args>);
  FOR_EACH_FUNCTIONAL(ADD)
#undef ADD
#define ADD(Args) registry.add_routine<Args>(run_routine_on_host<Args>);
  FOR_EACH_ROUTINE(ADD)
#undef ADD
}

}  // namespace ballast::offload
