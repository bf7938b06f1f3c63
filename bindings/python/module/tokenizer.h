// Tokenizers for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ballast/text/chat_format.h"
#include "ballast/text/load_tokenizer.h"

namespace ballast::python {

namespace nb = nanobind;

// A tokenizer, and the place where a chat template may stand beside it. Copies share what they hold.
class PyTokenizer {
 public:
  PyTokenizer(Tokenizer tokenizer, std::string path)
      : tokenizer_(std::move(tokenizer)), path_(std::move(path)), chat_(std::make_shared<Chat>()) {}

  const Tokenizer& get() const { return tokenizer_; }
  const std::string& path() const { return path_; }
  // Found at the first call.
  Result<const ChatFormat*> chat() const;

 private:
  struct Chat {
    std::mutex mutex;
    std::optional<ChatFormat> format;
  };
  Tokenizer tokenizer_;
  std::string path_;
  std::shared_ptr<Chat> chat_;
};

// The UTF-8 that a str keeps beside itself, for as long as it lives. Raises UnicodeEncodeError for lone surrogates.
std::string_view utf8_of(nb::handle text);

// Of (year, month, day, hour, minute, second).
ClockTime clock_of(const std::vector<int>& now);

void bind_tokenizer(nb::module_& module);

}  // namespace ballast::python
