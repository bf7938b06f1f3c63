#include "examples/emulated_backend.h"

#include <ballast/backends/backends.h>
#include <ballast/ops/activation.h>
#include <ballast/ops/attention.h>
#include <ballast/ops/conv.h>
#include <ballast/ops/embedding.h>
#include <ballast/ops/experts.h>
#include <ballast/ops/gradient_routines.h>
#include <ballast/ops/linalg.h>
#include <ballast/ops/loss.h>
#include <ballast/ops/metric.h>
#include <ballast/ops/normalization.h>
#include <ballast/ops/pooling.h>
#include <ballast/ops/reduction.h>
#include <ballast/ops/registry.h>
#include <ballast/ops/rotary.h>
#include <ballast/ops/rotary_order.h>
#include <ballast/ops/sampling.h>
#include <ballast/ops/shape.h>
#include <ballast/ops/stochastic.h>
#include <ballast/ops/tensor_ops.h>
#include <ballast/ops/update_routines.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace emulated {

using namespace ballast;

namespace {

std::atomic<uint64_t> calls_made = 0, failing_call = 0, bytes_held = 0, overlaps_seen = 0;

Status next_call(const char* what) {
  if (++calls_made != failing_call) return {};
  return make_error(ErrorCode::kIo, std::string("the emulated device failed at ") + what);
}

// ---------------------------------------------------------------- the device

class EmulatedMemory;

class EmulatedDevice final : public Device, public std::enable_shared_from_this<EmulatedDevice> {
 public:
  std::string_view name() const override { return "emulated"; }
  const DeviceLimits& limits() const override { return limits_; }
  Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override;
  Result<std::shared_ptr<Queue>> open_queue() override;

