#include "bindings/c/boundary.h"

#include <mutex>

#include "ballast/base/remedy.h"
#include "ballast/base/version.h"

namespace ballast::c {

namespace {

// No handle of the table: no slot has the number 0. What an error is where there is no memory for one.
constexpr uintptr_t kOutOfMemory = uintptr_t{0x0BA1} << 48;

// A size beyond this is memory that nobody set.
constexpr size_t kMostNewerMembers = 4096;

const ErrorObject& out_of_memory_object() {
  static const ErrorObject& object = *new ErrorObject{BALLAST_OUT_OF_MEMORY, "out of memory", {}};
  return object;
}
// Made when the library is loaded, while there is memory.
[[maybe_unused]] const ErrorObject& made_early = out_of_memory_object();

// The order of both is their own: the C numbers are fixed for ever.
ballast_kind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound: return BALLAST_NOT_FOUND;
    case ErrorCode::kUnknownFormat: return BALLAST_UNKNOWN_FORMAT;
    case ErrorCode::kCorrupt: return BALLAST_CORRUPT;
    case ErrorCode::kUnsupported: return BALLAST_UNSUPPORTED;
    case ErrorCode::kInvalidArgument: return BALLAST_INVALID_ARGUMENT;
    case ErrorCode::kLossy: return BALLAST_LOSSY;
    case ErrorCode::kExists: return BALLAST_EXISTS;
    case ErrorCode::kIo: return BALLAST_IO;
    case ErrorCode::kOutOfMemory: return BALLAST_OUT_OF_MEMORY;
    case ErrorCode::kCancelled: return BALLAST_CANCELLED;
  }
  return BALLAST_INTERNAL;
}

const char* kind_name(ballast_kind kind) {
  switch (kind) {
    case BALLAST_OK: return "ok";
    case BALLAST_NOT_FOUND: return "not_found";
    case BALLAST_UNKNOWN_FORMAT: return "unknown_format";
    case BALLAST_CORRUPT: return "corrupt";
    case BALLAST_UNSUPPORTED: return "unsupported";
    case BALLAST_INVALID_ARGUMENT: return "invalid_argument";
    case BALLAST_LOSSY: return "lossy";
    case BALLAST_EXISTS: return "exists";
    case BALLAST_IO: return "io";
    case BALLAST_OUT_OF_MEMORY: return "out_of_memory";
    case BALLAST_CANCELLED: return "cancelled";
    case BALLAST_INTERNAL: return "internal";
  }
  return "internal";
}

std::vector<Remedy> listed(Remedies remedies) {
  std::vector<Remedy> list;
  for (unsigned i = 0; i <= static_cast<unsigned>(kLastRemedy); ++i) {
    if (remedies.has(static_cast<Remedy>(i))) list.push_back(static_cast<Remedy>(i));
  }
  return list;
}

ballast_error* make_error_handle(ballast_kind kind, std::string_view message, Remedies remedies) noexcept {
  try {
    return hand_out<ballast_error>(
        std::make_shared<ErrorObject>(ErrorObject{kind, std::string(message), listed(remedies)}));
  } catch (...) {
    return out_of_memory_error();
  }
}

template <typename Value, typename Body>
Value ask_error(const ballast_error* error, Value otherwise, Body&& body) noexcept {
  if (reinterpret_cast<uintptr_t>(error) == kOutOfMemory) return body(out_of_memory_object());
  return ask(error, otherwise, body);
}

// The callback is called with the lock held, so that it is not running once it was replaced. A callback may log itself,
// and may replace itself: the lock is recursive.
struct Logger {
  std::recursive_mutex mutex;
  ballast_log_callback callback = nullptr;
  void* user = nullptr;
};
Logger& logger() {
  static Logger& logger = *new Logger;
  return logger;
}

}  // namespace

ballast_error* to_c(const Error& error) noexcept {
  return make_error_handle(kind_of(error.code), error.message, error.remedies);
}
ballast_error* out_of_memory_error() noexcept { return reinterpret_cast<ballast_error*>(kOutOfMemory); }
ballast_error* exception_error(const char* what) noexcept {
  return make_error_handle(BALLAST_INTERNAL, what != nullptr ? what : "an exception", {});
}

Error missing_argument(const char* what) {
  return make_error(ErrorCode::kInvalidArgument, std::string(what) + " must not be NULL");
}

Result<std::string_view> given_text(const char* text, size_t size, const char* what) {
  if (text == nullptr && size == 0) return std::string_view();
  BALLAST_CHECK(need(text, what));
  return size == BALLAST_NUL ? std::string_view(text) : std::string_view(text, size);
}

Result<std::vector<std::string>> given_texts(const char* const* texts, size_t count, const char* what) {
  if (count != 0) BALLAST_CHECK(need(texts, what));
  std::vector<std::string> list;
  for (size_t i = 0; i < count; ++i) {
    BALLAST_CHECK(need(texts[i], what));
    list.emplace_back(texts[i]);
  }
  return list;
}

