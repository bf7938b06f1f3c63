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
  // What the forms may need together, with what they learn of the vocabulary. The one that was asked for last stays.
  static constexpr size_t kMostBytes = size_t{256} << 20U;

  explicit FormShelf(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}
  // kInvalidArgument and kUnsupported say what is wrong with the form.
  Result<TokenConstraint> find(const TextModel& model, const FormAsk& form);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    FormAsk::Kind kind;
    std::string text;
    TokenConstraint constraint;
  };
  // Forms grow while they are used, so it is asked each time.
  void make_room();

  size_t most_bytes_;
  std::list<Entry> entries_;  // those that were asked for last come first
};

// Without a vocabulary.
Result<Constraint> compile_form(const FormAsk& form);

}  // namespace ballast::serve
