// Requests that are damaged at random, and what every answer must be like nevertheless.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/serve/exchange.h"

namespace ballast::testing {

struct FuzzRequest {
  std::string method, path, body;
};

// What real clients sent (tests/data/openai), and bodies that use every member that the service reads.
std::vector<FuzzRequest> fuzz_seeds();

// Changes a request one to four times: bytes, values, members and parts of other seeds, words that mean something.
class RequestMutator {
 public:
  RequestMutator(std::vector<FuzzRequest> seeds, uint64_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  FuzzRequest next();
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void change_bytes(std::string& body);
  void change_value(std::string& body);
  std::string some_value();

  std::vector<FuzzRequest> seeds_;
  std::mt19937_64 random_;
};

// A request as a file of a corpus: the method and the path in a first line, the body behind it.
std::string fuzz_text(const FuzzRequest& request);
FuzzRequest fuzz_request(std::string_view text);

// What is wrong with an answer: a status that says that the service failed, or text that is no JSON or no UTF-8. "":
// nothing.
std::string fault_of(const serve::HttpAnswer& answer);

}  // namespace ballast::testing
