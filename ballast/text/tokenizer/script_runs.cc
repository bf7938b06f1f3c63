#include "ballast/text/tokenizer/script_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ballast/text/tokenizer/text_pattern.h"

namespace ballast {

namespace {

// Unicode's scripts but for those of Japanese, with names as PCRE2 takes them.
constexpr std::string_view kScripts =
    "Adlam Ahom AnatolianHieroglyphs Arabic Armenian Avestan Balinese Bamum BassaVah Batak Bengali Bhaiksuki Bopomofo "
    "Brahmi Braille Buginese Buhid CanadianAboriginal Carian CaucasianAlbanian Chakma Cham Cherokee Chorasmian Common "
    "Coptic Cuneiform Cypriot CyproMinoan Cyrillic Deseret Devanagari DivesAkuru Dogra Duployan EgyptianHieroglyphs "
    "Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati GunjalaGondi Gurmukhi Hangul "
    "HanifiRohingya Hanunoo Hatran Hebrew ImperialAramaic Inherited InscriptionalPahlavi InscriptionalParthian "
    "Javanese Kaithi Kannada KayahLi Kharoshthi KhitanSmallScript Khmer Khojki Khudawadi Lao Latin Lepcha Limbu "
    "LinearA LinearB Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen MasaramGondi Medefaidrin "
    "MeeteiMayek MendeKikakui MeroiticCursive MeroiticHieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean "
    "Nandinagari NewTaiLue Newa Nko Nushu NyiakengPuachueHmong Ogham OlChiki OldHungarian OldItalic OldNorthArabian "
    "OldPermic OldPersian OldSogdian OldSouthArabian OldTurkic OldUyghur Oriya Osage Osmanya PahawhHmong Palmyrene "
    "PauCinHau PhagsPa Phoenician PsalterPahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting "
    "Sinhala Sogdian SoraSompeng Soyombo Sundanese SylotiNagri Syriac Tagalog Tagbanwa TaiLe TaiTham TaiViet Takri "
    "Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Unknown Vai Vithkuqi Wancho "
    "WarangCiti Yezidi Yi ZanabazarSquare";

// A run is a character of a script, then more of it and spaces.
std::string runs_expression() {
  std::string expression;
  const auto add = [&](std::string_view set) {
    expression += fmt::format("{}(?![ ])[{}][{} ]*", expression.empty() ? "" : "|", set, set);
  };
  add(R"(\p{sc:Han}\p{sc:Hiragana}\p{sc:Katakana}\x{30FC})");
  for (size_t at = 0; at < kScripts.size();) {
    const size_t end = std::min(kScripts.find(' ', at), kScripts.size());
    const std::string_view script = kScripts.substr(at, end - at);
    add(fmt::format("\\p{{sc:{}}}", script));
    at = end + 1;
  }
  return expression;
}

}  // namespace

Result<std::vector<std::string_view>> script_runs(std::string_view text) {
  static const Result<TextPattern> pattern = TextPattern::expression(runs_expression());
  if (!pattern) {
    return make_error(ErrorCode::kUnsupported, "the installed PCRE2 cannot tell scripts apart (10.40 or newer can)");
  }
  BALLAST_TRY(const auto matches, pattern->find_all(text));
  std::vector<std::string_view> runs;
  for (const auto& [begin, end] : matches) runs.push_back(text.substr(begin, end - begin));
  return runs;
}

}  // namespace ballast