  // While this lives, its thread uses a queue of the device.
  class Turn {
   public:
    explicit Turn(EmulatedDevice& device) : device_(device) { device_.enter(); }
    ~Turn() { device_.leave(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    EmulatedDevice& device_;
  };

  // While this lives, device code runs and sees the memory.
  class Running {
   public:
    explicit Running(EmulatedDevice& device) : turn_(device), device_(device) { device_.change_running(1); }
    ~Running() { device_.change_running(-1); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Turn turn_;
    EmulatedDevice& device_;
  };

 private:
  friend class EmulatedMemory;
  void enter();
  void leave();
  void change_running(int by);
  void add(EmulatedMemory& memory);
  void remove(EmulatedMemory& memory);

  const DeviceLimits limits_{.memory = 0, .largest_piece = uint64_t{1} << 40, .alignment = 16, .is_host_memory = false};
  std::mutex mutex_;
  std::set<EmulatedMemory*> memories_;
  int running_ = 0;
  std::thread::id user_;  // one of those that use it now
  int users_ = 0;
};

class EmulatedMemory final : public DeviceMemory {
 public:
  EmulatedMemory(EmulatedDevice& device, uint64_t bytes)
      : DeviceMemory(bytes, nullptr), hidden_(new std::byte[bytes]), device_(device) {
    bytes_held += bytes;
    device_.add(*this);
  }
  ~EmulatedMemory() override {
    device_.remove(*this);
    bytes_held -= bytes();
  }
  std::byte* hidden() const { return hidden_.get(); }
  void show(bool is_running) { set_host_address(is_running ? hidden_.get() : nullptr); }

 private:
  std::unique_ptr<std::byte[]> hidden_;
  EmulatedDevice& device_;
};

void EmulatedDevice::enter() {
  const std::lock_guard lock(mutex_);
  if (users_++ != 0 && user_ != std::this_thread::get_id()) ++overlaps_seen;
  user_ = std::this_thread::get_id();
}

void EmulatedDevice::leave() {
  const std::lock_guard lock(mutex_);
  --users_;
}

void EmulatedDevice::change_running(int by) {
  const std::lock_guard lock(mutex_);
  running_ += by;
  for (EmulatedMemory* memory : memories_) memory->show(running_ > 0);
}

void EmulatedDevice::add(EmulatedMemory& memory) {
  const std::lock_guard lock(mutex_);
  memories_.insert(&memory);
  memory.show(running_ > 0);
}

void EmulatedDevice::remove(EmulatedMemory& memory) {
  const std::lock_guard lock(mutex_);
  memories_.erase(&memory);
}

Result<std::unique_ptr<DeviceMemory>> EmulatedDevice::allocate(uint64_t bytes) {
  BALLAST_CHECK(next_call("an allocation"));
  return std::unique_ptr<DeviceMemory>(std::make_unique<EmulatedMemory>(*this, bytes));
}

// Copies to the host arrive when one waits for them, as they do from a real device.
class EmulatedQueue final : public Queue {
 public:
  explicit EmulatedQueue(std::shared_ptr<EmulatedDevice> device) : device_(std::move(device)) {}
  Device& device() const override { return *device_; }

  void fill(DevicePlace to, uint64_t bytes, std::byte value) override {
    const EmulatedDevice::Turn turn(*device_);
    if (starts("a fill") && bytes != 0) std::memset(at(to), static_cast<int>(value), bytes);
  }
  void copy_in(DevicePlace to, ByteSpan from) override {
    const EmulatedDevice::Turn turn(*device_);
    if (starts("a copy from the host") && !from.empty()) std::memcpy(at(to), from.data(), from.size());
  }
  void copy_out(ConstDevicePlace from, MutableByteSpan to) override {
    const EmulatedDevice::Turn turn(*device_);
    if (!starts("a copy to the host") || to.empty()) return;
    const std::byte* begin = static_cast<const EmulatedMemory*>(from.memory)->hidden() + from.offset;
    on_their_way_.push_back({std::vector<std::byte>(begin, begin + to.size()), to});
  }
  void copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) override {
    const EmulatedDevice::Turn turn(*device_);
    const std::byte* begin = static_cast<const EmulatedMemory*>(from.memory)->hidden() + from.offset;
    if (starts("a copy") && bytes != 0) std::memcpy(at(to), begin, bytes);
  }
  Status finish() override {
    const EmulatedDevice::Turn turn(*device_);
    for (const Arrival& arrival : on_their_way_) {
      std::memcpy(arrival.to.data(), arrival.bytes.data(), arrival.bytes.size());
    }
    on_their_way_.clear();
    return std::exchange(state_, Status());
  }

 private:
  struct Arrival {
    std::vector<std::byte> bytes;
    MutableByteSpan to;
  };

  static std::byte* at(DevicePlace place) {
    return static_cast<EmulatedMemory*>(place.memory)->hidden() + place.offset;
  }
  // Keeps the first error until finish().
  bool starts(const char* what) {
    Status started = next_call(what);
    const bool is_started = static_cast<bool>(started);
    if (!is_started && state_) state_ = std::move(started);
    return is_started;
  }

  std::shared_ptr<EmulatedDevice> device_;
  std::vector<Arrival> on_their_way_;
  Status state_;
};

Result<std::shared_ptr<Queue>> EmulatedDevice::open_queue() {
  return std::shared_ptr<Queue>(std::make_shared<EmulatedQueue>(shared_from_this()));
}

Result<std::shared_ptr<Device>> open_emulated_device() {
  return std::shared_ptr<Device>(std::make_shared<EmulatedDevice>());
}

// ---------------------------------------------------------------- what it computes

const Registry& reference_registry() {
  static const Registry registry = [] {
    Registry made;
    find_backend("reference")->add_implementations(made);
    return made;
  }();
  return registry;
}

// Device code: the reference's, on the memory of the context's device. All that it makes lies there too.
class DeviceCode {
 public:
  explicit DeviceCode(const Context& outside)
      : context(*find_backend("reference"), reference_registry(), outside.workspace(), outside.threads()),
        running_(static_cast<EmulatedDevice&>(outside.workspace().queue().device())) {
    context.product_dtype = outside.product_dtype;
    context.numerics = outside.numerics;
  }

  Context context;

