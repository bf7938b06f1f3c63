// The parts of a run, as its configuration names them.
#pragma once

#include "ballast/training/optimizer.h"
#include "ballast/training/schedule.h"
#include "ballast/training/train_config.h"

namespace ballast {

OptimizerConfig optimizer_config(const OptimizerSpec& spec);
// `lr`: the optimizer's; `calls`: of the whole run.
ScheduleConfig schedule_config(const ScheduleSpec& spec, double lr, uint64_t calls);

}  // namespace ballast
