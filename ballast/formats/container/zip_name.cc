// Names of members of zip files.
#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/formats/container/zip.h"

namespace ballast {

namespace {

// A name without the UTF-8 flag is in the code page of the first PC, which is also how Python reads it.
constexpr char16_t kCodePage437[] =
    u"ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    u"└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0";
static_assert(std::size(kCodePage437) == 128 + 1);

}  // namespace

std::optional<std::string> decode_zip_name(std::string_view stored, bool utf8) {
  if (utf8) return is_valid_utf8(stored) ? std::optional<std::string>(stored) : std::nullopt;
  std::string name;
  name.reserve(stored.size());
  for (const char c : stored) {
    const auto byte = static_cast<unsigned char>(c);
    append_utf8(name, byte < 0x80 ? byte : kCodePage437[byte - 0x80]);
  }
  return name;
}

std::string_view unsafe_zip_name(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return "its name holds a zero byte, where programs disagree";
  if (name.find('\\') != std::string_view::npos) return "its name holds a backslash, which some systems take for '/'";
  if (name.starts_with('/')) return "its name is an absolute path";
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.size() >= 3 && is_letter(name[0]) && name[1] == ':' && name[2] == '/') {
    return "its name is an absolute path on a drive";
  }
  for (size_t start = 0; start <= name.size();) {
    const size_t slash = std::min(name.find('/', start), name.size());
    if (name.substr(start, slash - start) == "..") return "its name climbs out of the folder with \"..\"";
    start = slash + 1;
  }
  return {};
}

}  // namespace ballast