 private:
  EmulatedDevice::Running running_;
};

template <typename Args>
Result<Tensor> compute(Context& context, const Args& args) {
  BALLAST_CHECK(next_call("a functional"));
  DeviceCode code(context);
  return reference_registry().call(code.context, args);
}

template <typename Args>
Status compute_routine(Context& context, const Args& args) {
  BALLAST_CHECK(next_call("a routine"));
  DeviceCode code(context);
  return reference_registry().run(code.context, args);
}

template <typename... Args>
void add_functionals(Registry& registry) {
  (registry.add_builtin<Args>(nullptr, compute<Args>), ...);
}

// Fused forms, of which the device has no code: their parts are functionals of their own.
template <typename... Args>
void add_fused_functionals(Registry& registry) {
  (registry.add_builtin<Args>(nullptr, run_by_parts<Args>), ...);
}

template <typename... Args>
void add_routines(Registry& registry) {
  (registry.add_routine<Args>(compute_routine<Args>), ...);
}

void add_emulated_implementations(Registry& registry) {
  using namespace ops;
  add_functionals<ReluArgs, Relu6Args, SiluArgs, SoftmaxLastDimArgs, GeluArgs, SwigluArgs, PreluArgs>(registry);
  add_functionals<AttentionArgs, AttentionDecodeCacheArgs, ApplyRopeArgs, ApplyRopeQkvPackedArgs, PairsToHalvesArgs>(
      registry);
  add_functionals<MatmulArgs, LinearArgs, AddBiasArgs, BinaryArgs, UnaryArgs, ClampArgs, DropoutArgs>(registry);
  add_functionals<ReshapeArgs, TransposeArgs, SliceAlongAxisArgs, ConcatAlongAxisArgs>(registry);
  add_functionals<SumAllArgs, MeanAllArgs, SumLastDimArgs, ScaleRowsArgs>(registry);
  add_functionals<LayerNormArgs, RmsNormArgs, BatchStatisticsArgs, BatchNormTrainingArgs, BatchNormArgs, GroupNormArgs>(
      registry);
  add_functionals<EmbeddingLookupArgs, ExpertGatesArgs, ExpertMlpArgs>(registry);
  add_functionals<Conv2dArgs, ConvTranspose2dArgs, MaxPool2dNhwcArgs, MaxPool2dArgs, AvgPool2dNhwcArgs,
                  GlobalMeanPoolNhwcArgs, Upsample2dArgs>(registry);
  add_functionals<CrossEntropyArgs, ElementLossArgs, HingeLossArgs, SquareDistancesArgs, MarginLogitsArgs>(registry);
  add_fused_functionals<LinearPartsArgs, AttentionDecodeTurnedArgs>(registry);

  add_routines<UnaryGradientArgs, ChoiceGradientArgs, ClampGradientArgs, PreluGradientArgs, SoftmaxGradientArgs>(
      registry);
  add_routines<ColumnSumsArgs, SpreadAllArgs, SpreadRowsArgs, AddSliceArgs, ScatterRowsArgs>(registry);
  add_routines<TransposedProductArgs, AttentionGradientArgs, HalvesToPairsArgs, Conv2dGradientArgs>(registry);
  add_routines<NormGradientArgs, BatchNormGradientArgs, GroupNormGradientArgs>(registry);
  add_routines<MaxPool2dGradientArgs, AvgPool2dGradientArgs, GlobalMeanPoolGradientArgs, Upsample2dGradientArgs>(
      registry);
  add_routines<CrossEntropyGradientArgs, HingeLossGradientArgs, ElementLossGradientArgs, SquareDistancesGradientArgs,
               MarginLogitsGradientArgs>(registry);
  add_routines<FillArgs, AccumulateArgs, ScaleArgs, SquareSumArgs, RopeTablesArgs>(registry);
  add_routines<SgdArgs, AdamArgs, RmsPropArgs>(registry);
}

}  // namespace

const Backend& backend() {
  static constexpr Backend kBackend = {
      .name = "emulated",
      .summary = "the reference in memory that the host cannot reach",
      .open_device = open_emulated_device,
      .level = [] { return std::string_view("scalar"); },
      .block_arithmetic = [](DType, Numerics) { return std::string_view("f32"); },
      .add_implementations = add_emulated_implementations,
  };
  return kBackend;
}

void fail_call(uint64_t n) {
  calls_made = 0;
  failing_call = n;
}
uint64_t calls() { return calls_made; }
uint64_t bytes_out() { return bytes_held; }
uint64_t overlaps() { return overlaps_seen; }

}  // namespace emulated
