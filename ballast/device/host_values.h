// What the host reads of a tensor, wherever that lies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ballast/device/tensor.h"

namespace ballast {

// The elements of a tensor of type T. Free where they lie in the host's memory, which stays alive with this; a copy
// where they do not.
template <typename T>
class HostValues {
 public:
  HostValues() = default;
  // Waits for all work that was put into the tensor's queue. T has the size of an element, or is std::byte. Nothing of
  // an empty tensor.
  static Result<HostValues> of(const Tensor& tensor) {
    HostValues values;
    if (tensor.empty()) return values;
    values.count_ = static_cast<size_t>(tensor.byte_size() / sizeof(T));
    BALLAST_TRY(const std::byte* address, tensor.host_view());
    if (address != nullptr || values.count_ == 0) {
      values.tensor_ = tensor;
      values.view_ = reinterpret_cast<const T*>(address);
      return values;
    }
    values.copy_ = std::make_unique_for_overwrite<T[]>(values.count_);
    BALLAST_CHECK(tensor.read(std::as_writable_bytes(std::span(values.copy_.get(), values.count_))));
    return values;
  }

  const T* data() const { return view_ != nullptr ? view_ : copy_.get(); }
  size_t size() const { return count_; }
  const T& operator[](size_t i) const { return data()[i]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + count_; }
  std::span<const T> span() const { return {data(), count_}; }

 private:
  Tensor tensor_;
  const T* view_ = nullptr;
  std::unique_ptr<T[]> copy_;  // whose elements the device writes first
  size_t count_ = 0;
};

// Of f32 or f64, as f32.
Result<std::vector<float>> floats_of(const Tensor& tensor);
Result<std::vector<double>> doubles_of(const Tensor& tensor);
// The first element of f32 or f64, of a tensor that has one: a loss.
Result<double> number_of(const Tensor& tensor);

}  // namespace ballast
