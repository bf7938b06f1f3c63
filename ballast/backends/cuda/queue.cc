#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ballast/backends/cuda/device.h"
#include "ballast/io/thread_pool.h"

namespace ballast::cuda {

namespace {

constexpr uint64_t kStagingAlignment = 16;
constexpr unsigned kEventWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
constexpr uint64_t kThreadGrain = 256 << 10;

DriverAddress address_of(const auto& place) {
  return static_cast<const CudaMemory*>(place.memory)->address() + place.offset;
}

void copy_bytes(std::byte* to, ByteSpan from, ThreadPool* threads) {
  if (threads == nullptr || from.size() < 2 * kThreadGrain) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const size_t pieces = (from.size() + kThreadGrain - 1) / kThreadGrain;
  threads->for_ranges(pieces, 1, [&](size_t begin, size_t end) {
    const size_t first = begin * kThreadGrain, last = std::min<size_t>(end * kThreadGrain, from.size());
    std::memcpy(to + first, from.data() + first, last - first);
  });
}

}  // namespace

Result<PinnedMemory> PinnedMemory::make(const CudaDevice& device) {
  device.make_current();
  void* address = nullptr;
  BALLAST_CHECK(device.driver().check(device.driver().host_allocate(&address, kBytes, 0),
                                      fmt::format("allocating {} bytes of pinned host memory", kBytes)));
  PinnedMemory memory;
  memory.device_ = &device;
  memory.data_ = static_cast<std::byte*>(address);
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  device_->make_current();
  device_->driver().host_free(data_);
}

CudaQueue::~CudaQueue() {
  device_->make_current();
  const Driver& driver = device_->driver();
  driver.stream_finish(stream_);
  for (Piece& piece : pieces_) {
    if (piece.event != nullptr) driver.event_destroy(piece.event);
    device_->give_back(std::move(piece.memory));
  }
  device_->give_back(std::move(out_));
  driver.stream_destroy(stream_);
}

void CudaQueue::keep(Status status) {
  if (!status && status_) status_ = std::move(status);
}

void CudaQueue::fill(DevicePlace to, uint64_t bytes, std::byte value) {
  if (bytes == 0 || !is_going()) return;
  device_->make_current();
  check(device_->driver().fill(address_of(to), std::to_integer<unsigned char>(value), bytes, stream_),
        "filling memory");
}

void CudaQueue::copy(ConstDevicePlace from, DevicePlace to, uint64_t bytes) {
  if (bytes == 0 || !is_going()) return;
  device_->make_current();
  check(device_->driver().copy(address_of(to), address_of(from), bytes, stream_), "copying within the device");
}

// ---------------------------------------------------------------- to the device

Status CudaQueue::prepare(Piece& piece) {
  const Driver& driver = device_->driver();
  if (piece.event == nullptr) {
    BALLAST_CHECK(driver.check(driver.event_create(&piece.event, kEventWithoutTime), "making an event"));
  }
  if (piece.memory.data() == nullptr) {
    BALLAST_TRY(piece.memory, device_->take_pinned());
  }
  if (piece.is_on_its_way) BALLAST_CHECK(driver.check(driver.event_finish(piece.event), "waiting for a copy"));
  piece.is_on_its_way = false;
  piece.used = 0;
  return {};
}

// The piece is full: it can be used again when all that was copied from it has arrived.
void CudaQueue::turn_page() {
  Piece& full = pieces_[at_];
  check(device_->driver().event_record(full.event, stream_), "recording an event");
  full.is_on_its_way = true;
  at_ = (at_ + 1) % kPieces;
  keep(prepare(pieces_[at_]));
}

CudaQueue::Piece* CudaQueue::next_piece() {
  if (pieces_[at_].memory.data() == nullptr) keep(prepare(pieces_[at_]));
  if (is_going() && pieces_[at_].used >= kPieceBytes) turn_page();
  return is_going() ? &pieces_[at_] : nullptr;
}

void CudaQueue::copy_in(DevicePlace to, ByteSpan from) { copy_in(to, from, nullptr); }

void CudaQueue::copy_in(DevicePlace to, ByteSpan from, ThreadPool* threads) {
  if (from.empty() || !is_going()) return;
  device_->make_current();
  DriverAddress address = address_of(to);
  while (!from.empty()) {
    Piece* const piece = next_piece();
    if (piece == nullptr) return;
    const ByteSpan some = from.first(static_cast<size_t>(std::min<uint64_t>(from.size(), kPieceBytes - piece->used)));
    copy_bytes(piece->memory.data() + piece->used, some, threads);
    check(device_->driver().copy_in(address, piece->memory.data() + piece->used, some.size(), stream_),
          "copying to the device");
    piece->used += (some.size() + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
    address += some.size();
    from = from.subspan(some.size());
  }
}

// ---------------------------------------------------------------- to the host

void CudaQueue::copy_out(ConstDevicePlace from, MutableByteSpan to) {
  if (to.empty() || !is_going()) return;
  device_->make_current();
  if (out_.data() == nullptr) {
    auto made = device_->take_pinned();
    if (made) out_ = *std::move(made);
    else keep(std::move(made).error());
  }
  if (!is_going()) return;
  // What does not fit arrives at once: the driver waits for it.
  const bool fits = to.size() <= PinnedMemory::kBytes - out_used_;
  void* const target = fits ? out_.data() + out_used_ : to.data();
  check(device_->driver().copy_out(target, address_of(from), to.size(), stream_), "copying to the host");
  if (!fits) return;
  arrivals_.push_back({out_used_, to});
  out_used_ += std::min((to.size() + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment,
                        PinnedMemory::kBytes - out_used_);
}

Status CudaQueue::finish() {
  device_->make_current();
  // Also behind an error: what was put in before it may still read and write memory of the caller's.
  check(device_->driver().stream_finish(stream_), "computing");
  if (is_going()) {
    for (const Arrival& arrival : arrivals_) {
      std::memcpy(arrival.to.data(), out_.data() + arrival.offset, arrival.to.size());
    }
  }
  arrivals_.clear();
  out_used_ = 0;
  return std::exchange(status_, Status());
}

// ---------------------------------------------------------------- launches

Status CudaQueue::launch(Kernel kernel, const Grid& grid, std::span<const void* const> arguments,
                         std::span<const size_t> sizes) {
  const uint64_t blocks = uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  if (blocks == 0 || !is_going()) return {};
  BALLAST_TRY(CudaDevice::Function * function, device_->function(kernel));
  device_->make_current();
  const std::string_view name = kKernelRows[static_cast<size_t>(kernel)].function;
  if (!function->parameter_sizes.empty() && !std::ranges::equal(function->parameter_sizes, sizes)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("CUDA: the kernel {} has parameters of {} bytes, and is given {}", name,
                                  fmt::join(function->parameter_sizes, ", "), fmt::join(sizes, ", ")));
  }
  if (grid.shared_bytes > function->shared_bytes) {
    BALLAST_CHECK(device_->allow_shared_bytes(*function, grid.shared_bytes));
  }
  // The driver reads the arguments before it returns, and does not write them.
  auto** const values = const_cast<void**>(arguments.data());
  const DriverLaunchAttribute overlap{.kind = kDriverMayOverlap, .value = 1};
  const bool overlaps = std::exchange(next_may_overlap_, true) && function->waits_by_itself;
  const DriverLaunch how{.grid_x = grid.grid.x,
                         .grid_y = grid.grid.y,
                         .grid_z = grid.grid.z,
                         .block_x = grid.block.x,
                         .block_y = grid.block.y,
                         .block_z = grid.block.z,
                         .shared_bytes = grid.shared_bytes,
                         .stream = stream_,
                         .attributes = overlaps ? &overlap : nullptr,
                         .attribute_count = overlaps ? 1U : 0U};
  const DriverCode code = device_->driver().launch(&how, function->function, values, nullptr);
  if (code == kDriverSuccess) return {};
  return device_->driver().error(code, fmt::format("launching {}", name));
}

}  // namespace ballast::cuda
