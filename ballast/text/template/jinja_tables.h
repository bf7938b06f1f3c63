// The tables behind find_filter and its like; each is defined beside its rows.
#pragma once

#include <span>

#include "ballast/text/template/jinja_builtins.h"

namespace ballast::jinja {

std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> tests();
std::span<const Builtin> functions();
std::span<const Builtin> text_methods();
std::span<const Builtin> mapping_methods();
std::span<const Builtin> sequence_methods();
std::span<const Builtin> loop_methods();

}  // namespace ballast::jinja
