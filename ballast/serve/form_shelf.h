// The forms of answers that a model's requests ask for, compiled once each.
#pragma once

#include <list>
#include <string>

#include "ballast/runtime/text_model.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// One thread at a time: that which prepares requests. So a large schema holds up no running answer.
class FormShelf {
 public:
  // kInvalidArgument and kUnsupported say what is wrong with the form.
  Result<TokenConstraint> find(const TextModel& model, const FormAsk& form);

 private:
  struct Entry {
    FormAsk::Kind kind;
    std::string text;
    TokenConstraint constraint;
  };
  std::list<Entry> entries_;  // those that were asked for last come first
};

// Without a vocabulary.
Result<Constraint> compile_form(const FormAsk& form);

}  // namespace ballast::serve
