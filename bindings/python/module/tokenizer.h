// Tokenizers for Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ballast/text/chat_format.h"
#include "ballast/text/load_tokenizer.h"
#include "bindings/python/module/id_numbers.h"

namespace ballast::python {

namespace nb = nanobind;

// A tokenizer, and the place where a chat template may stand beside it. Copies share what they hold.
class PyTokenizer {
 public:
  PyTokenizer(Tokenizer tokenizer, std::string path)
      : shared_(std::make_shared<Shared>(std::move(tokenizer), std::move(path))) {}

  const Tokenizer& get() const { return shared_->tokenizer; }
  const std::string& path() const { return shared_->path; }
  // Found at the first call.
  Result<const ChatFormat*> chat() const;
  IdNumbers& numbers() const { return shared_->numbers; }

 private:
  struct Shared {
    Shared(Tokenizer given, std::string its_path)
        : tokenizer(std::move(given)), path(std::move(its_path)), numbers(tokenizer.size()) {}
    const Tokenizer tokenizer;
    const std::string path;
    IdNumbers numbers;
    std::mutex mutex;
    std::optional<ChatFormat> chat;
  };
  std::shared_ptr<Shared> shared_;
};

// The UTF-8 that a str keeps beside itself, for as long as it lives. Raises UnicodeEncodeError for lone surrogates.
std::string_view utf8_of(nb::handle text);

// Of (year, month, day, hour, minute, second).
ClockTime clock_of(const std::vector<int>& now);

void bind_tokenizer(nb::module_& module);

}  // namespace ballast::python
