// Why a request is not answered, before it takes the shape that its client expects.
#pragma once

#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/serve/exchange.h"

namespace ballast::serve {

struct Refusal {
  int status = 400;
  std::string message{};
  std::string param{};       // the member of the request that is to blame; empty: none
  std::string code{};        // a word for programs; empty: none
  unsigned retry_after = 0;  // seconds; 0: not said
  bool may_retry = true;     // off: the same request would fail again, although the status invites to try
};

// Ends messages whose cause is in the log alone: clients are not told names of files and devices.
inline constexpr std::string_view kLogSaysWhy = "; the server's log says why";

// Whose clients read the answer.
enum class Dialect : unsigned char { kOpenAi, kOllama, kAnthropic };

Dialect dialect_of(std::string_view path);

// What a client sent, or names, short enough for a message and cut between characters.
std::string shortened(std::string_view text, size_t most_bytes);
inline constexpr size_t kShownNameBytes = 100;

// The JSON of the error, for a whole answer or for a piece of one that has begun.
std::string error_json(const Refusal& refusal, Dialect dialect);
HttpAnswer to_answer(const Refusal& refusal, Dialect dialect);
HttpAnswer json_answer(std::string body);

// What the client did wrong is told to it; what went wrong here is not, since messages name files and devices.
Refusal refusal_of(const Error& error);
// Of what the deadline of the server has come before.
Refusal late_refusal();
bool is_clients_fault(const Error& error);

}  // namespace ballast::serve
