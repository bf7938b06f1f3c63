// The members of a request's JSON object, read with their types and ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json_object.h"
#include "ballast/base/token_id.h"
#include "ballast/serve/refusal.h"

namespace ballast::serve {

// null counts as absent. The first thing that is wrong is kept, and everything that is asked for after it is absent: so
// a reader asks for all it knows and looks once, at the end, whether something was wrong. The text must outlive it.
class Fields {
 public:
  // `text`: a JSON object.
  explicit Fields(std::string_view text);

  const std::optional<Refusal>& refusal() const { return *refusal_; }
  void refuse(std::string_view key, std::string_view what, std::string_view code = "");
  // "model.options": how clients are told about a member.
  std::string path(std::string_view key) const { return path_ + std::string(key); }

  std::optional<std::string_view> raw(std::string_view key) const;
  bool has(std::string_view key) const { return raw(key).has_value(); }

  std::optional<bool> truth(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<double> number(std::string_view key, double least, double most);
  // Whole; 3.0 is whole too.
  std::optional<int64_t> whole(std::string_view key, int64_t least, int64_t most);
  std::optional<uint64_t> count(std::string_view key, uint64_t least, uint64_t most);
  // One text, or a list of them.
  std::vector<std::string> texts(std::string_view key, size_t most);
  // The raw texts of a list's elements.
  std::vector<std::string_view> elements(std::string_view key, size_t most);
  // Tells what is wrong to this object's refusal.
  std::optional<Fields> object(std::string_view key);
  // Of an element of a list of objects; `name` is what errors call it.
  Fields element(std::string_view text, const std::string& name);

 private:
  Fields(std::string_view text, std::string path, std::shared_ptr<std::optional<Refusal>> refusal);

  std::string path_;  // of this object inside the request, with a point at its end
  std::shared_ptr<std::optional<Refusal>> refusal_;
  std::optional<JsonObject> object_;
};

// What the raw text of a value begins like.
bool is_json_string(std::string_view raw);
bool is_json_array(std::string_view raw);
bool is_json_object(std::string_view raw);

// nullopt: the raw text is something else than a list of token ids. Millions of them are read at once.
std::optional<std::vector<TokenId>> token_list(std::string_view raw);

}  // namespace ballast::serve
