// What a test writes with a format alone: a description, and payloads that the test keeps alive.
#pragma once

#include <utility>
#include <vector>

#include "ballast/formats/payload_order.h"
#include "tests/support/format_testing.h"

namespace ballast::testing {

class MemoryPlan final : public TensorFeed {
 public:
  Description description;

  void add_tensor(TensorInfo info, ByteSpan payload) {
    description.tensors.push_back(std::move(info));
    payloads_.push_back(payload);
  }

  Status emit(size_t tensor_index, PayloadForm form, ByteSink& sink) override {
    ByteVector bytes(payloads_[tensor_index].begin(), payloads_[tensor_index].end());
    if (form.big_endian) swap_byte_order(description.tensors[tensor_index].dtype, bytes);
    return sink.write(bytes);
  }

  // kLossy where the format cannot hold this.
  Result<ByteVector> write(const FormatDriver& driver) {
    const std::vector<Loss> losses = driver.find_losses(description, {});
    if (!losses.empty()) return make_error(ErrorCode::kLossy, losses.front().what);
    return encode(driver, description, *this, {});
  }

 private:
  std::vector<ByteSpan> payloads_;
};

}  // namespace ballast::testing
