#include "apps/ballast/server/answer_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "apps/ballast/server/request_head.h"

namespace ballast::cli {

namespace {

struct StatusWords {
  int status;
  std::string_view words;
};
constexpr StatusWords kStatusWords[] = {
    {200, "OK"},
    {204, "No Content"},
    {206, "Partial Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {529, "Overloaded"},
};

std::string_view status_words(int status) {
  const auto found = std::ranges::find(kStatusWords, status, &StatusWords::status);
  return found == std::end(kStatusWords) ? "Unknown" : found->words;
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  // Not strftime: its names of days depend on the locale.
  constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday,
                     kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool is_one_line(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos; }

bool has_header(const serve::HttpAnswer& answer, std::string_view name) {
  return std::ranges::any_of(answer.headers, [&](const auto& header) { return same_letters(header.first, name); });
}

void add_header(std::string& text, std::string_view name, std::string_view value) {
  if (is_one_line(name) && is_one_line(value)) text += fmt::format("{}: {}\r\n", name, value);
}

// Unless the answer says it itself.
void add_default(std::string& text, const serve::HttpAnswer& answer, std::string_view name, std::string_view value) {
  if (!has_header(answer, name)) add_header(text, name, value);
}

}  // namespace

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

std::string head_text(const serve::HttpAnswer& answer, const AnswerHead& head) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", answer.status, status_words(answer.status));
  add_header(text, "date", http_date());
  if (!answer.content_type.empty()) add_header(text, "content-type", answer.content_type);
  if (head.framing == Framing::kChunks) add_header(text, "transfer-encoding", "chunked");
  if (head.framing == Framing::kLength && has_body(answer.status))
    add_header(text, "content-length", std::to_string(head.length.value_or(answer.body.size())));
  add_header(text, "connection", head.keep_alive ? "keep-alive" : "close");
  for (const auto& [name, value] : answer.headers) add_header(text, name, value);
  add_default(text, answer, "x-request-id", head.request_id);
  add_default(text, answer, "cache-control", "no-store");
  add_default(text, answer, "content-security-policy", "default-src 'none'; frame-ancestors 'none'");
  add_default(text, answer, "x-content-type-options", "nosniff");
  add_default(text, answer, "referrer-policy", "no-referrer");
  const bool is_shared = has_header(answer, "access-control-allow-origin");
  add_default(text, answer, "cross-origin-resource-policy", is_shared ? "cross-origin" : "same-origin");
  return text + "\r\n";
}

std::string piece_text(std::string_view piece, Framing framing) {
  if (piece.empty()) return {};  // an empty chunk would be the end
  if (framing != Framing::kChunks) return std::string(piece);
  return fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
}

std::string_view end_text(Framing framing) { return framing == Framing::kChunks ? "0\r\n\r\n" : ""; }

}  // namespace ballast::cli
