#include "ballast/serve/form_shelf.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace ballast::serve {

namespace {

// Agents ask for the same few again and again.
constexpr size_t kMostForms = 32;

}  // namespace

Result<Constraint> compile_form(const FormAsk& form) {
  switch (form.kind) {
    case FormAsk::Kind::kJsonObject: return Constraint::of_json_object();
    case FormAsk::Kind::kSchema: return Constraint::of_schema(form.text);
    case FormAsk::Kind::kGrammar: return Constraint::of_grammar(form.text);
    case FormAsk::Kind::kRegex: return Constraint::of_regex(form.text);
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown form of an answer");
}

Result<TokenConstraint> FormShelf::find(const TextModel& model, const FormAsk& form) {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.kind == form.kind && entry.text == form.text; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    make_room();
    return found->constraint;
  }
  BALLAST_TRY(const Constraint constraint, compile_form(form));
  BALLAST_TRY(TokenConstraint of_model, model.constrain(constraint));
  entries_.push_front({form.kind, form.text, of_model});
  make_room();
  return of_model;
}

void FormShelf::make_room() {
  size_t bytes = 0, kept = 0;
  for (const Entry& entry : entries_) {
    bytes += entry.constraint.bytes() + entry.text.size();
    if (kept > 0 && (bytes > most_bytes_ || kept == kMostForms)) break;
    ++kept;
  }
  entries_.erase(std::next(entries_.begin(), static_cast<ptrdiff_t>(kept)), entries_.end());
}

}  // namespace ballast::serve
