// Plans of small tensors, and what they hold once drawn.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "ballast/archive/convert.h"
#include "tests/support/test_files.h"

namespace ballast::testing {

// A plan that owns its values.
class PlanBuilder {
 public:
  template <typename T = float>
  PlanBuilder& add(const std::string& name, const Shape& shape, const std::vector<T>& values,
                   DType dtype = DType::kF32) {
    const auto bytes = std::as_bytes(std::span(values));
    plan_.add_tensor(make_info(name, dtype, shape),
                     [owned = ByteVector(bytes.begin(), bytes.end())](ByteSink& sink) { return sink.write(owned); });
    return *this;
  }
  // f32 values 1, 2, 3, ...
  PlanBuilder& add_counting(const std::string& name, const Shape& shape) {
    std::vector<float> values(*shape.element_count());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    return add(name, shape, values);
  }
  TensorInfo& last() { return plan_.description.tensors.back(); }
  WritePlan& plan() { return plan_; }

 private:
  WritePlan plan_;
};

inline std::vector<std::string> names_of(const WritePlan& plan) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : plan.description.tensors) names.push_back(tensor.name);
  return names;
}

inline size_t index_of(const WritePlan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
    if (plan.description.tensors[i].name == name) return i;
  }
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

inline const TensorInfo& info_of(const WritePlan& plan, const std::string& name) {
  return plan.description.tensors[index_of(plan, name)];
}

inline ByteVector bytes_of(const WritePlan& plan, const std::string& name) {
  MemorySink sink;
  const Status status = plan.providers[index_of(plan, name)](sink);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  ByteVector bytes = sink.take();
  EXPECT_EQ(bytes.size(), info_of(plan, name).byte_size) << name;
  return bytes;
}

template <typename T = float>
std::vector<T> values_of(const WritePlan& plan, const std::string& name) {
  const ByteVector bytes = bytes_of(plan, name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Runs an edit that must work and gives its notes.
inline std::vector<std::string> edit_or_fail(const PlanEdit& edit, WritePlan& plan) {
  std::vector<std::string> notes;
  const Status status = edit(plan, notes);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return notes;
}

// The text of the error of an edit that must not work.
inline Error edit_refusal(const PlanEdit& edit, WritePlan& plan) {
  std::vector<std::string> notes;
  const Status status = edit(plan, notes);
  EXPECT_FALSE(status);
  return status ? make_error(ErrorCode::kInvalidArgument, "") : status.error();
}
inline std::string edit_error(const PlanEdit& edit, WritePlan& plan) { return edit_refusal(edit, plan).message; }

}  // namespace ballast::testing
