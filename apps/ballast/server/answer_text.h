// Answers as bytes of HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/serve/exchange.h"

namespace ballast::cli {

// How the end of an answer's body is told.
enum class Framing : unsigned char {
  kLength,   // by a Content-Length, of HttpAnswer::body or AnswerHead::length
  kChunks,   // by an empty chunk
  kClosing,  // by the end of the connection: for clients that do not know chunks
};

struct AnswerHead {
  Framing framing = Framing::kLength;
  bool keep_alive = true;
  std::string request_id{};
  std::optional<uint64_t> length{};  // of a body that follows; otherwise that of HttpAnswer::body
};

// Status line and headers, with the empty line behind them. Headers with line breaks in them are left out.
std::string head_text(const serve::HttpAnswer& answer, const AnswerHead& head);

// A piece of the body as `framing` wants it. An empty piece gives nothing.
std::string piece_text(std::string_view piece, Framing framing);
std::string_view end_text(Framing framing);

// Whether an answer of this status has a body, and so a length.
bool has_body(int status);

}  // namespace ballast::cli
