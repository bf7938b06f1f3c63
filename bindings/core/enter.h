// How every function of ballast_core.h begins and ends.
#pragma once

#include <ballast_core.h>

#include "ballast/base/result.h"
#include "bindings/core/arena.h"

namespace ballast::core {

// Keeps the message for ballast_core_message().
ballast_core_code report(ErrorCode code, std::string_view message);
ballast_core_code report_full(const Arena& arena, size_t wanted);
ballast_core_code report_defect(const char* what);

// Runs `work`, which gives a Status, with the arena as the memory of new. Nothing that `work` made survives a failure.
template <typename Work>
ballast_core_code enter(Arena& arena, const Work& work) {
  Call call{.arena = &arena, .outer = running_call(), .wanted = 0, .defect = nullptr, .out = {}};
  arena.begin_call();
  set_running_call(&call);
  if (setjmp(call.out) != 0) {
    Call* left = running_call();  // not `call`: the jump may have lost what a register held
    set_running_call(left->outer);
    left->arena->roll_back();
    return left->defect != nullptr ? report_defect(left->defect) : report_full(*left->arena, left->wanted);
  }
  ballast_core_code code = BALLAST_CORE_OK;
  if (const Status status = work(); !status) code = report(status.error().code, status.error().message);
  set_running_call(call.outer);
  if (code != BALLAST_CORE_OK) arena.roll_back();
  return code;
}

}  // namespace ballast::core
