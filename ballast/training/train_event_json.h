// What a run tells about itself, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/training/train_event.h"

namespace ballast {

// {"step":12,"loss":0.5,"lr":0.001,"grad_norm":1.25,"items":64,"seconds":0.002}; other events have an "event" first:
// {"event":"eval","step":12,"loss":...}. Decimals are the shortest that give the same number back; what is not finite
// is a text ("nan"). Without a newline.
std::string to_json_line(const TrainEvent& event);
// The reverse. Unknown keys are passed over, so that later releases may add some.
Result<TrainEvent> parse_json_line(std::string_view line, const std::string& where);

}  // namespace ballast