Status check_struct_size(size_t size, size_t known) {
  if (size >= sizeof(size_t) && size <= known + kMostNewerMembers) return {};
  return make_error(ErrorCode::kInvalidArgument, "struct_size is " + std::to_string(size) +
                                                     ": set it to sizeof the struct, here " + std::to_string(known) +
                                                     ", and all other members to 0 or to what they should be");
}

Status check_newer_members(const void* given, size_t size, size_t known) {
  if (size <= known) return {};
  const std::span more(static_cast<const unsigned char*>(given) + known, size - known);
  if (std::ranges::all_of(more, [](unsigned char byte) { return byte == 0; })) return {};
  return make_error(ErrorCode::kUnsupported,
                    "an option is set that this version of the library does not have: the program was compiled for a "
                    "later one than " +
                        std::string(version()));
}

Result<OneCall::Held> OneCall::enter() {
  if (owner_.load() == std::this_thread::get_id()) {
    return make_error(ErrorCode::kInvalidArgument, "a callback called the function that it was called from");
  }
  mutex_.lock();
  owner_ = std::this_thread::get_id();
  return Held(*this);
}

void OneCall::leave() noexcept {
  owner_ = std::thread::id();
  mutex_.unlock();
}

Result<std::shared_ptr<CancelObject>> given_cancel(const ballast_cancel* cancel) {
  if (cancel == nullptr) return std::shared_ptr<CancelObject>();
  return use(cancel);
}

Result<Progress> make_progress(ballast_progress_callback callback, void* user, const ballast_cancel* cancel) {
  BALLAST_TRY(auto request, given_cancel(cancel));
  if (callback == nullptr && request == nullptr) return Progress();
  return Progress([callback, user, request = std::move(request)](const ProgressUpdate& update) {
    if (request != nullptr && request->requested) return false;
    if (callback == nullptr) return true;
    const std::string activity(update.activity);
    const ballast_progress progress = {activity.c_str(), update.done, update.total};
    return callback(user, &progress);
  });
}

void log(ballast_log_level level, const std::string& message) {
  Logger& to = logger();
  const std::lock_guard lock(to.mutex);
  if (to.callback == nullptr) return;
  try {
    to.callback(to.user, level, message.c_str());
  } catch (...) {  // the work that it speaks of has succeeded
  }
}

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

uint32_t ballast_abi_version(void) { return BALLAST_ABI_VERSION; }
const char* ballast_version(void) { return version().data(); }  // a literal, which ends with a NUL
size_t ballast_open_handles(void) { return HandleTable::instance().open(); }

ballast_kind ballast_error_kind(const ballast_error* error) {
  if (error == nullptr) return BALLAST_OK;
  return ask_error(error, BALLAST_INVALID_ARGUMENT, [](const ErrorObject& object) { return object.kind; });
}
const char* ballast_error_kind_name(const ballast_error* error) { return kind_name(ballast_error_kind(error)); }
ballast_text ballast_error_message(const ballast_error* error) {
  return ask_error(error, ballast_text{"", 0}, [](const ErrorObject& object) { return to_text(object.message); });
}
const char* ballast_error_remedy_name(const ballast_error* error, size_t index) {
  return ask_error(error, static_cast<const char*>(nullptr), [&](const ErrorObject& object) {
    return index < object.remedies.size() ? remedy_name(object.remedies[index]).data() : nullptr;
  });
}
const char* ballast_error_remedy(const ballast_error* error, size_t index) {
  return ask_error(error, static_cast<const char*>(nullptr), [&](const ErrorObject& object) {
    return index < object.remedies.size() ? remedy_text(object.remedies[index]).data() : nullptr;
  });
}
void ballast_error_free(ballast_error* error) { drop(error); }

void ballast_set_log(ballast_log_callback callback, void* user) {
  Logger& to = logger();
  const std::lock_guard lock(to.mutex);
  to.callback = callback;
  to.user = user;
}

ballast_error* ballast_cancel_create(ballast_cancel** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    *out = hand_out<ballast_cancel>(std::make_shared<CancelObject>());
    return {};
  });
}
void ballast_cancel_request(ballast_cancel* cancel) {
  ask(cancel, false, [](CancelObject& object) { return object.requested = true; });
}
bool ballast_cancel_requested(const ballast_cancel* cancel) {
  return ask(cancel, false, [](const CancelObject& object) { return object.requested.load(); });
}
void ballast_cancel_close(ballast_cancel* cancel) { drop(cancel); }

const void* ballast_buffer_data(const ballast_buffer* buffer) {
  return ask(buffer, static_cast<const void*>(nullptr),
             [](const BufferObject& object) { return static_cast<const void*>(object.bytes.c_str()); });
}
size_t ballast_buffer_size(const ballast_buffer* buffer) {
  return ask(buffer, size_t{0}, [](const BufferObject& object) { return object.bytes.size(); });
}
void ballast_buffer_close(ballast_buffer* buffer) { drop(buffer); }

}  // extern "C"
