#include "ballast/ops/context.h"

#include <charconv>

#include "ballast/base/counter_random.h"

namespace ballast {

uint64_t RandomStream::next_key() { return counter_random(counter_random(seed, step), draws++); }

Context::Scope::Scope(Context& context, std::string_view part) : context_(context), before_(context.prefix_.size()) {
  context.prefix_.append(part).push_back('.');
}

Context::Scope::Scope(Context& context, std::string_view part, uint64_t index) : Scope(context, part) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof(digits), index).ptr;
  context.prefix_.append(digits, end).push_back('.');
}

}  // namespace ballast
