// What fmt's library has, of that only what the core calls: the library's own file also formats system errors, for
// which libstdc++ keeps its categories of errors in every program. Inline functions, as header-only fmt has them, exist
// where somebody asks for their address.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace {

[[gnu::used]] std::string (*const format_text)(fmt::string_view, fmt::format_args) = &fmt::vformat;

}  // namespace

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
