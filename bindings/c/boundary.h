// What crosses between C and C++: errors, options, texts, progress. No exception does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/progress.h"
#include "bindings/c/handles.h"

namespace ballast::c {

// ---------------------------------------------------------------- errors

struct ErrorObject {
  ballast_kind kind = BALLAST_INTERNAL;
  std::string message;
  std::vector<Remedy> remedies;
};
template <>
struct HandleTraits<ballast_error> {
  using Object = ErrorObject;
  static constexpr HandleKind kKind = HandleKind::kError;
  static constexpr const char* kName = "error";
};

// These cannot fail: where there is no memory for an error, there is one that needs none.
ballast_error* to_c(const Error& error) noexcept;
ballast_error* out_of_memory_error() noexcept;
ballast_error* exception_error(const char* what) noexcept;

// Runs the body of a function that returns a ballast_error*.
template <typename Body>
ballast_error* call(Body&& body) noexcept {
  try {
    const Status status = body();
    return status ? nullptr : to_c(status.error());
  } catch (const std::bad_alloc&) {
    return out_of_memory_error();
  } catch (const std::length_error&) {  // a container beyond its largest size
    return out_of_memory_error();
  } catch (const std::exception& exception) {
    return exception_error(exception.what());
  } catch (...) {
    return exception_error("an exception of unknown type");
  }
}

// The same for one that tells something of a handle and cannot fail: `otherwise` where the handle is not open.
template <typename Handle, typename Value, typename Body>
Value ask(const Handle* handle, Value otherwise, Body&& body) noexcept {
  try {
    const auto object = use(handle);
    return object ? body(**object) : otherwise;
  } catch (...) {
    return otherwise;
  }
}

Error missing_argument(const char* what);
// kInvalidArgument where a pointer that a function needs is NULL.
inline Status need(const void* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return missing_argument(what);
}
// Also makes sure that whoever overlooks the error finds NULL.
template <typename Handle>
Status need_out(Handle** out) {
  if (out == nullptr) return missing_argument("the pointer to the result");
  *out = nullptr;
  return {};
}

// ---------------------------------------------------------------- texts and bytes

inline ballast_text to_text(const std::string& text) { return {text.c_str(), text.size()}; }
inline std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }
// BALLAST_NUL: up to the NUL.
Result<std::string_view> given_text(const char* text, size_t size, const char* what);
Result<std::vector<std::string>> given_texts(const char* const* texts, size_t count, const char* what);

struct BufferObject {
  std::string bytes;  // ends with a NUL, as ballast_buffer_data promises
};
template <>
struct HandleTraits<ballast_buffer> {
  using Object = BufferObject;
  static constexpr HandleKind kKind = HandleKind::kBuffer;
  static constexpr const char* kName = "buffer";
};
inline ballast_buffer* hand_out_text(std::string text) {
  return hand_out<ballast_buffer>(std::make_shared<BufferObject>(BufferObject{std::move(text)}));
}

// ---------------------------------------------------------------- structs of other versions

Status check_struct_size(size_t size, size_t known);
Status check_newer_members(const void* given, size_t size, size_t known);

// What the caller set; `defaults` for what is NULL, or newer than the caller.
template <typename Options>
Result<Options> given_options(const Options* given, Options defaults = {}) {
  static_assert(std::is_trivially_copyable_v<Options> && std::is_standard_layout_v<Options>);
  if (given == nullptr) return defaults;
  BALLAST_CHECK(check_struct_size(given->struct_size, sizeof(Options)));
  BALLAST_CHECK(check_newer_members(given, given->struct_size, sizeof(Options)));
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Options)));
  return defaults;
}

// As much of `value` as the caller has room for; what it has more is 0.
template <typename Struct>
Status give(Struct value, Struct* out) {
  static_assert(std::is_trivially_copyable_v<Struct> && std::is_standard_layout_v<Struct>);
  if (out == nullptr) return missing_argument("the pointer to the result");
  const size_t size = out->struct_size;
  BALLAST_CHECK(check_struct_size(size, sizeof(Struct)));
  value.struct_size = size;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(Struct)));
  return {};
}

// ---------------------------------------------------------------- one call at a time

// Calls of several threads wait for each other; one that a callback makes inside another would wait for ever, and is
// kInvalidArgument instead.
class OneCall {
 public:
  class Held {
   public:
    explicit Held(OneCall& call) : call_(&call) {}
    Held(Held&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (call_ != nullptr) call_->leave();
    }

   private:
    OneCall* call_;
  };

  Result<Held> enter();

 private:
  void leave() noexcept;

  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

// ---------------------------------------------------------------- progress, cancelling, logging

struct CancelObject {
  std::atomic<bool> requested = false;
};
template <>
struct HandleTraits<ballast_cancel> {
  using Object = CancelObject;
  static constexpr HandleKind kKind = HandleKind::kCancel;
  static constexpr const char* kName = "cancel switch";
};

// Null where none was given.
Result<std::shared_ptr<CancelObject>> given_cancel(const ballast_cancel* cancel);
Result<Progress> make_progress(ballast_progress_callback callback, void* user, const ballast_cancel* cancel);
template <typename Options>
Result<Progress> given_progress(const Options& options) {
  return make_progress(options.progress, options.progress_user, options.cancel);
}

void log(ballast_log_level level, const std::string& message);

}  // namespace ballast::c
