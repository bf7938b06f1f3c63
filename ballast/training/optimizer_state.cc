// The state of optimizers as netcl's JSON has it.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"
#include "ballast/training/json_values.h"
#include "ballast/training/optimizer.h"

namespace ballast {

namespace {

constexpr auto kDialect = JsonReader::Dialect::kPython;
const std::string kWhere = "the optimizer's state";

bool has_suffix(const StateTensor& tensor, std::string_view slot) {
  return tensor.info.name.ends_with(fmt::format(".{}", slot));
}

std::vector<StateTensor> of_slot(const std::vector<StateTensor>& tensors, std::string_view slot) {
  std::vector<StateTensor> found;
  std::ranges::copy_if(tensors, std::back_inserter(found), [&](const StateTensor& t) { return has_suffix(t, slot); });
  return found;
}

std::span<float> floats(const StateTensor& tensor) {
  return {reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float)};
}

void append_list(std::string& out, std::string_view key, const std::vector<StateTensor>& tensors) {
  out += fmt::format("{}\"{}\": [", out.size() > 1 ? ", " : "", key);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) out += ", ";
    append_nested(out, tensors[i].info.shape, floats(tensors[i]));
  }
  out += ']';
}

// One list of values per parameter, read aside so that a fault changes nothing.
using Values = std::vector<std::vector<float>>;

Error wrong_count(std::string_view key, size_t expected) {
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: \"{}\" must be a list with one entry for each of {} parameters", kWhere, key, expected));
}

Result<std::vector<float>> read_one(JsonReader& json, const StateTensor& tensor) {
  std::vector<float> values(floats(tensor).size());
  BALLAST_CHECK(read_nested(json, tensor.info.shape, values, tensor.info.name));
  return values;
}

Result<Values> read_list(std::string_view raw, std::string_view key, const std::vector<StateTensor>& tensors) {
  JsonReader json(raw, kWhere, 0, kDialect);
  Values values;
  if (!json.enter_array()) return wrong_count(key, tensors.size());
  for (;;) {
    const auto more = json.next_element();
    if (!more || *more != (values.size() < tensors.size())) return wrong_count(key, tensors.size());
    if (!*more) return values;
    BALLAST_TRY(auto one, read_one(json, tensors[values.size()]));
    values.push_back(std::move(one));
  }
}

// [[m, v], ...]
Status read_moments(std::string_view raw, const std::vector<StateTensor>& m, const std::vector<StateTensor>& v,
                    Values& m_values, Values& v_values) {
  JsonReader json(raw, kWhere, 0, kDialect);
  const Error wrong = wrong_count("moments", m.size());
  if (!json.enter_array()) return wrong;
  for (;;) {
    const auto more = json.next_element();
    if (!more || *more != (m_values.size() < m.size())) return wrong;
    if (!*more) return {};
    const size_t i = m_values.size();
    if (!json.enter_array()) return wrong;
    for (auto [tensors, values] : {std::pair(&m, &m_values), std::pair(&v, &v_values)}) {
      const auto element = json.next_element();
      if (!element || !*element) return wrong;
      BALLAST_TRY(auto one, read_one(json, (*tensors)[i]));
      values->push_back(std::move(one));
    }
    const auto end = json.next_element();
    if (!end || *end) return wrong;
  }
}

void put(const std::vector<StateTensor>& tensors, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) std::ranges::copy(values[i], floats(tensors[i]).begin());
}

constexpr std::string_view kPlainSlots[] = {"velocity", "square_mean", "buffer"};

}  // namespace

std::string Optimizer::state_dict() const {
  // Only looked at; the tensors' spans are those of whoever loads.
  const std::vector<StateTensor> tensors = const_cast<Optimizer*>(this)->state_tensors();
  std::string out = "{";
  const auto m = of_slot(tensors, "m"), v = of_slot(tensors, "v");
  const bool has_moments = type() == "Adam" || type() == "AdamW";
  if (has_moments) out += fmt::format("\"t\": {}", steps_);
  if (type() == "Adam") {
    append_list(out, "m", m);
    append_list(out, "v", v);
  } else if (type() == "AdamW") {
    out += ", \"moments\": [";
    for (size_t i = 0; i < m.size(); ++i) {
      out += i > 0 ? ", [" : "[";
      append_nested(out, m[i].info.shape, floats(m[i]));
      out += ", ";
      append_nested(out, v[i].info.shape, floats(v[i]));
      out += ']';
    }
    out += ']';
  } else {
    for (const std::string_view slot : kPlainSlots) {
      const auto found = of_slot(tensors, slot);
      if (!found.empty()) append_list(out, slot, found);
    }
  }
  return out + "}";
}

Status Optimizer::load_state_dict(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, kWhere));
    const std::vector<StateTensor> tensors = state_tensors();
    const auto m = of_slot(tensors, "m"), v = of_slot(tensors, "v");
    std::vector<std::pair<std::vector<StateTensor>, Values>> loads;
    const auto list = [&](std::string_view key, const std::vector<StateTensor>& into) -> Status {
      const auto raw = object.find(key);
      if (!raw) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" is missing", kWhere, key));
      BALLAST_TRY(Values values, read_list(*raw, key, into));
      loads.emplace_back(into, std::move(values));
      return {};
    };
    uint64_t steps = steps_;
    if (type() == "Adam" || type() == "AdamW") {
      BALLAST_TRY(const auto t, object.find_count("t"));
      if (!t) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: \"t\" is missing", kWhere));
      steps = *t;
      if (const auto moments = object.find("moments")) {
        Values m_values, v_values;
        BALLAST_CHECK(read_moments(*moments, m, v, m_values, v_values));
        loads.emplace_back(m, std::move(m_values));
        loads.emplace_back(v, std::move(v_values));
      } else {
        BALLAST_CHECK(list("m", m));
        BALLAST_CHECK(list("v", v));
      }
    }
    for (const std::string_view slot : kPlainSlots) {
      if (const auto found = of_slot(tensors, slot); !found.empty()) BALLAST_CHECK(list(slot, found));
    }
    for (const auto& [into, values] : loads) put(into, values);
    steps_ = steps;
    return {};
  });
}

}  // namespace ballast
